"""Whether the nodes of a ResourceSlice's devices support devices that take of what the node can allocate.

Sources: ``validateNodeAllocatableDRA`` of ``plugin/pkg/admission/nodedeclaredfeatures/admission.go``, and
``k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from pratique.admission.results import Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import names, statuses
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, invalid, join, not_supported
from pratique.apimachinery.go_formats import go_type, parse_int64
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.statuses import go_quoted

FEATURE = "DRANodeAllocatableResources"

_IN, _NOT_IN, _EXISTS, _ABSENT, _GREATER, _LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
_LABEL_OPERATORS = (_IN, _NOT_IN, _EXISTS, _ABSENT, _GREATER, _LESS)
_FIELD_OPERATORS = (_IN, _NOT_IN)

Requirement: TypeAlias = "tuple[str, str, list[str]]"
"""Key, operator and values."""


def validate_resource_slice(review: Review) -> Answer:
    """Deny a slice with such a device if one of the device's nodes has not declared the feature."""
    document = review.object
    if not isinstance(document, dict) or document.get("kind", "ResourceSlice") != "ResourceSlice":
        text = f"expected a ResourceSlice but got a {go_type(document)}"
        return deny(status=statuses.bad_request(text))
    spec = mapping_at(document, "spec")
    for device in list_at(spec, "devices"):
        if mapping_at(device, "nodeAllocatableResources"):
            chooser = device if member(spec, "perDeviceNodeSelection") is True else spec
            denial = _check_device(review, str(member(device, "name") or ""), chooser)
            if denial is not None:
                return denial
    return allow()


def _check_device(review: Review, device: str, chooser: JSON) -> Deny | None:
    """Check the nodes of one device, which the device or the whole slice chooses."""
    node_name = member(chooser, "nodeName")
    selector = member(chooser, "nodeSelector")
    if node_name:
        node = review.cluster.get("", "nodes", str(node_name))
        if node is None:
            return deny(f"node {go_quoted(str(node_name))} not found for device {go_quoted(device)}")
        return _check_nodes([node])
    nodes = review.cluster.list("", "nodes")
    if selector is not None:
        terms = [term for term in list_at(selector, "nodeSelectorTerms") if not _is_empty(term)]
        if errors := list(_selector_errors(selector)):
            text = f"failed to create node selector: {join(errors)}"
            return deny(status=statuses.bad_request(text))
        return _check_nodes(node for node in nodes if any(_matches(term, node) for term in terms))
    if member(chooser, "allNodes") is True:
        return _check_nodes(nodes)
    name = go_quoted(device)
    return deny(f"device {name} in ResourceSlice has NodeAllocatableResources but does not map to any nodes")


def _check_nodes(nodes: Iterable[JSONObject]) -> Deny | None:
    for node in nodes:
        if FEATURE not in list_at(node, "status", "declaredFeatures"):
            name = go_quoted(names.name_of(node))
            return deny(f"node {name} does not support {FEATURE} feature")
    return None


def _is_empty(term: JSON) -> bool:
    return not list_at(term, "matchExpressions") and not list_at(term, "matchFields")


def _requirements(term: JSON, field: str) -> Iterator[Requirement]:
    for item in list_at(term, field):
        key, operator = (str(member(item, name) or "") for name in ("key", "operator"))
        yield key, operator, [str(value) for value in list_at(item, "values")]


def _matches(term: JSON, node: JSONObject) -> bool:
    """Whether a term of a valid selector matches a node. A node has one field, its name."""
    labels = mapping_at(node, "metadata", "labels")
    fields = {"metadata.name": names.name_of(node)}
    return all(
        _matches_label(labels, *requirement) for requirement in _requirements(term, "matchExpressions")
    ) and all(
        (fields.get(key, "") == values[0]) == (operator == _IN)
        for key, operator, values in _requirements(term, "matchFields")
    )


def _matches_label(labels: Mapping[str, JSON], key: str, operator: str, values: list[str]) -> bool:
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return key in labels and _compares(str(labels[key]), operator, values[0])


def _compares(label: str, operator: str, value: str) -> bool:
    try:
        found, limit = parse_int64(label), parse_int64(value)
    except ValueError:
        return False
    return found > limit if operator == _GREATER else found < limit


def _selector_errors(selector: JSON) -> Iterator[FieldError]:
    """Check a selector as ``NewNodeSelector`` does. An empty term, which matches nothing, has no errors."""
    for index, term in enumerate(list_at(selector, "nodeSelectorTerms")):
        path = ROOT / "nodeSelectorTerms" / index
        for place, requirement in enumerate(_requirements(term, "matchExpressions")):
            yield from _label_errors(requirement, path / "matchExpressions" / place)
        for place, (_, operator, values) in enumerate(_requirements(term, "matchFields")):
            at = path / "matchFields" / place
            if operator not in _FIELD_OPERATORS:
                yield not_supported(at / "operator", operator, _FIELD_OPERATORS)
            elif len(values) != 1:
                yield invalid(at / "values", values, "must have one element")


def _label_errors(requirement: Requirement, path: FieldPath) -> Iterator[FieldError]:
    key, operator, values = requirement
    if operator not in _LABEL_OPERATORS:
        yield not_supported(path / "operator", operator, _LABEL_OPERATORS)
        return
    if messages := names.check_qualified_name(key):
        yield invalid(path / "key", key, "; ".join(messages))
    yield from _value_errors(operator, values, path / "values")
    for index, value in enumerate(values):
        if messages := names.check_label_value(value):
            yield invalid((path / "values" / index).key(key), value, "; ".join(messages))


def _value_errors(operator: str, values: list[str], path: FieldPath) -> Iterator[FieldError]:
    if operator in {_IN, _NOT_IN} and not values:
        yield invalid(path, None, "for 'in', 'notin' operators, values set can't be empty")
    elif operator in {_EXISTS, _ABSENT} and values:
        yield invalid(path, values, "values set must be empty for exists and does not exist")
    elif operator in {_GREATER, _LESS}:
        if len(values) != 1:
            yield invalid(path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not _is_integer(value):
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield invalid(path / index, value, detail)


def _is_integer(text: str) -> bool:
    try:
        parse_int64(text)
    except ValueError:
        return False
    return True
