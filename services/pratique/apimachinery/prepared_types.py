"""Types whose values msgspec reads, made ready where no other thread can see them half made.

msgspec works out how to read a structure when that is first asked for, and lets other threads use what it has so far:
two that read the first value of a type at once end the process (a null pointer, seen with msgspec 0.22).
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

_Kind = TypeVar("_Kind")
_lock = threading.Lock()
_prepared: set[object] = set()


def prepared(kind: _Kind) -> _Kind:
    """Give a type back, ready for what reads its values.

    As in ``msgspec.convert(value, prepared(Pod))``; every reading of typed values in this project has it.
    """
    if kind not in _prepared:
        with _lock:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind
