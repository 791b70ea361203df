"""Struct names: the types ``Object``, ``Object.spec`` and so on that an expression makes values of.

Kubernetes lets every such name be a type with every field, of any type (``k8s.io/apiserver/pkg/cel/mutation``). The
checker has to be told types and fields beforehand, and takes no type within a type of which it is also a field. So an
expression is scanned for the names that it uses, and the points in its types' names are written otherwise for the
checker: as one character that occurs in none of them, so that every place in the source stays where it is.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OBJECT = "Object"
PATCH = "JSONPatch"
PATCH_FIELDS: Mapping[str, str] = {"op": "string", "path": "string", "from": "string", "value": "dyn"}
"""The fields of ``JSONPatch``, and their types."""

_QUOTED = r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_RAW = r'[rR](?:"""[^\x00]*?"""|\'\'\'[^\x00]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"(?P<skipped>//[^\n]*|[bB]?{_RAW}|[bB]?(?:{_QUOTED}))"
    rf"|(?P<type>\b{OBJECT}(?:\.{_NAME})*(?=\s*\{{))"
    rf"|(?P<name>{_NAME})",
    re.DOTALL,
)
_SEPARATORS = "_" + string.ascii_uppercase + string.ascii_lowercase + string.digits


@dataclasses.dataclass(frozen=True, slots=True)
class StructNames:
    """An expression as the checker gets it, and what it has to know."""

    source: str
    """The expression with names that the checker takes, as long as it was."""
    types: Mapping[str, str]
    """The types that it makes values of: as the checker knows them, and as they are written."""
    fields: frozenset[str]
    """All names in the expression, each of which may be a field."""

    def restore(self, text: str) -> str:
        """Put the names as they are written into a text of the checker's."""
        if not self.types:
            return text
        known = "|".join(sorted(map(re.escape, self.types), key=len, reverse=True))
        return re.sub(rf"\b(?:{known})\b", lambda match: self.types[match[0]], text)


@functools.lru_cache(1024)
def scan(source: str) -> StructNames:
    """Find the types of an expression and give them names that the checker takes."""
    tokens = list(_TOKEN.finditer(source))
    written = {token["type"] for token in tokens if token["type"]}
    separator = _unused(written)
    types = {name.replace(".", separator): name for name in written}
    rewritten = _TOKEN.sub(
        lambda token: token["type"].replace(".", separator) if token["type"] else token[0], source
    )
    fields = frozenset(token["name"] for token in tokens if token["name"])
    return StructNames(rewritten, types, fields | {part for name in written for part in name.split(".")})


def _unused(names: set[str]) -> str:
    """Choose a character that tells ``Object.a.b`` from ``Object.a_b``."""
    used = set("".join(names))
    return next((one for one in _SEPARATORS if one not in used), "_")
