"""Defaults of built-in kinds, as ``zz_generated.defaults.go`` and ``defaults.go`` of each API group set them.

Which functions run on the values of which types is data (``defaulted_types.json``, made by
``scripts/make_defaults.py``). Of each type, one function is made at first need that visits only what may have defaults.
It copies what it changes and nothing else: an object that has all its defaults comes back as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.quantities import Quantity, QuantityError
from pratique.cluster.schemas import ListType, MapType, built_in_schema, built_in_type
from pratique.registry.defaults.group_defaults import GROUP_DEFAULTS
from pratique.registry.defaults.literal_defaults import LEADING_TO_ZEROS, LITERALS, WRITTEN_ZEROS
from pratique.registry.defaults.pod_defaults import CORE_DEFAULTS
from pratique.registry.defaults.round_trips import converted_back

_Default: TypeAlias = Callable[[JSONObject], JSONObject]
"""Fills in a value by itself."""
_Visit: TypeAlias = Callable[[JSON, JSON], JSON]
"""Fills in a value and what is inside it; the second one is the value that it was made of, which has its defaults."""
_VisitsOfFields: TypeAlias = Mapping[str, tuple[type, _Visit]]
"""By field, the type of values that are visited, and what visits them."""

_FILE = Path(__file__).with_name("defaulted_types.json")


class DefaultedType(msgspec.Struct, frozen=True):
    """What is done to the values of a type."""

    functions: tuple[str, ...] = ()
    zero: dict[str, object] = {}
    """Defaults of fields that are empty or not there."""
    missing: dict[str, object] = {}
    """Defaults of fields that are not there."""
    quantities: tuple[str, ...] = ()
    """Fields with lists of resources."""
    fields: tuple[str, ...] = ()
    """Fields of types with defaults."""
    embedded: frozenset[str] = frozenset()
    """Those that Go has a value for even where JSON has none."""


class _File(msgspec.Struct, frozen=True):
    types: dict[str, DefaultedType]


@functools.cache
def defaulted_types() -> Mapping[str, DefaultedType]:
    """What is done to which type; the names are those of :mod:`pratique.cluster.schemas`."""
    return msgspec.json.decode(_FILE.read_bytes(), type=prepared(_File)).types


def with_defaults(kind: GroupVersionKind, written: JSONObject, before: JSON = None) -> JSONObject:
    """The object with the defaults of its kind and version; the one given is left alone, and may share parts.

    Args:
        kind: The kind and version.
        written: The object.
        before: The object that it was made of, with its defaults: parts that both share are not looked at.
    """
    visit = _visit_of_kind(kind)
    if visit is None:
        return written
    filled: JSONObject = visit(written, before)
    return converted_back(kind, filled)


def with_defaults_of_changes(kind: GroupVersionKind, before: JSON, changed: JSONObject) -> JSONObject:
    """A changed object with the defaults of what has changed, as an API server completes what a patch has made.

    An object that did not have its defaults before comes from no API server, and gets none. A custom resource stays as
    it is: it has no type in Go that would leave out what is empty.
    """
    if built_in_schema(kind) is None or not _has_defaults(kind, before):
        return changed
    return with_defaults(kind, _without_empty_metadata(changed))


def _without_empty_metadata(changed: JSONObject) -> JSONObject:
    """Drop what is left of labels and the like when the last one is gone: Go writes none that are empty."""
    metadata = changed.get("metadata")
    if not isinstance(metadata, dict):
        return changed
    kept = {name: value for name, value in metadata.items() if value not in ({}, [])}
    return changed if len(kept) == len(metadata) else {**changed, "metadata": kept}


def _has_defaults(kind: GroupVersionKind, written: JSON) -> bool:
    try:
        return isinstance(written, dict) and with_defaults(kind, written) is written
    except (AttributeError, KeyError, TypeError, ValueError):
        return False  # a member of a wrong type, which no API server sends, and which others refuse


@functools.lru_cache(512)
def _visit_of_kind(kind: GroupVersionKind) -> _Visit | None:
    schema = built_in_schema(kind)
    return None if schema is None else _visit_of_type(schema.name)


@functools.cache
def _visit_of_type(name: str) -> _Visit | None:
    """Make the function that fills in a value of a type; None if there is nothing to do."""
    type_ = defaulted_types().get(name)
    zeros = WRITTEN_ZEROS.get(name, {})
    if type_ is None and not zeros and name not in LEADING_TO_ZEROS:
        return None
    type_ = type_ or DefaultedType()
    zero, missing, functions = dict(type_.zero), {**type_.missing, **zeros}, list[_Default]()
    for function in type_.functions:
        if function in LITERALS:
            zero |= LITERALS[function].zero
            missing |= LITERALS[function].missing
        else:
            functions.append(CORE_DEFAULTS.get(function) or GROUP_DEFAULTS[function])
    visits, embedded = _visits_of_fields(name, type_)
    return _visit(functions, tuple(zero.items()), tuple(missing.items()), visits, embedded)


def _visits_of_fields(name: str, type_: DefaultedType) -> tuple[_VisitsOfFields, tuple[str, ...]]:
    fields = built_in_type(name).fields
    visits: dict[str, tuple[type, _Visit]] = dict.fromkeys(type_.quantities, (dict, _rounded_up))
    embedded = []
    for field in (*type_.fields, *LEADING_TO_ZEROS.get(name, ())):
        kind = fields[field]
        held = (
            kind.items if isinstance(kind, ListType) else kind.values if isinstance(kind, MapType) else kind
        )
        inner = _visit_of_type(getattr(held, "name", ""))
        if inner is None:
            continue
        visits[field] = (
            (list, _visit_each(inner))
            if isinstance(kind, ListType)
            else (dict, _visit_values(inner) if isinstance(kind, MapType) else inner)
        )
        if field in type_.embedded and inner({}, None):
            embedded.append(field)
    return visits, tuple(embedded)


_NOTHING: JSONObject = {}


# This runs for every structure of an object, and again for those that were mutated. So it looks only at fields that
# both may have defaults and are there, and copies at the first change.


def _visit(
    functions: Sequence[_Default],
    zero: Sequence[tuple[str, JSON]],
    missing: Sequence[tuple[str, JSON]],
    visits: _VisitsOfFields,
    embedded: Sequence[str],
) -> _Visit:
    given = (
        *((field, default, True) for field, default in zero),
        *((field, default, False) for field, default in missing),
        *((field, _NOTHING, False) for field in embedded),
    )

    def visit(value: JSON, before: JSON) -> JSON:
        if value is before:
            return value
        filled, former = value, before if type(before) is dict else _NOTHING
        for function in functions:
            filled = function(filled)
        for field, default, is_zero in given:
            child = filled.get(field)
            if child is None or (is_zero and not child):
                filled = filled.copy() if filled is value else filled
                filled[field] = default
        for field in visits if len(visits) <= len(filled) else tuple(filled):
            child = filled.get(field)
            if child is not None and (found := visits.get(field)) is not None and type(child) is found[0]:
                changed = found[1](child, former.get(field))
                if changed is not child:
                    filled = filled.copy() if filled is value else filled
                    filled[field] = changed
        return filled

    return visit


def _visit_each(visit: _Visit) -> _Visit:
    def visit_each(values: JSON, before: JSON) -> JSON:
        if values is before:
            return values
        changed: list[JSON] | None = None
        former = before if type(before) is list else ()
        for index, value in enumerate(values):
            if type(value) is dict:
                filled = visit(value, former[index] if index < len(former) else None)
                if filled is not value:
                    if changed is None:
                        changed = values.copy()
                    changed[index] = filled
        return values if changed is None else changed

    return visit_each


def _visit_values(visit: _Visit) -> _Visit:
    def visit_values(values: JSON, before: JSON) -> JSON:
        former = before if type(before) is dict else _NOTHING
        filled = {
            name: visit(value, former.get(name)) if type(value) is dict else value
            for name, value in values.items()
        }
        return values if all(filled[name] is value for name, value in values.items()) else filled

    return visit_values


_MILLI = -3


def _rounded_up(resources: JSON, before: JSON) -> JSON:
    """Round the quantities of a list of resources up to thousandths: ``SetDefaults_ResourceList``."""
    if resources is before or not any(map(_may_be_finer, resources.values())):
        return resources
    rounded = {name: _rounded_quantity(value) for name, value in resources.items()}
    return resources if rounded == resources else rounded


def _may_be_finer(quantity: JSON) -> bool:
    """Tell quantities that might be finer than a thousandth from most of those that are not."""
    if type(quantity) is not str or quantity.isdigit():
        return type(quantity) is float
    return quantity[-1:] in {"n", "u"} or "." in quantity or "e" in quantity


def _rounded_quantity(value: JSON) -> JSON:
    try:
        quantity = Quantity.from_json(value)
    except QuantityError:
        return value
    return value if quantity.scale >= _MILLI else str(quantity.rounded_up(_MILLI))
