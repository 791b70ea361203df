"""The types of fields.

Source: ``k8s.io/kube-openapi/pkg/schemaconv`` and ``sigs.k8s.io/structured-merge-diff/v6/schema/elements.go``, which
say how a schema's types are merged.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pratique.json_values import JSON


class Scalar(enum.StrEnum):
    """The types that are one value, and ``any``, of which nothing is known."""

    STRING = "string"
    BYTES = "bytes"
    """A text that is base64."""
    DATE_TIME = "date-time"
    DATE = "date"
    DURATION = "duration"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    ANY = "any"


class Merge(enum.StrEnum):
    """How two lists become one."""

    ATOMIC = "atomic"
    """The new one takes the place of the old one."""
    SET = "set"
    """Items that are there already are not added again."""
    MAP = "map"
    """Items of the same keys are merged."""


@dataclasses.dataclass(frozen=True, slots=True)
class ListType:
    """A list."""

    items: Type
    merge: Merge = Merge.ATOMIC
    keys: tuple[str, ...] = ()
    """The fields by which items of a ``map`` list are told apart, in the schema's order."""


@dataclasses.dataclass(frozen=True, slots=True)
class MapType:
    """An object whose fields nobody names beforehand."""

    values: Type
    atomic: bool = False
    """A new one takes the place of an old one as a whole."""


@dataclasses.dataclass(frozen=True, eq=False)
class Structure:
    """An object with fields of its own. Types may hold themselves, so fields are worked out when asked for."""

    name: str
    """What messages call it; empty where it has no name."""
    resolve: Callable[[], Mapping[str, Type]]
    """Gives the fields."""
    required: frozenset[str] = frozenset()
    defaults: Mapping[str, JSON] = dataclasses.field(default_factory=dict)
    """What stands for a field that is not there."""
    atomic: bool = False
    """A new one takes the place of an old one as a whole."""
    open: bool = False
    """There may be fields that are not named here."""

    @functools.cached_property
    def fields(self) -> Mapping[str, Type]:
        """The fields by name."""
        return self.resolve()


Type: TypeAlias = Scalar | ListType | MapType | Structure
"""The type of a field."""
