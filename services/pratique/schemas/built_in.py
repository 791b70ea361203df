"""The schemas of built-in kinds.

``built_in.json`` beside this file is derived from the OpenAPI documents that Kubernetes publishes in its source tree
(``api/openapi-spec/v3`` of release 1.36.3; Copyright The Kubernetes Authors, licensed under Apache-2.0) by
``scripts/make_schemas.py``, which says how it is written.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique.schemas.types import ListType, MapType, Merge, Scalar, Structure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON
    from pratique.kinds import GroupVersionKind
    from pratique.schemas.types import Type

_FILE = Path(__file__).with_name("built_in.json")


class _Structure(msgspec.Struct, frozen=True):
    fields: dict[str, str | _Type]
    required: frozenset[str] = frozenset()
    defaults: dict[str, object] = {}
    atomic: bool = False


class _Type(msgspec.Struct, frozen=True):
    type: str = ""
    list: str | _Type | None = None
    map: str | _Type | None = None
    by: Merge = Merge.ATOMIC
    keys: tuple[str, ...] = ()
    atomic: bool = False
    granular: bool = False


class _Document(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    structures: dict[str, _Structure]


@functools.cache
def _document() -> _Document:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Document)


def load() -> None:
    """Read the schemas now, and not with the first review that needs one."""
    _document()


def built_in_schema(kind: GroupVersionKind) -> Structure | None:
    """The schema of a built-in kind; None where Kubernetes has no such kind."""
    name = _document().kinds.get(f"{kind.group}/{kind.version}/{kind.kind}")
    return None if name is None else structure(name)


@functools.cache
def structure(name: str) -> Structure:
    """A type of Kubernetes by its name, such as ``meta.v1.ObjectMeta``.

    Raises:
        KeyError: there is none of that name.
    """
    written = _document().structures[name]

    def resolve() -> Mapping[str, Type]:
        return {field: _read(kind) for field, kind in written.fields.items()}

    defaults: Mapping[str, JSON] = written.defaults
    return Structure(name, resolve, written.required, defaults, written.atomic, open=not written.fields)


def _read(written: str | _Type) -> Type:
    if isinstance(written, str):
        return structure(written[1:]) if written.startswith("@") else Scalar(written)
    if written.list is not None:
        return ListType(_read(written.list), written.by, written.keys)
    if written.map is not None:
        return MapType(_read(written.map), written.atomic)
    found = structure(written.type[1:])
    return dataclasses.replace(found, atomic=written.atomic and not written.granular)
