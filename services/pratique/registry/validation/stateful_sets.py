"""StatefulSets, and the ControllerRevisions that they and DaemonSets are rolled back by.

Source: ``pkg/apis/apps/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.selectors import validate_labels
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    label_name,
    subdomain_name,
    validate_annotations,
    validate_immutable,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)
from pratique.registry.validation.numbers import (
    number_or_percent,
    validate_at_most_all,
    validate_number_or_percent,
)
from pratique.registry.validation.persistent_volume_claims import (
    claim_spec_warnings,
    validate_claim_spec,
)
from pratique.registry.validation.pod_spec import validate_pod_template
from pratique.registry.validation.pod_warnings import pod_template_warnings
from pratique.registry.validation.workloads import (
    is_new_generation,
    selector_value,
    validate_selected,
    validate_selector_update,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_SELECTOR, _TEMPLATE = _SPEC / "selector", _SPEC / "template"
_MANAGEMENT = ("OrderedReady", "Parallel")


def _spec(
    spec: JSONObject, old_spec: JSONObject | None, review: Review, *, with_pods: bool = True
) -> list[FieldError]:
    """Validate a specification; without that of its Pods where what is stored is invalid already."""
    policy, path = spec.get("podManagementPolicy", ""), _SPEC / "podManagementPolicy"
    errors = []
    if not policy:
        errors.append(required(path))
    elif policy not in _MANAGEMENT:
        errors.append(invalid(path, policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _validate_strategy(spec.get("updateStrategy") or {}, _SPEC / "updateStrategy")
    errors += _validate_retention(spec.get("persistentVolumeClaimRetentionPolicy"))
    if old_spec is None:
        errors += _validate_claims(spec.get("volumeClaimTemplates") or (), _SPEC / "volumeClaimTemplates")
    errors += validate_nonnegative(spec.get("replicas"), _SPEC / "replicas")
    errors += validate_nonnegative(spec.get("minReadySeconds"), _SPEC / "minReadySeconds")
    start = (spec.get("ordinals") or {}).get("start")
    errors += validate_nonnegative(start, _SPEC / "ordinals.start")
    service = spec.get("serviceName", "")
    if service and old_spec is None:
        place = _SPEC / "serviceName"
        errors += [invalid(place, service, message) for message in names.check_dns1123_label(service)]
    return errors + _validate_pods(spec, old_spec, review, with_pods=with_pods)


def _validate_claims(claims: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    return [
        error
        for index, claim in enumerate(claims)
        for error in validate_claim_spec(claim.get("spec") or {}, path / index / "spec")
    ]


def _validate_pods(
    spec: JSONObject, old_spec: JSONObject | None, review: Review, *, with_pods: bool
) -> list[FieldError]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = covered(required(_SELECTOR)) if selector is None else []
    found = validate_label_selector(selector, _SELECTOR)
    errors += found
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        errors.append(
            invalid(_SELECTOR, selector_value(selector), "empty selector is invalid for statefulset")
        )
    if found:
        errors.append(invalid(_SELECTOR, selector_value(selector), ""))
    else:
        errors += _validate_template(spec, old_spec, review, with_pods=with_pods)
    restart = (template.get("spec") or {}).get("restartPolicy", "")
    if restart != "Always":
        errors.append(not_supported(_TEMPLATE / "spec" / "restartPolicy", restart, ("Always",)))
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in StatefulSet is not Supported"
        errors.append(forbidden(_TEMPLATE / "spec" / "activeDeadlineSeconds", detail))
    return errors


def _validate_template(
    spec: JSONObject, old_spec: JSONObject | None, review: Review, *, with_pods: bool
) -> list[FieldError]:
    metadata = (spec.get("template") or {}).get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    path = _TEMPLATE / "metadata" / "labels"
    errors = validate_selected(spec.get("selector"), metadata.get("labels"), path)
    if with_pods:
        old_template = None if old_spec is None else _completed(old_spec)
        errors += validate_pod_template(_completed(spec), _TEMPLATE, review, old_template)
    errors += validate_labels(labels, _TEMPLATE / "labels")
    return errors + validate_annotations(annotations, _TEMPLATE / "annotations")


def _completed(spec: JSONObject) -> JSONObject:
    """The template with the volumes of claims, and without what the controller overwrites."""
    template = spec.get("template") or {}
    given = spec.get("volumeClaimTemplates") or ()
    claims = dict.fromkeys((claim.get("metadata") or {}).get("name", "") for claim in given)
    pod = template.get("spec") or {}
    if not claims and not pod.get("hostname") and not pod.get("subdomain"):
        return template
    kept = {key: value for key, value in pod.items() if key not in {"hostname", "subdomain"}}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    return {**template, "spec": {**kept, "volumes": volumes} if volumes else kept}


def _validate_strategy(strategy: JSONObject, path: FieldPath) -> list[FieldError]:
    type_, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    place = path / "rollingUpdate"
    if not type_:
        return [required(path)]
    if type_ == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(place, _internal_rolling(rolling), detail)]
    if type_ != "RollingUpdate":
        shown = {"Type": type_, "RollingUpdate": None if rolling is None else _internal_rolling(rolling)}
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    errors = validate_nonnegative(rolling.get("partition", 0), place / "partition")
    unavailable, place = rolling.get("maxUnavailable"), place / "maxUnavailable"
    if unavailable is None:
        return errors
    errors += validate_number_or_percent(unavailable, place)
    if number_or_percent(unavailable) == 0:
        errors.append(invalid(place, unavailable, "cannot be 0"))
    return errors + validate_at_most_all(unavailable, place)


def _internal_rolling(rolling: JSONObject) -> JSONObject:
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def _validate_retention(policy: JSONObject | None) -> list[FieldError]:
    if policy is None:
        return []
    path, known = _SPEC / "persistentVolumeClaimRetentionPolicy", ("Retain", "Delete")
    return [
        not_supported(path / name, policy.get(name, ""), known)
        for name in ("whenDeleted", "whenScaled")
        if policy.get(name) not in known
    ]


def _create(stateful_set: JSONObject, review: Review) -> list[FieldError]:
    metadata = stateful_set.get("metadata") or {}
    errors = validate_metadata(metadata, label_name, _METADATA, namespaced=True)
    return errors + _spec(stateful_set.get("spec") or {}, None, review)


_CLAIMS = "[]core.PersistentVolumeClaim"
_IMMUTABLE = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")


def _update(stateful_set: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    spec, old_spec = stateful_set.get("spec") or {}, old.get("spec") or {}
    metadata = stateful_set.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    errors += _spec(spec, old_spec, review, with_pods=not _spec(old_spec, old_spec, review))
    for name in _IMMUTABLE:
        missing = "" if name == "serviceName" else None
        found = validate_immutable(spec.get(name, missing), old_spec.get(name, missing), _SPEC / name)
        if found and name == "volumeClaimTemplates":
            found = _validate_templates_update(spec.get(name), old_spec.get(name), _SPEC / name)
        elif found and name == "serviceName":
            found = [invalid(_SPEC / name, spec.get(name, ""), FIELD_IS_IMMUTABLE)]
        elif name == "selector":
            found = validate_selector_update(spec, old_spec)
        errors += covered(found, "immutable")
    return errors


def _validate_templates_update(given: JSON, old: JSON, path: FieldPath) -> list[FieldError]:
    claims, before = (value and [_without_type(claim) for claim in value] for value in (given, old))
    if not differs(_CLAIMS, before, claims):
        return []
    return [invalid(path, internal_value(_CLAIMS, claims), FIELD_IS_IMMUTABLE)]


def _without_type(claim: JSONObject) -> JSONObject:
    return {name: value for name, value in claim.items() if name not in {"apiVersion", "kind"}}


def _warnings(stateful_set: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    spec, old_spec = stateful_set.get("spec") or {}, (old or {}).get("spec") or {}
    if is_new_generation(stateful_set, old):
        yield from pod_template_warnings(spec.get("template") or {}, _TEMPLATE, old_spec.get("template"))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path = _SPEC / "volumeClaimTemplates" / index
        # the API server misspells the path of an update
        yield from claim_spec_warnings(claim.get("spec") or {}, path if old is None else path / "Spec")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        advice = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {advice}"


_DATA = ROOT / "data"


def _revision(revision: JSONObject, review: Review) -> list[FieldError]:
    errors, data = _revision_errors(revision, review), revision.get("data")
    if data is None:
        errors.append(required(_DATA, "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required(_DATA, "data must be a valid JSON object"))
    return errors


def _revision_errors(revision: JSONObject, _: Review) -> list[FieldError]:
    metadata = revision.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    return errors + validate_nonnegative(revision.get("revision"), ROOT / "revision")


def _revision_update(revision: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    metadata, data = revision.get("metadata") or {}, revision.get("data")
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    errors += _revision_errors(revision, review)
    if encode(data) == encode(old.get("data")):  # Go has a text, in which true is not 1
        return errors
    return [*errors, invalid(_DATA, data, FIELD_IS_IMMUTABLE)]


VALIDATIONS: ValidationTable = {
    ("apps", "statefulsets"): KindValidation(_create, _update, _warnings),
    ("apps", "controllerrevisions"): KindValidation(_revision, _revision_update),
}
