"""CustomResourceDefinitions themselves: their validation and warnings.

Sources, below ``k8s.io/apiextensions-apiserver/pkg``: ``apis/apiextensions/validation/validation.go``,
``registry/customresourcedefinition/strategy.go`` and ``apihelpers/helpers.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid, required
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at, member
from pratique.apimachinery.statuses import go_quoted
from pratique.apimachinery.urls import parse_url
from pratique.registry.custom_resources import formats
from pratique.registry.custom_resources.default_validation import validate_defaults
from pratique.registry.custom_resources.definition_schemas import (
    SchemaOptions,
    has_non_atomic_set,
    validate_key_fields,
)
from pratique.registry.custom_resources.definition_specs import MAX_SELECTABLE, validate_names, validate_spec
from pratique.registry.custom_resources.internal_definitions import internal_spec, nodes_of, schemas_of
from pratique.registry.custom_resources.structural import structural
from pratique.registry.custom_resources.structural_validation import conversion_problem, validate_structural
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.x509 import authorities_problem

_METADATA, _SPEC, _STATUS = ROOT / "metadata", ROOT / "spec", ROOT / "status"


def _validate(definition: JSONObject, _: Review) -> Iterator[FieldError]:
    spec = internal_spec(mapping_at(definition, "spec"))
    names = mapping_at(spec, "names")
    wanted = f"{names.get('plural') or ''}.{spec.get('group') or ''}"

    def name_rule(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
        problems = subdomain_name(name, is_prefix)
        return problems if name == wanted else [*problems, 'must be spec.names.plural+"."+spec.group']

    metadata = mapping_at(definition, "metadata")
    yield from validate_metadata(metadata, name_rule, _METADATA, namespaced=False, standard_finalizers=False)
    yield from validate_spec(spec, _SPEC, SchemaOptions(), requires_schemas=True, requires_review=True)
    yield from _validate_stored(definition, spec)
    yield from _validate_approval(definition, None)
    yield from _validate_preserving(spec)


def _validate_update(definition: JSONObject, old: JSONObject, _: Review) -> Iterator[FieldError]:
    spec, old_spec = (internal_spec(mapping_at(one, "spec")) for one in (definition, old))
    metadata = mapping_at(definition, "metadata")
    former = mapping_at(old, "metadata")
    yield from validate_metadata_update(metadata, former, _METADATA, standard_finalizers=False)
    stored = [*schemas_of(old_spec)]
    holders = [old_spec["validation"]] if old_spec.get("validation") else []
    has_schemas = bool(holders) or all((version.get("schema") or {}) for version in old_spec["versions"])
    review_versions = old_spec["conversion"]["conversionReviewVersions"]
    yield from validate_spec(
        spec,
        _SPEC,
        msgspec.structs.replace(
            _options_of(stored, spec),
            unchanged=_unchanged_versions(definition, old),
            many_selectable=_with_many_selectable(spec, old_spec),
            checks_authorities=_is_established(old) and not _authorities_problem(old_spec),
        ),
        requires_schemas=has_schemas,
        requires_review=not review_versions or bool({"v1", "v1beta1"} & {*review_versions}),
    )
    yield from _validate_identity(spec, old_spec, is_established=_is_established(old))
    yield from _validate_stored(definition, spec)
    yield from _validate_approval(definition, old)
    if not old_spec.get("preserveUnknownFields"):
        yield from _validate_preserving(spec)


def _validate_identity(spec: JSONObject, old: JSONObject, *, is_established: bool) -> Iterator[FieldError]:
    """Validate that what objects are stored and found by stays."""
    names, old_names = mapping_at(spec, "names"), mapping_at(old, "names")
    at = _SPEC / "names"
    if is_established:
        yield from validate_immutable(spec.get("scope") or "", old.get("scope") or "", _SPEC / "scope")
        yield from validate_immutable(names.get("kind") or "", old_names.get("kind") or "", at / "kind")
    yield from validate_immutable(spec.get("group") or "", old.get("group") or "", _SPEC / "group")
    yield from validate_immutable(names.get("plural") or "", old_names.get("plural") or "", at / "plural")


def _is_established(definition: JSONObject) -> bool:
    conditions = list_at(definition, "status", "conditions")
    return any(found.get("type") == "Established" and found.get("status") == "True" for found in conditions)


def _options_of(stored: list[JSONObject], spec: JSONObject) -> SchemaOptions:
    """What the stored schemas are allowed to keep."""

    def none_has(predicate: Callable[[JSONObject], bool]) -> bool:
        return not any(predicate(node) for schema in stored for node in nodes_of(schema))

    must_be_structural = not spec.get("preserveUnknownFields") or all(map(_is_structural, stored))
    return SchemaOptions(
        requires_valid_types=none_has(lambda node: bool(node.get("type")) and node["type"] not in _TYPES),
        requires_structural=must_be_structural,
        requires_pruned_defaults=all(map(_has_pruned_defaults, stored)),
        requires_atomic_sets=none_has(has_non_atomic_set),
        requires_map_keys=none_has(lambda node: next(validate_key_fields(node, ROOT), None) is not None),
    )


def _unchanged_versions(definition: JSONObject, old: JSONObject) -> frozenset[str]:
    """The versions whose schemas stay as they are: ``findVersionsWithUnchangedSchemas``."""
    schemas, stored = (
        {version.get("name") or "": version.get("schema") for version in list_at(found, "spec", "versions")}
        for found in (definition, old)
    )
    return frozenset(name for name, schema in schemas.items() if name in stored and stored[name] == schema)


def _with_many_selectable(spec: JSONObject, old: JSONObject) -> frozenset[str]:
    """The versions that keep too many selectable fields; the empty name stands for all: ``findTooMany…Allowed``."""
    kept, stored = (
        {
            "": list_at(found, "selectableFields"),
            **{
                version.get("name") or "": list_at(version, "selectableFields")
                for version in found["versions"]
            },
        }
        for found in (spec, old)
    )
    return frozenset(
        name for name, fields in kept.items() if len(fields) > MAX_SELECTABLE and stored.get(name) == fields
    )


def _authorities_problem(spec: JSONObject) -> str:
    """What is wrong with the CA bundle of a conversion webhook; empty if there is none."""
    client = spec["conversion"]["webhookClientConfig"] or {}
    return authorities_problem(decode_base64(client.get("caBundle") or ""))


_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})


def _is_structural(schema: JSONObject) -> bool:
    return not conversion_problem(schema) and not validate_structural(schema, ROOT)


def _has_pruned_defaults(schema: JSONObject) -> bool:
    if not _is_structural(schema):
        return True
    errors = validate_defaults(structural(schema), ROOT, must_be_pruned=True)
    return all(error.detail != "must not have unknown fields" for error in errors)


def _validate_stored(definition: JSONObject, spec: JSONObject) -> Iterator[FieldError]:
    """Validate the status: versions that objects may be stored in."""
    status = mapping_at(definition, "status")
    yield from validate_names(mapping_at(status, "acceptedNames"), _STATUS / "acceptedNames")
    stored: list[str] = _stored_versions(status, spec)
    at = _STATUS / "storedVersions"
    if not stored:
        yield invalid(at, None, "must have at least one stored version")
        return
    left = {name: index for index, name in enumerate(stored)}
    for version in spec["versions"]:
        name = version.get("name") or ""
        if version.get("storage") and name not in left:  # likewise the second one of a name
            yield invalid(at, stored, f"must have the storage version {name}")
        left.pop(name, None)
    for name, index in left.items():
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
            f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
            " status.storedVersions"
        )
        yield invalid(at / index, name, detail)


def _stored_versions(status: JSONObject, spec: JSONObject) -> list[str]:
    """The stored versions as the strategy completes them: with the first storage version."""
    stored: list[str] = list_at(status, "storedVersions")
    current = next(
        (version.get("name") or "" for version in spec["versions"] if version.get("storage")), None
    )
    return stored if current is None or current in stored else [*stored, current]


_APPROVAL = "api-approved.kubernetes.io"
_APPROVAL_PATH = (_METADATA / "annotations").key(_APPROVAL)
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def _validate_approval(definition: JSONObject, old: JSONObject | None) -> Iterator[FieldError]:
    """Validate that a definition in a group of Kubernetes' own was approved."""
    group: str = mapping_at(definition, "spec").get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    state = _approval_state(definition)
    if old is not None and _approval_state(old) == state:
        return
    start = f"protected groups must have approval annotation {go_quoted(_APPROVAL)}"
    if state == "missing":
        yield required(_APPROVAL_PATH, f"{start}, {_SEE}")
    elif state == "invalid":
        found = mapping_at(definition, "metadata", "annotations")[_APPROVAL]
        detail = f'{start} with either a URL or a reason starting with "unapproved", {_SEE}'
        yield invalid(_APPROVAL_PATH, found, detail)


def _approval_state(definition: JSONObject) -> str:
    text: str = mapping_at(definition, "metadata", "annotations").get(_APPROVAL) or ""
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        url = parse_url(text)
    except ValueError:
        return "invalid"
    return "approved" if url.host and url.scheme else "invalid"


def _validate_preserving(spec: JSONObject) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid(_SPEC / "preserveUnknownFields", True, f"cannot set to true, {instead}")


def _warnings(definition: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    """Warn of formats that are not checked, and of sets of objects or lists, unless they were stored so."""
    spec = internal_spec(mapping_at(definition, "spec"))
    old_spec = None if old is None else internal_spec(mapping_at(old, "spec"))
    known = set() if old_spec is None else {*_unknown_formats(old_spec)}
    yield from (
        f"unrecognized format {go_quoted(name)}" for name in _unknown_formats(spec) if name not in known
    )
    stored = set() if old_spec is None else {*_sets_of_compounds(old_spec)}
    for type_ in sorted({*_sets_of_compounds(spec)} - stored):
        what = f"x-kubernetes-list-type: set for items of type {go_quoted(type_)}"
        yield f"{what} is not supported by server-side apply or CEL validation rules"


def _unknown_formats(spec: JSONObject) -> Iterator[str]:
    for schema in schemas_of(spec):
        for node in nodes_of(schema):
            name = node.get("format")
            if name and not formats.is_known(node.get("type") or "", name):
                yield name


def _sets_of_compounds(spec: JSONObject) -> Iterator[str]:
    for schema in schemas_of(spec):
        for node in nodes_of(schema):
            if node.get("x-kubernetes-list-type") == "set":
                type_ = member(node, "items", "type")
                if type_ in ("object", "array"):
                    yield type_


VALIDATIONS: ValidationTable = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): KindValidation(
        _validate, _validate_update, _warnings
    )
}
