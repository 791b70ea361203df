"""The validations of all built-in kinds and of their subresources, imported when an object of the kind comes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from pratique.registry.validation.kind_validation import (
    KindValidation,
    SubresourceTable,
    SubresourceValidation,
    ValidationTable,
)

_VALIDATION = "pratique.registry.validation"
_KINDS: Mapping[str, str] = {
    "": f"{_VALIDATION}.core_objects",
    "/events": f"{_VALIDATION}.events",
    "/limitranges": f"{_VALIDATION}.limits_and_quotas",
    "/nodes": f"{_VALIDATION}.nodes",
    "/persistentvolumeclaims": f"{_VALIDATION}.persistent_volumes",
    "/persistentvolumes": f"{_VALIDATION}.persistent_volumes",
    "/pods": f"{_VALIDATION}.pods",
    "/podtemplates": f"{_VALIDATION}.workloads",
    "/replicationcontrollers": f"{_VALIDATION}.workloads",
    "/resourcequotas": f"{_VALIDATION}.limits_and_quotas",
    "/services": f"{_VALIDATION}.services",
    "admissionregistration.k8s.io": f"{_VALIDATION}.admissionregistration",
    "apiextensions.k8s.io": "pratique.registry.custom_resources.definitions",
    "apiregistration.k8s.io": f"{_VALIDATION}.apiregistration",
    "apps": f"{_VALIDATION}.workloads",
    "apps/controllerrevisions": f"{_VALIDATION}.stateful_sets",
    "apps/statefulsets": f"{_VALIDATION}.stateful_sets",
    "autoscaling": f"{_VALIDATION}.autoscaling",
    "batch": f"{_VALIDATION}.jobs",
    "certificates.k8s.io/certificatesigningrequests": f"{_VALIDATION}.signing_requests",
    "certificates.k8s.io/clustertrustbundles": f"{_VALIDATION}.certificates",
    "certificates.k8s.io/podcertificaterequests": f"{_VALIDATION}.pod_certificate_requests",
    "coordination.k8s.io": f"{_VALIDATION}.coordination",
    "discovery.k8s.io": f"{_VALIDATION}.discovery",
    "flowcontrol.apiserver.k8s.io": f"{_VALIDATION}.flowcontrol",
    "internal.apiserver.k8s.io": f"{_VALIDATION}.storage_versions",
    "networking.k8s.io": f"{_VALIDATION}.networking",
    "networking.k8s.io/ingresses": f"{_VALIDATION}.ingresses",
    "node.k8s.io": f"{_VALIDATION}.runtime_classes",
    "policy": f"{_VALIDATION}.policy",
    "rbac.authorization.k8s.io": f"{_VALIDATION}.rbac",
    "resource.k8s.io": f"{_VALIDATION}.device_resources",
    "scheduling.k8s.io": f"{_VALIDATION}.scheduling",
    "storage.k8s.io": f"{_VALIDATION}.storage",
    "storagemigration.k8s.io": f"{_VALIDATION}.storage_versions",
}
"""The module whose ``VALIDATIONS`` has a resource, by API group, or by group and resource where modules share one."""

_SUBRESOURCES: Mapping[str, str] = {
    "": f"{_VALIDATION}.status_updates",
    "/pods/ephemeralcontainers": f"{_VALIDATION}.pod_resizes",
    "/pods/resize": f"{_VALIDATION}.pod_resizes",
    "/pods/status": f"{_VALIDATION}.pod_statuses",
    "batch/jobs/status": f"{_VALIDATION}.job_statuses",
    "certificates.k8s.io/certificatesigningrequests/approval": f"{_VALIDATION}.signing_requests",
    "certificates.k8s.io/certificatesigningrequests/status": f"{_VALIDATION}.signing_requests",
    "certificates.k8s.io/podcertificaterequests/status": f"{_VALIDATION}.pod_certificate_statuses",
    "internal.apiserver.k8s.io/storageversions/status": f"{_VALIDATION}.storage_versions",
    "resource.k8s.io/resourceclaims/status": f"{_VALIDATION}.device_claim_statuses",
}
"""The module whose ``SUBRESOURCE_VALIDATIONS`` has a subresource; that of all others is under the empty name."""


def validation_of(group: str, resource: str) -> KindValidation | None:
    """The validation of a built-in kind; None if it has none."""
    module = _KINDS.get(f"{group}/{resource}") or _KINDS.get(group)
    if module is None:
        return None
    validations: ValidationTable = importlib.import_module(module).VALIDATIONS
    return validations.get((group, resource))


def subresource_validation_of(group: str, resource: str, subresource: str) -> SubresourceValidation | None:
    """The validation of updates of a subresource; None if there is no more to it than metadata and tags."""
    module = _SUBRESOURCES.get(f"{group}/{resource}/{subresource}", _SUBRESOURCES[""])
    validations: SubresourceTable = importlib.import_module(module).SUBRESOURCE_VALIDATIONS
    return validations.get((group, resource, subresource))
