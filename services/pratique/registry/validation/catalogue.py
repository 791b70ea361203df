"""The validations of all built-in kinds and of their subresources."""

from __future__ import annotations

from collections.abc import Iterable

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation import (
    admissionregistration,
    apiregistration,
    autoscaling,
    certificates,
    coordination,
    core_objects,
    device_resources,
    discovery,
    events,
    flowcontrol,
    ingresses,
    jobs,
    limits_and_quotas,
    networking,
    nodes,
    persistent_volumes,
    pod_certificate_requests,
    pods,
    policy,
    rbac,
    runtime_classes,
    scheduling,
    services,
    signing_requests,
    stateful_sets,
    storage,
    storage_versions,
    workloads,
)
from pratique.registry.validation.device_claim_statuses import DEVICE_CLAIM_STATUS_VALIDATIONS
from pratique.registry.validation.job_statuses import JOB_STATUS_VALIDATIONS
from pratique.registry.validation.kind_validation import (
    Errors,
    KindValidation,
    SubresourceTable,
    ValidationTable,
)
from pratique.registry.validation.pod_certificate_statuses import POD_CERTIFICATE_STATUS_VALIDATIONS
from pratique.registry.validation.pod_resizes import POD_RESIZE_VALIDATIONS
from pratique.registry.validation.pod_statuses import POD_STATUS_VALIDATIONS
from pratique.registry.validation.status_updates import STATUS_VALIDATIONS

_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


def _of_definitions() -> KindValidation:
    # Imported here, because its rules need CEL, which takes a tenth of a second, and most manifests are no definitions.
    from pratique.registry.custom_resources import definitions  # noqa: PLC0415 - see above

    return definitions.VALIDATIONS[_DEFINITIONS]


def _create_definition(written: JSONObject, review: Review) -> Errors:
    return _of_definitions().create(written, review)


def _update_definition(written: JSONObject, old: JSONObject, review: Review) -> Errors:
    return _of_definitions().update(written, old, review)


def _warn_of_definition(written: JSONObject, old: JSONObject | None, review: Review) -> Iterable[str]:
    return _of_definitions().warnings(written, old, review)


VALIDATIONS: ValidationTable = {
    **admissionregistration.VALIDATIONS,
    **apiregistration.VALIDATIONS,
    **autoscaling.VALIDATIONS,
    **certificates.VALIDATIONS,
    **coordination.VALIDATIONS,
    **core_objects.VALIDATIONS,
    _DEFINITIONS: KindValidation(_create_definition, _update_definition, _warn_of_definition),
    **device_resources.VALIDATIONS,
    **discovery.VALIDATIONS,
    **events.VALIDATIONS,
    **flowcontrol.VALIDATIONS,
    **ingresses.VALIDATIONS,
    **jobs.VALIDATIONS,
    **limits_and_quotas.VALIDATIONS,
    **networking.VALIDATIONS,
    **nodes.VALIDATIONS,
    **persistent_volumes.VALIDATIONS,
    **pod_certificate_requests.VALIDATIONS,
    **pods.VALIDATIONS,
    **policy.VALIDATIONS,
    **rbac.VALIDATIONS,
    **runtime_classes.VALIDATIONS,
    **scheduling.VALIDATIONS,
    **services.VALIDATIONS,
    **signing_requests.VALIDATIONS,
    **stateful_sets.VALIDATIONS,
    **storage.VALIDATIONS,
    **storage_versions.VALIDATIONS,
    **workloads.VALIDATIONS,
}
"""The validation of every built-in kind that has one."""

SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    **DEVICE_CLAIM_STATUS_VALIDATIONS,
    **JOB_STATUS_VALIDATIONS,
    **POD_CERTIFICATE_STATUS_VALIDATIONS,
    **POD_RESIZE_VALIDATIONS,
    **POD_STATUS_VALIDATIONS,
    **STATUS_VALIDATIONS,
    **signing_requests.SIGNING_VALIDATIONS,
    **storage_versions.STORAGE_VERSION_STATUS_VALIDATIONS,
}
"""The validation of updates of subresources, where there is more to it than metadata and tags."""
