"""Values that tests share: a test that changes one breaks others, far away and only where they run behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

_SHARED = "support."


def shared_values() -> Mapping[str, str]:
    """The lists, dicts and sets in modules that tests share, as they are printed now, by their full names."""
    return {
        f"{module.__name__}.{name}": repr(value)
        for module in _shared_modules()
        for name, value in vars(module).items()
        if isinstance(value, dict | list | set) and not name.startswith("__")
    }


def _shared_modules() -> Iterator[ModuleType]:
    return (module for name, module in list(sys.modules.items()) if name.startswith(_SHARED))


def changed_values(before: Mapping[str, str]) -> list[str]:
    """The names of values that are no longer what they were ``before``."""
    now = shared_values()
    return sorted(name for name, printed in before.items() if now.get(name) != printed)
