"""Values as they are in Go when validation sees them, for messages that print them.

A message prints a value that is no scalar as ``json.Marshal`` writes it, and validation sees objects as **internal**
types, which have no JSON tags: every field is there, under its name in Go, nil as ``null``. Only the types of
``meta/v1`` in them have tags.

To print the field of an object that a validator has found wrong, name the internal type of its value as the source
does, and pass the value as the object has it::

    invalid(path, internal_value("rbac.RoleRef", written["roleRef"]), "field is immutable")
    duplicate(path / index, internal_value("core.ServicePort", port))
    invalid(path, internal_value("[]core.PersistentVolumeClaim", templates), "…")

A message that shows what an update changed has :func:`internal_diff` of both values.

Lists are written ``[]…``, maps ``map[…]…`` and pointers ``*…`` as in Go; a missing list, map or pointer is ``null``.
Types are those of ``k8s.io/kubernetes/pkg/apis``; others are ``meta.v1.LabelSelector`` and
``apiextensions-apiserver.pkg.apis.apiextensions.…``. Objects are those of the newest version, with their defaults.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pratique.apimachinery.diff import MATCHING_LIMIT, Opcode, opcodes
from pratique.apimachinery.field_errors import FieldError, GoLiteral, MapKey
from pratique.apimachinery.json_values import HTML_ESCAPES, JSON, JSONObject, encode, go_json
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.quantities import Quantity, QuantityError
from pratique.cluster.go_types import GoField, GoKind, GoType, GoTypes

_internal_types = GoTypes(Path(__file__).with_name("internal_types.json"))


def internal_value(type_name: str, value: JSON) -> GoLiteral:
    """A value that prints as Go writes it as an internal type, see above.

    Raises:
        KeyError: there is no such type.
    """
    return GoLiteral(go_json(_as_internal(_type(type_name), value)))


def api_value(kind: GoType, value: JSON) -> GoLiteral:
    """A value that prints as Go writes it as a type of the API, which tags of types check."""
    return GoLiteral(go_json(_as_internal(kind, value)))


def as_printed(error: FieldError, kind: GoType) -> FieldError:
    r"""An error of an object of a type whose value prints as its type does.

    Go quotes a ``string``, and writes a string of any other type as JSON, where ``<`` is ``\u003c``.
    """
    value = error.bad_value
    if not isinstance(value, str) or _ALIKE.fullmatch(value):
        return error
    found: GoType | None = kind
    for step in error.path.steps:
        if found is not None and found.kind is GoKind.LIST and not isinstance(step, int):
            found = found.items  # some paths leave out the index
        if found is None:
            return error
        if isinstance(step, int | MapKey):
            found = found.items
        else:
            field = found.fields.get(step)
            found = None if field is None else field.type
    if found is not None and found.kind is GoKind.LIST:
        found = found.items  # some errors are about an item, and name the list
    if found is None or found.kind is not GoKind.STRING or found.name == "string":
        return error
    return msgspec.structs.replace(error, bad_value=GoLiteral(go_json(value)))


_ALIKE = pattern(r"[ !#-%'-;=?-\[\]-~]*")
"""Texts that are the same in both forms."""


def semantically_equal(kind: GoType, one: JSON, other: JSON) -> bool:
    """Compare two values of a type as ``equality.Semantic.DeepEqual`` does.

    Lists and maps that are empty are as if they were missing, and so are zeros that are no pointers. A pointer to
    something empty is not the same as none. Of JSON that Go leaves as it is, the text counts.
    """
    return encode(one) == encode(other) or bool(_comparable(kind, one) == _comparable(kind, other))


def differs(type_name: str, old: JSON, new: JSON, fields: Sequence[str] = ()) -> bool:
    """Tell whether two values of an internal type differ, as :func:`semantically_equal` tells.

    Args:
        type_name: The type, as :func:`internal_value` takes it.
        old: The value before.
        new: The value after.
        fields: The only fields that the type has, if the values have others.

    Raises:
        KeyError: there is no such type.
    """
    if fields and all((old or {}).get(field) == (new or {}).get(field) for field in fields):
        return False
    return not semantically_equal(_type(type_name), old, new)


def _comparable(kind: GoType, value: JSON) -> JSON:
    if value is None:
        return None if kind.is_pointer else _comparable_zero(kind)
    match kind.kind:
        case GoKind.STRUCT if isinstance(value, dict):
            return _members(kind, value)
        case GoKind.LIST if isinstance(value, list) and kind.items is not None:
            return [_comparable(kind.items, item) for item in value] or None
        case GoKind.MAP if isinstance(value, dict) and kind.items is not None:
            return {name: _comparable(kind.items, item) for name, item in value.items()} or None
    return _comparable_scalar(kind, value)


def _comparable_scalar(kind: GoType, value: JSON) -> JSON:
    match kind.kind:
        case GoKind.QUANTITY:
            return _amount(value)
        case GoKind.ANY:
            return encode(value)
        case GoKind.BYTES:
            return value or None
    return value


def _comparable_zero(kind: GoType) -> JSON:
    if kind.kind is GoKind.STRUCT:
        return _members(kind, {})
    zero = _ZERO_VALUES.get(kind.kind)
    return _amount(zero) if kind.kind is GoKind.QUANTITY else zero


def _members(kind: GoType, value: JSONObject) -> JSONObject:
    folded = {name.lower(): child for name, child in value.items()}
    found: JSONObject = {}
    for field in kind.members:
        if field.name.startswith(">"):
            inner = value.get("metadata") if field.name == ">ObjectMeta" else value
            found[field.name] = _members(field.type, inner if isinstance(inner, dict) else {})
        else:
            found[field.name] = _comparable(field.type, _child(kind, field, value, folded))
    return found


def _amount(written: JSON) -> JSON:
    """A quantity such that equal amounts are equal."""
    try:
        return Quantity.from_json(written)
    except QuantityError:
        return written


def internal_diff(type_name: str, old: JSON, new: JSON) -> str:
    """The difference between two values as internal types, as messages about updates print it: ``diff.Diff``.

    Source: ``k8s.io/apimachinery/pkg/util/diff/diff.go``.

    Raises:
        KeyError: there is no such type.
    """
    kind = _type(type_name)
    before, after = (_pretty_lines(_as_internal(kind, value)) for value in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after)
    if len(before) * len(after) > MATCHING_LIMIT:
        # what it would take minutes to find, as kube-apiserver does; typeshed leaves the attribute out
        matcher.opcodes = opcodes(before, after)  # type: ignore[attr-defined]
    return "".join(line for group in matcher.get_grouped_opcodes() for line in _hunk(group, before, after))


_SIGNS = {"equal": " ", "delete": "-", "insert": "+"}


def _hunk(group: Sequence[Opcode], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The lines of a unified diff that a group of opcodes is."""
    first, last = group[0], group[-1]
    yield f"@@ -{_line_range(first[1], last[2])} +{_line_range(first[3], last[4])} @@\n"
    for tag, a, b, c, d in group:
        if tag != "insert":
            yield from (_SIGNS.get(tag, "-") + line for line in before[a:b])
        if tag in {"insert", "replace"}:
            yield from (f"+{line}" for line in after[c:d])


def _line_range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _pretty_lines(value: JSON) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False).translate(HTML_ESCAPES)
    return [f"{line}\n" for line in text.split("\n")]


@functools.cache
def _type(name: str) -> GoType:
    """A type of which only the name of the struct tells it from a scalar."""
    qualified = re.sub(r"([^\]*\[]*\.[^\]*\[]+)$", r"@\1", name)
    struct = qualified.rpartition("@")[2]
    if struct in _SCALARS:
        qualified = name
    elif struct != qualified:
        _internal_types.struct(struct)
    return _internal_types.type(qualified)


_SCALARS = frozenset({"v1.Time", "v1.MicroTime", "resource.Quantity", "intstr.IntOrString"})
_ZERO_VALUES = {
    GoKind.STRING: "",
    GoKind.BOOL: False,
    GoKind.INTEGER: 0,
    GoKind.FLOAT: 0,
    GoKind.QUANTITY: "0",
    GoKind.INT_OR_STRING: 0,
}


def _as_internal(kind: GoType, value: JSON) -> JSON:
    if value is None:
        return None if kind.is_pointer else _zero_value(kind)
    match kind.kind:
        case GoKind.STRUCT if isinstance(value, dict):
            return _as_struct(kind, value)
        case GoKind.LIST if isinstance(value, list) and kind.items is not None:
            return [_as_internal(kind.items, item) for item in value]
        case GoKind.MAP if isinstance(value, dict) and kind.items is not None:
            return {name: _as_internal(kind.items, item) for name, item in sorted(value.items())}
        case GoKind.QUANTITY:
            amount = _amount(value)
            return str(amount) if isinstance(amount, Quantity) else amount
    return value


def _zero_value(kind: GoType) -> JSON:
    return _as_struct(kind, {}) if kind.kind is GoKind.STRUCT else _ZERO_VALUES.get(kind.kind)


def _as_struct(kind: GoType, value: JSONObject) -> JSONObject:
    folded = {name.lower(): child for name, child in value.items()}
    written: JSONObject = {}
    for field in kind.members:
        if field.name.startswith(">"):
            inner = value.get("metadata") if field.name == ">ObjectMeta" else value
            written |= _as_struct(field.type, inner if isinstance(inner, dict) else {})
            continue
        child = _as_internal(field.type, _child(kind, field, value, folded))
        if not _is_omitted(field, child):
            written[field.name] = child
    return written


def _child(kind: GoType, field: GoField, value: JSONObject, folded: JSONObject) -> JSON:
    if field.name in _INLINED_IN_JSON:
        return value
    name = _names().get(f"{kind.struct_name}.{field.name}", field.name)
    return value[name] if name in value else folded.get(name.lower())


_INLINED_IN_JSON = frozenset({"RuleWithOperations"})
"""Structs with a name where the versioned type embeds them."""


@functools.cache
def _names() -> dict[str, str]:
    return _internal_types.table("renamed")


_EMPTY: tuple[JSON, ...] = (None, "", 0, [], {})


def _is_omitted(field: GoField, value: JSON) -> bool:
    if field.omits_zero and value is None:
        return True
    if not field.omits_empty or field.type.kind in (GoKind.STRUCT, GoKind.TIME, GoKind.QUANTITY):
        return field.omits_empty and field.type.is_pointer and value is None
    return value is None if field.type.is_pointer else value in _EMPTY
