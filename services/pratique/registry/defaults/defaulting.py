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
from pratique.apimachinery.quantities import Quantity, QuantityError
from pratique.cluster.schemas import ListType, built_in_schema, built_in_type
from pratique.registry.defaults.group_defaults import GROUP_DEFAULTS
from pratique.registry.defaults.literal_defaults import LEADING_TO_ZEROS, LITERALS, WRITTEN_ZEROS
from pratique.registry.defaults.pod_defaults import CORE_DEFAULTS
from pratique.registry.defaults.round_trips import converted_back

_Visit: TypeAlias = Callable[[JSONObject], JSONObject]

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
    return msgspec.json.decode(_FILE.read_bytes(), type=_File).types


def with_defaults(kind: GroupVersionKind, written: JSONObject) -> JSONObject:
    """The object with the defaults of its kind and version; the one given is left alone, and may share parts."""
    visit = _visit_of_kind(kind)
    return written if visit is None else converted_back(kind, visit(written))


def with_defaults_of_changes(kind: GroupVersionKind, before: JSON, changed: JSONObject) -> JSONObject:
    """A changed object with the defaults of what has changed, as an API server completes what a patch has made.

    An object that did not have its defaults before comes from no API server, and gets none.
    """
    return with_defaults(kind, _without_empty_metadata(changed)) if _has_defaults(kind, before) else changed


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
    if type_ is None:
        return _visit((), (), tuple(zeros.items()), {}, ()) if zeros else None
    zero, missing, functions = dict(type_.zero), {**type_.missing, **zeros}, []
    for function in type_.functions:
        if function in LITERALS:
            zero |= LITERALS[function].zero
            missing |= LITERALS[function].missing
        else:
            functions.append(CORE_DEFAULTS.get(function) or GROUP_DEFAULTS[function])
    visits, embedded = _visits_of_fields(name, type_)
    return _visit(functions, tuple(zero.items()), tuple(missing.items()), visits, embedded)


def _visits_of_fields(
    name: str, type_: DefaultedType
) -> tuple[Mapping[str, Callable[[JSON], JSON]], tuple[str, ...]]:
    fields = built_in_type(name).fields
    visits: dict[str, Callable[[JSON], JSON]] = dict.fromkeys(type_.quantities, _rounded_up)
    embedded = []
    for field in (*type_.fields, *([LEADING_TO_ZEROS[name]] if name in LEADING_TO_ZEROS else ())):
        kind = fields[field]
        is_list = isinstance(kind, ListType)
        inner = _visit_of_type(getattr(kind.items if isinstance(kind, ListType) else kind, "name", ""))
        if inner is None:
            continue
        visits[field] = functools.partial(_each, inner) if is_list else functools.partial(_only, inner)
        if field in type_.embedded and inner({}):
            embedded.append(field)
    return visits, tuple(embedded)


_NOTHING: JSONObject = {}


def _visit(
    functions: Sequence[_Visit],
    zero: Sequence[tuple[str, JSON]],
    missing: Sequence[tuple[str, JSON]],
    visits: Mapping[str, Callable[[JSON], JSON]],
    embedded: Sequence[str],
) -> _Visit:
    children = tuple(visits.items())
    given = (*missing, *((field, _NOTHING) for field in embedded))

    def visit(value: JSONObject) -> JSONObject:
        filled = value
        for function in functions:
            filled = function(filled)
        absent = {field: default for field, default in zero if not filled.get(field)} if zero else {}
        if given:
            absent |= {field: default for field, default in given if filled.get(field) is None}
        if absent:
            filled = {**filled, **absent}
        for field, visit_child in children:
            child = filled.get(field)
            if child is not None:
                changed = visit_child(child)
                if changed is not child:
                    filled = filled.copy() if filled is value else filled
                    filled[field] = changed
        return filled

    return visit


def _only(visit: _Visit, value: JSON) -> JSON:
    return visit(value) if type(value) is dict else value


def _each(visit: _Visit, values: JSON) -> JSON:
    if type(values) is not list:
        return values
    changed = [visit(value) if type(value) is dict else value for value in values]
    for new, old in zip(changed, values, strict=True):
        if new is not old:
            return changed
    return values


_MILLI = -3


def _rounded_up(resources: JSON) -> JSON:
    """Round the quantities of a list of resources up to thousandths: ``SetDefaults_ResourceList``."""
    if type(resources) is not dict or not any(map(_may_be_finer, resources.values())):
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
