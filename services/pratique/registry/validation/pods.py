"""Pods, on creation and update.

Source: ``ValidatePodCreate`` and ``ValidatePodUpdate`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.pods.pod_spec import APP_ARMOR_ANNOTATION, MIRROR_ANNOTATION
from pratique.registry.go_values import differs, internal_diff, internal_value
from pratique.registry.validation.containers import validate_padding
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)
from pratique.registry.validation.pod_annotations import validate_pod_annotations, validate_profiles_match
from pratique.registry.validation.pod_context import OF_NEW_POD, PodOptions
from pratique.registry.validation.pod_spec import validate_pod_spec
from pratique.registry.validation.pod_warnings import host_name_warnings, pod_template_warnings
from pratique.registry.validation.stored_pods import options_beside

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"


def validate_pod(pod: JSONObject, options: PodOptions) -> list[FieldError]:
    """Validate a Pod as a whole, on creations and updates: ``validatePodMetadataAndSpec``."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    if annotations := metadata.get("annotations"):
        errors += validate_pod_annotations(annotations, spec, _METADATA / "annotations", options)
    errors += validate_pod_spec(spec, metadata, _SPEC, options)
    if not spec.get("serviceAccountName"):
        errors += _validate_no_tokens(spec)
    grace = spec.get("terminationGracePeriodSeconds")
    errors += validate_nonnegative(grace, _SPEC / "terminationGracePeriodSeconds")
    return errors + [
        error
        for field in ("containers", "initContainers")
        for index, container in enumerate(spec.get(field) or ())
        if container.get("image", "") != container.get("image", "").strip()
        for error in validate_padding(container, _SPEC / field / index)
    ]


def _validate_no_tokens(spec: JSONObject) -> list[FieldError]:
    return [
        forbidden(
            _SPEC / "volumes" / index / "projected" / "sources" / number / "serviceAccountToken",
            "must not be specified when serviceAccountName is not set",
        )
        for index, volume in enumerate(spec.get("volumes") or ())
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]


def _create(pod: JSONObject, _: Review) -> list[FieldError]:
    spec = pod.get("spec") or {}
    errors = validate_pod(pod, OF_NEW_POD)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(_SPEC / "ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden(_SPEC / "nodeName", detail))
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return errors + validate_profiles_match(annotations, spec, _SPEC)


def _update(pod: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata, old_metadata, options = (
        pod.get("metadata") or {},
        old.get("metadata") or {},
        options_beside(old, is_pod=True),
    )
    errors = validate_metadata_update(metadata, old_metadata, _METADATA) + validate_pod(pod, options)
    annotations, old_annotations = (found.get("annotations") or {} for found in (metadata, old_metadata))
    place = _METADATA / "annotations"
    errors += validate_annotation_changes(annotations, old_annotations, place)
    errors += validate_pod_annotations(annotations, pod.get("spec") or {}, place, options)
    return errors + _validate_changes(pod.get("spec") or {}, old.get("spec") or {})


def validate_annotation_changes(
    annotations: Mapping[str, str], old: Mapping[str, str], path: FieldPath
) -> list[FieldError]:
    """Refuse changes of what is fixed once a Pod is made: ``ValidatePodSpecificAnnotationUpdates``."""
    errors = []
    for verb, keys in (("remove or update", old), ("add", annotations.keys() - old.keys())):
        for key in sorted(keys):
            if annotations.get(key) == old.get(key):
                continue
            if key.startswith(APP_ARMOR_ANNOTATION):
                errors.append(forbidden(path.key(key), f"may not {verb} AppArmor annotations"))
            if key == MIRROR_ANNOTATION:
                errors.append(forbidden(path.key(key), f"may not {verb} mirror pod annotation"))
    return errors


_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_DEADLINE = 2**31 - 1
_KEPT = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
"""Fields that have rules of their own, and are taken as they were before the rest is compared."""


def _validate_changes(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    """Validate that an update changes no more than images, deadlines, gates and tolerations."""
    errors: list[FieldError] = []
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(old.get(name) or ()):
            # the API server says so in these words, and compares nothing else
            return [forbidden(_SPEC / name, "pod updates may not add or remove containers")]
        errors += _validate_images(spec.get(name) or (), _SPEC / name)
    deadline, before = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = _SPEC / "activeDeadlineSeconds"
    if deadline is None and before is not None:
        errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
    elif deadline is not None and not 0 <= deadline <= _MAX_DEADLINE:
        return [*errors, invalid(path, deadline, f"must be between 0 and {_MAX_DEADLINE}, inclusive")]
    elif deadline is not None and before is not None and before < deadline:
        return [*errors, invalid(path, deadline, "must be less than or equal to previous value")]
    errors += _validate_tolerations(spec, old) + _validate_gates(spec, old)
    compared = _with_kept(spec, old)
    if old.get("schedulingGates"):
        errors += _validate_node_selector(spec.get("nodeSelector"), old.get("nodeSelector"))
        errors += _validate_node_affinity(_required_terms(spec), _required_terms(old))
        compared = _with_kept_nodes(compared, old)
    if differs("core.PodSpec", old, compared):
        difference = internal_diff("core.PodSpec", old, _with_empty_requests(compared))
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n{difference}"
        errors.append(forbidden(_SPEC, detail))
    return errors


def _with_empty_requests(spec: JSONObject) -> JSONObject:
    """A specification as its defaults leave it, which print requests that are nothing beside limits that are."""
    return {
        name: [_requesting(item) for item in value]
        if name in {"containers", "initContainers"} and value
        else value
        for name, value in spec.items()
    }


def _requesting(container: JSONObject) -> JSONObject:
    resources = container.get("resources") or {}
    if resources.get("limits") is None or resources.get("requests") is not None:
        return container
    return {**container, "resources": {**resources, "requests": {}}}


def _validate_images(containers: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, container in enumerate(containers):
        image, place = container.get("image", ""), path / index / "image"
        if not image:
            errors.append(required(place))
        elif image.strip() != image:
            errors.append(invalid(place, image, "must not have leading or trailing whitespace"))
    return errors


def _validate_tolerations(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    tolerations = spec.get("tolerations") or []

    def without_seconds(toleration: JSONObject) -> JSONObject:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    present = [without_seconds(toleration) for toleration in tolerations]
    if all(without_seconds(toleration) in present for toleration in old.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden(_SPEC / "tolerations", detail)]


def _validate_gates(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    known = {gate.get("name", "") for gate in old.get("schedulingGates") or ()}
    return [
        forbidden(
            _SPEC / "schedulingGates" / index / "name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name", "") not in known
    ]


def _validate_node_selector(
    selector: Mapping[str, str] | None, old: Mapping[str, str] | None
) -> list[FieldError]:
    """Validate that a gated Pod asks its Nodes for more, not for something else."""
    if (old or {}).items() <= (selector or {}).items():
        return []
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid(_SPEC / "nodeSelector", selector, detail)]


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = _SPEC / "affinity" / "nodeAffinity" / _REQUIRED / "nodeSelectorTerms"


def _required_terms(spec: JSONObject) -> list[JSONObject]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _validate_node_affinity(terms: list[JSONObject], old: list[JSONObject]) -> list[FieldError]:
    """``validateNodeAffinityMutation``."""
    if old and len(terms) != len(old):
        value = internal_value("[]core.NodeSelectorTerm", terms or None)
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(_TERMS, value, detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(_TERMS / index, internal_value("core.NodeSelectorTerm", term), detail)
        for index, (term, before) in enumerate(zip(terms, old, strict=False))
        if not _only_adds(term, before)
    ]


def _only_adds(term: JSONObject, old: JSONObject) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(
        (term.get(field) or [])[: len(old.get(field) or [])] == (old.get(field) or []) for field in fields
    )


def _with_kept_nodes(spec: JSONObject, old: JSONObject) -> JSONObject:
    """The specification with what a gated Pod may change about its Nodes as it was."""
    kept = {**spec, "nodeSelector": old.get("nodeSelector")}
    affinity, before = spec.get("affinity"), old.get("affinity")
    stored = (before or {}).get("nodeAffinity")
    if not differs("*core.NodeAffinity", stored, (affinity or {}).get("nodeAffinity")):
        return kept
    is_only_of_nodes = affinity is not None and not (
        affinity.get("podAffinity") or affinity.get("podAntiAffinity")
    )
    if before is None and is_only_of_nodes:
        kept["affinity"] = None
    else:
        kept["affinity"] = {**(affinity or {}), "nodeAffinity": stored}
    return kept


def _with_kept(spec: JSONObject, old: JSONObject) -> JSONObject:
    kept = {name: value for name, value in spec.items() if name not in _KEPT}
    kept |= {name: old[name] for name in _KEPT if name in old}
    for name in ("containers", "initContainers"):
        if spec.get(name):
            pairs = zip(spec[name], old[name], strict=True)
            kept[name] = [{**container, "image": before.get("image", "")} for container, before in pairs]
    seconds = old.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        kept["terminationGracePeriodSeconds"] = seconds
    return kept


def _warnings(pod: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None:
        yield from host_name_warnings(pod, "this is used in the Pod's hostname")
        yield from pod_template_warnings(pod, ROOT)


VALIDATIONS: ValidationTable = {("", "pods"): KindValidation(_create, _update, _warnings)}
