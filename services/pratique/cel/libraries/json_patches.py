"""JSON patches: what expressions that make them need.

Source: ``k8s.io/apiserver/pkg/cel/library/jsonpatch.go``. Only expressions of mutations know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library, Overload
from pratique.cel.libraries.strings import require_types

if TYPE_CHECKING:
    from pratique.cel.activation import Frame
    from pratique.cel.values import Value


def _escape_key(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return str(text.replace("~", "~0").replace("/", "~1"))


JSON_PATCH = Library(
    overloads=(Overload("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey(string)", "string"),),
    functions={"jsonpatch.escapeKey": _escape_key},
)
