"""Policy patches: what the expressions of mutating policies evaluate to, applied to an object.

Sources: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch``: ``smd.go`` and ``json_patch.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pratique.cel.errors import EvaluationError
from pratique.cel.exports import to_json, to_object
from pratique.cel.structs import Struct
from pratique.errors import PratiqueError, RefusalError
from pratique.patches import PatchError, PatchTestError, apply_patch
from pratique.schemas import ListType, MapType, Structure
from pratique.statuses import go_quoted, internal_error
from pratique.structured_merges import ApplyError, apply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas import Type

_K = TypeVar("_K", bound="Hashable")
_C = TypeVar("_C", bound="list[JSON] | JSONObject")


class PolicyPatchError(PratiqueError):
    """What an expression gives cannot be applied; ``failurePolicy`` decides. The text is the API server's."""


def apply_configuration(value: Struct, stored: JSONObject, schema: Structure) -> JSONObject:
    """Apply what an ``applyConfiguration`` expression gave to an object, which is not changed.

    Raises:
        PolicyPatchError: its types are not named by their fields, it does not fit the schema, or it sets what is
            never merged.
    """
    _check_names(value)
    try:
        return apply(schema, stored, to_object(value))
    except ApplyError as error:
        raise PolicyPatchError(f"error applying patch: {error}") from None
    except EvaluationError as error:
        raise PolicyPatchError(f"invalid return type: {error}") from None


def apply_json_patch(patches: Sequence[Struct], stored: JSONObject, schema: Structure | None) -> JSONObject:
    """Apply what a ``jsonPatch`` expression gave to an object, which is not changed.

    Where a ``test`` operation does not hold, nothing is applied and nothing is wrong.

    Args:
        patches: The operations.
        stored: The object.
        schema: What fields the object may have; None where any are allowed.

    Raises:
        PolicyPatchError: an operation cannot be made or does not fit the object.
        RefusalError: what comes out has fields that its kind does not have, 500, whatever ``failurePolicy`` says.
    """
    operations = [_operation(each) for each in patches]
    try:
        patched = apply_patch(stored, operations)
    except PatchTestError:
        return stored
    except PatchError as error:
        raise PolicyPatchError(f"JSON Patch: {error}") from None
    if schema is not None:
        _check_fields(schema, stored, patched)
    if not isinstance(patched, dict):
        raise RefusalError(internal_error("the patched object is no object"))
    return patched


def _operation(patch: Struct) -> JSONObject:
    operation = {"op": patch.fields.get("op", ""), "path": patch.fields.get("path", "")}
    if patch.fields.get("from"):
        operation["from"] = patch.fields["from"]
    if "value" not in patch.fields:
        return operation
    value = patch.fields["value"]
    if isinstance(value, Struct):
        _check_names(value)
    try:
        return operation | {"value": to_json(value)}
    except EvaluationError as error:
        text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise PolicyPatchError(f"{text}: {error}") from None


def _check_names(value: Struct) -> None:
    wrong = list(value.misnamed())
    if wrong:
        raise PolicyPatchError("type mismatch: " + "\n".join(wrong))


def _check_fields(schema: Structure, stored: JSON, patched: JSON) -> None:
    """See that a patch brings no field that the kind does not have; what was there before is let be."""
    found = list(_unknown(schema, patched, "", stored))
    if not found:
        return
    before = set(_unknown(schema, stored, ""))
    added = [field for field in found if field not in before]
    if added:
        listed = ", ".join(f"unknown field {go_quoted(field)}" for field in added)
        raise RefusalError(internal_error(f"strict decoding error: {listed}"))


_NOWHERE = object()
"""What stands where nothing stood before."""


def _unknown(kind: Type, value: JSON, path: str, before: JSON = _NOWHERE) -> Iterator[str]:
    """Find fields that a kind does not have, but in what is the very value that stood in its place before."""
    match kind, value:
        case ListType(), list():
            for index, item, was in _changed(enumerate(value), dict(enumerate(_or(before, list)))):
                yield from _unknown(kind.items, item, f"{path}[{index}]", was)
        case MapType(), dict():
            for name, child, was in _changed(value.items(), _or(before, dict)):
                yield from _unknown(kind.values, child, f"{path}.{name}", was)
        case Structure(), dict():
            for name, child, was in _changed(value.items(), _or(before, dict)):
                inner = f"{path}.{name}" if path else name
                if name in kind.fields:
                    yield from _unknown(kind.fields[name], child, inner, was)
                elif not kind.open:
                    yield inner
        case _:
            return


def _or(value: JSON, container: type[_C]) -> _C:
    """A value where it is such a container, else an empty one."""
    return value if isinstance(value, container) else container()


def _changed(
    children: Iterable[tuple[_K, JSON]], before: Mapping[_K, JSON]
) -> Iterator[tuple[_K, JSON, JSON]]:
    """The children that are not those that were in their places before, with what was."""
    for key, child in children:
        was = before.get(key, _NOWHERE)
        if child is not was:
            yield key, child, was
