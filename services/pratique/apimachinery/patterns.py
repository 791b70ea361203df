"""Regular expressions that are compiled when they are first used, because most commands use few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_COMPILED = ("findall", "finditer", "fullmatch", "groups", "match", "search", "split", "sub")


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern that ``re.compile`` would return, compiled on its first use.

    It has the methods of a pattern, ``groups`` and ``pattern``, but ``isinstance`` and the functions of ``re`` take it
    for none.

    Args:
        text: the regular expression. A faulty one raises ``re.error`` on the first use.
        flags: those of ``re``.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """Slots that hold nothing until one is read, then a compiled pattern's own methods."""

    __slots__ = ("_flags", "pattern", *_COMPILED)

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Fill the slots. Python calls this for an empty one."""
        compiled = re.compile(self.pattern, self._flags)
        for slot in _COMPILED:
            setattr(self, slot, getattr(compiled, slot))
        return getattr(compiled, name)
