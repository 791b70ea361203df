"""What an update of a Pod or a template may keep, though a new one could not have it.

Source: ``GetValidationOptionsFromPodSpecAndMeta`` of ``pkg/api/pod/util.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.registry.validation.metadata import validate_label_selector
from pratique.registry.validation.pod_annotations import is_deletion_cost
from pratique.registry.validation.pod_context import OF_NEW_POD, OF_NEW_TEMPLATE, PodOptions, visit_containers
from pratique.registry.validation.resource_amounts import is_huge_page, validate_huge_pages
from pratique.registry.validation.scheduling_constraints import validate_label_keys, validate_term_selectors
from pratique.registry.validation.security_contexts import SYS_ADMIN, host_namespace
from pratique.registry.validation.volume_paths import validate_file_path

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def options_beside(stored: JSONObject | None, *, is_pod: bool) -> PodOptions:
    """What is allowed beside a stored Pod or template; None if there is none."""
    if stored is None:
        return OF_NEW_POD if is_pod else OF_NEW_TEMPLATE
    spec = mapping_at(stored, "spec")
    containers = [container for container, _ in visit_containers(spec, ROOT)]
    spreads = list_at(spec, "topologySpreadConstraints")
    return PodOptions(
        is_pod=is_pod,
        invalid_deletion_cost=not is_deletion_cost(mapping_at(stored, "metadata", "annotations")),
        invalid_selector_values=any(validate_term_selectors(term, ROOT) for term in _pod_terms(spec)),
        invalid_spread_selectors=any(
            validate_label_selector(item.get("labelSelector"), ROOT) for item in spreads
        ),
        legacy_spread_keys=any(validate_label_keys(item, ROOT) for item in spreads),
        invalid_node_label_values=_has_invalid_node_labels(spec),
        indivisible_huge_pages=any(
            validate_huge_pages(name, amount, ROOT)
            for container in containers
            for kind in ("requests", "limits")
            for name, amount in mapping_at(container, "resources", kind).items()
            if is_huge_page(name)
        ),
        host_sysctls=any(
            host_namespace(sysctl.get("name", ""), spec)
            for sysctl in list_at(spec, "securityContext", "sysctls")
        ),
        token_paths_outside=any(
            validate_file_path(mapping_at(source, "serviceAccountToken").get("path", ""), ROOT)
            for volume in list_at(spec, "volumes")
            for source in list_at(volume, "projected", "sources")
        ),
        restarts_of_init_containers=any(
            resize.get("restartPolicy") == "RestartContainer"
            for container in list_at(spec, "initContainers")
            if container.get("restartPolicy") != "Always"
            for resize in list_at(container, "resizePolicy")
        ),
        devices_of_user_namespaces=spec.get("hostUsers") is False
        and any(container.get("volumeDevices") for container in containers),
        comparing_tolerations=any(
            item.get("operator") in {"Lt", "Gt"} for item in list_at(spec, "tolerations")
        ),
        empty_image_references=any(
            volume.get("image") is not None and not volume["image"].get("reference")
            for volume in list_at(spec, "volumes")
        ),
        sys_admin_without_escalation=any(
            SYS_ADMIN in list_at(container, "securityContext", "capabilities", "add")
            for container in containers
            if mapping_at(container, "securityContext").get("allowPrivilegeEscalation") is not True
        ),
    )


def _pod_terms(spec: JSONObject) -> Iterator[JSONObject]:
    for field in ("podAffinity", "podAntiAffinity"):
        yield from list_at(spec, "affinity", field, _REQUIRED)
        for weighted in list_at(spec, "affinity", field, _PREFERRED):
            yield weighted.get("podAffinityTerm") or {}


def _has_invalid_node_labels(spec: JSONObject) -> bool:
    return any(
        names.check_label_value(value)
        for term in list_at(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
        for requirement in list_at(term, "matchExpressions")
        for value in list_at(requirement, "values")
    )
