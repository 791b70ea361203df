"""Kubernetes' types as Go has them: what OpenAPI does not say of a field, and Go's decoder does.

``scripts/make_go_types.go`` writes the files that are read here, and says how a type is written in them.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.cluster.schemas import built_in_schema

_FILE = Path(__file__).with_name("go_types.json")


class GoKind(enum.Enum):
    """How Go reads and writes the values of a type."""

    STRING = enum.auto()
    BOOL = enum.auto()
    INTEGER = enum.auto()
    FLOAT = enum.auto()
    BYTES = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    STRUCT = enum.auto()
    TIME = enum.auto()
    MICRO_TIME = enum.auto()
    QUANTITY = enum.auto()
    INT_OR_STRING = enum.auto()
    SCHEMA = enum.auto()
    """A schema, or something shorter in its place, which a function of its own reads."""
    ANY = enum.auto()
    """Any JSON, which stays as it is."""


class GoField(msgspec.Struct, frozen=True, eq=False):
    """A field of a struct."""

    name: str
    """Its name in JSON; in an internal type that is mostly the name in Go."""
    type: GoType
    omits_empty: bool = False
    omits_zero: bool = False
    embedded: tuple[str, ...] = ()
    """The structs that it is embedded with, which errors name: ``IngressRuleValue``."""

    @property
    def omits_zero_scalars(self) -> bool:
        """Whether Go does not write a number or bool that is zero."""
        scalar = self.type.kind in {GoKind.BOOL, GoKind.INTEGER, GoKind.FLOAT}
        return self.omits_empty and scalar and not self.type.is_pointer


class GoType(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A type. Structs may be recursive, so their fields are resolved on demand."""

    kind: GoKind
    name: str
    """As reflect prints it: ``v1.ServiceType``, ``[]v1.Container``, ``map[string]string``."""
    items: GoType | None = None
    """The type of the items of a list, of the values of a map, or of the schema that something stands for."""
    is_pointer: bool = False
    full_name: str = ""
    """The name of a struct in the file: ``api.core.v1.Container``."""
    types: GoTypes | None = None

    @functools.cached_property
    def members(self) -> tuple[GoField, ...]:
        """What a struct consists of, in the order of Go, embedded structs as fields of their own."""
        return () if self.types is None else self.types.members(self.full_name)

    @functools.cached_property
    def fields(self) -> Mapping[str, GoField]:
        """The fields of a struct by name, with those of the structs that are embedded."""
        found: dict[str, GoField] = {}
        for member in self.members:
            if not member.name.startswith(_EMBEDDED):
                found[member.name] = member
                continue
            for field in member.type.fields.values():
                path = (member.name.removeprefix(_EMBEDDED), *field.embedded)
                found.setdefault(field.name, msgspec.structs.replace(field, embedded=path))
        return found

    @property
    def struct_name(self) -> str:
        """The name of a struct without its package, as errors have it."""
        return self.full_name.rpartition(".")[2]

    @property
    def bits(self) -> int:
        """The size of an integer: 8 for ``uint8``, else 32 or 64."""
        return _BITS.get(self.name, 64)


_EMBEDDED = ">"
_BITS = {"uint8": 8, "int32": 32}
_SCALARS = {
    "string": GoKind.STRING,
    "bool": GoKind.BOOL,
    "int": GoKind.INTEGER,
    "int32": GoKind.INTEGER,
    "int64": GoKind.INTEGER,
    "uint8": GoKind.INTEGER,
    "float64": GoKind.FLOAT,
    "v1.Time": GoKind.TIME,
    "v1.MicroTime": GoKind.MICRO_TIME,
    "resource.Quantity": GoKind.QUANTITY,
    "intstr.IntOrString": GoKind.INT_OR_STRING,
}
_SCHEMA = pattern(r"(.*\.JSONSchemaProps)Or(?:Bool|Array|StringArray)")
_MAP = pattern(r"map\[(.*?)\](.*)")


class GoTypes:
    """The types of a file, which is read with the first of them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read: dict[str, GoType] = {}

    @functools.cached_property
    def _structs(self) -> dict[str, msgspec.Raw]:
        return msgspec.json.decode(self._file.read_bytes(), type=prepared(dict[str, msgspec.Raw]))

    def table(self, name: str) -> dict[str, str]:
        """An entry as it is in the file; empty if there is none."""
        raw = self._structs.get(name)
        return {} if raw is None else msgspec.json.decode(raw, type=prepared(dict[str, str]))

    def struct(self, full_name: str) -> GoType:
        """A struct.

        Raises:
            KeyError: there is no such type.
        """
        if full_name not in self._structs:
            raise KeyError(full_name)
        return self.type(f"@{full_name}")

    def members(self, full_name: str) -> tuple[GoField, ...]:
        """What a struct consists of."""
        return tuple(self._member(*written) for written in self.table(full_name).items())

    def _member(self, name: str, written: str) -> GoField:
        bare = written.lstrip("?!")
        marks = written[: len(written) - len(bare)]
        return GoField(name, self.type(bare), "?" in marks, "!" in marks)

    def type(self, written: str) -> GoType:
        """A type as the file has it."""
        found = self._read.get(written)
        if found is None:
            found = self._read[written] = self._parse(written)
        return found

    def _parse(self, written: str) -> GoType:
        if written.startswith("*"):
            return msgspec.structs.replace(self.type(written[1:]), is_pointer=True)
        if written.startswith("@"):
            return self._parse_struct(written[1:])
        name, has_name, what = written.partition("=")
        if has_name and "[" not in name:
            return msgspec.structs.replace(self.type(what), name=name)
        if written.startswith("[]"):
            items = self.type(written[2:])
            kind = GoKind.BYTES if items.name == "uint8" else GoKind.LIST
            return GoType(kind, f"[]{_printed(items)}", items)
        if (mapped := _MAP.fullmatch(written)) is not None:
            values = self.type(mapped[2])
            return GoType(GoKind.MAP, f"map[{mapped[1]}]{_printed(values)}", values)
        return GoType(_SCALARS.get(written, GoKind.ANY), written)

    def _parse_struct(self, full_name: str) -> GoType:
        name = ".".join(full_name.rsplit(".", 2)[-2:])
        schema = _SCHEMA.fullmatch(full_name)
        if schema is not None:
            return GoType(GoKind.SCHEMA, name, self.struct(schema[1]), full_name=full_name, types=self)
        return GoType(GoKind.STRUCT, name, full_name=full_name, types=self)


def _printed(inner: GoType) -> str:
    return f"*{inner.name}" if inner.is_pointer else inner.name


api_types = GoTypes(_FILE)
"""The types that the API is written in, by the names that the schemas of kinds have."""


@functools.lru_cache(maxsize=1024)
def go_type_of_kind(kind: GroupVersionKind) -> GoType | None:
    """The type of a built-in kind; None if Kubernetes has no such kind."""
    schema = built_in_schema(kind)
    return None if schema is None else api_types.struct(schema.name)
