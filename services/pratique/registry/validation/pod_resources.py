"""Resources of Pods as a whole: claims of devices, and requests and limits above those of containers.

Source: ``validatePodResourceClaims`` and ``validatePodResources`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery import names
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import (
    NAMELESS,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.pods.resource_requirements import ResourceList, aggregate_containers, container_requirements
from pratique.registry.go_values import internal_value
from pratique.registry.validation.metadata import subdomain_name
from pratique.registry.validation.pod_context import PodContext
from pratique.registry.validation.resource_amounts import (
    is_huge_page,
    validate_requirements,
    validate_resource_name,
)

_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def validate_resource_claims(
    claims: Sequence[JSONObject], path: FieldPath, *, is_mirror: bool
) -> list[FieldError]:
    """Validate the claims of a Pod, of which one ``is_mirror`` may have none."""
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, claim in enumerate(claims):
        place, name = path / index, claim.get("name", "")
        if is_mirror:
            errors.append(forbidden(NAMELESS, "static pods do not support resource claims"))
            continue
        if not name:
            errors.append(required(place / "name"))
        elif name in found:
            errors.append(duplicate(place / "name", name))
        else:
            errors += [invalid(place / "name", name, message) for message in names.check_dns1123_label(name)]
            found.add(name)
        errors += _validate_claim_source(claim, place)
    return errors


def _validate_claim_source(claim: JSONObject, path: FieldPath) -> list[FieldError]:
    given = [field for field in _CLAIM_SOURCES if claim.get(field) is not None]
    errors = []
    if len(given) != 1:
        which = "`resourceClaimName`, `resourceClaimTemplateName`"
        detail = (
            f"at most one of {which.replace(', ', ' or ')} may be specified"
            if given
            else f"must specify one of: {which}"
        )
        errors.append(invalid(path, internal_value("core.PodResourceClaim", claim), detail))
    return errors + [
        invalid(path / field, claim[field], message)
        for field in given
        for message in subdomain_name(claim[field], False)
    ]


def _validate_pod_resource_name(name: str, path: FieldPath) -> list[FieldError]:
    errors = validate_resource_name(name, path)
    if errors or name in {"cpu", "memory"} or is_huge_page(name):
        return errors
    return [not_supported(path, name, ("cpu", "hugepages-", "memory"))]


def validate_pod_resources(spec: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    """Validate the requests and limits of a Pod itself, which hold for all containers together."""
    resources = spec["resources"]
    if pod.os_name == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors = []
    if resources.get("claims") is not None:
        errors.append(forbidden(path / "claims", "claims may not be set for Resources at pod-level"))
    errors += validate_requirements(
        resources,
        path,
        name_rule=_validate_pod_resource_name,
        claim_names=pod.claim_names,
        indivisible_huge_pages=pod.options.indivisible_huge_pages,
    )
    return errors + _validate_consistency(spec, path)


def _total(spec: JSONObject, kind: str) -> ResourceList:
    regular, initial = (
        container_requirements({"spec": spec}, field) for field in ("containers", "initContainers")
    )
    return aggregate_containers(
        [getattr(container.requirements, kind) for container in regular],
        [(getattr(container.requirements, kind), container.restartable) for container in initial],
    )


def _validate_consistency(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate that containers ask for no more than their Pod: ``validatePodResourceConsistency``."""
    resources, errors = spec["resources"], []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    try:
        requested, limited = _total(spec, "requests"), _total(spec, "limits")
    except RefusalError:
        return []
    for kind, own, total in (("requests", requests, requested), ("limits", limits, limited)):
        for name, amount in sorted(total.items()):
            if name not in own or (kind == "limits" and not is_huge_page(name)):
                continue
            whole = Quantity.from_json(own[name])
            if amount.compare(whole) > 0:
                detail = f"must be greater than or equal to aggregate container {kind} of {amount}"
                errors.append(invalid((path / kind).key(name), str(whole), detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, value in sorted(((container.get("resources") or {}).get("limits") or {}).items()):
            if name not in limits:
                continue
            limit, amount = Quantity.from_json(limits[name]), Quantity.from_json(value)
            if amount.compare(limit) > 0:
                place = (path / "containers" / index).key(name) / "limits"
                detail = f"must be less than or equal to pod limits of {limit}"
                errors.append(invalid(place, str(amount), detail))
    return errors
