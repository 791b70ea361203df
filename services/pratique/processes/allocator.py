"""Settings of the C library's allocator, for processes that handle large messages again and again.

By default glibc returns the memory of a large message to the system as soon as the message is freed, and the next one
pays for every page again: a third of the CPU of a review of 500 KB. See ADR 0027 for the figures.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""The parameters of ``mallopt``, from ``malloc.h``."""
_VARIABLES = {
    _TRIM_THRESHOLD: "MALLOC_TRIM_THRESHOLD_",
    _TOP_PAD: "MALLOC_TOP_PAD_",
    _MMAP_THRESHOLD: "MALLOC_MMAP_THRESHOLD_",
}
"""Their environment variables: who sets one knows better."""

_applied: set[int] = set()
"""The parameters that were set here."""

_MIB = 1024 * 1024


def keep_freed_memory() -> None:
    """Keep what a review of several hundred kilobytes frees for the next one. Other C libraries are left alone.

    4 MiB: eight times the largest text that is parsed in this process (512 KiB); longer buffers go back at once. 8 MiB:
    what a review of that size frees, with its message, on both sides of a call; more goes back.
    """
    _set(_MMAP_THRESHOLD, 4 * _MIB)
    _set(_TRIM_THRESHOLD, 8 * _MIB)
    _set(_TOP_PAD, _MIB)


def keep_freed_memory_beside_connections() -> None:
    """Do the same where thousands of connections come and go, each with buffers of 256 KiB if it uses TLS.

    glibc raises the threshold above which it returns every freed buffer with the first such buffer, and keeps the next
    ones: after 1,000 connections over TLS, 180 MiB stayed. So it stays at 128 KiB. The larger buffers of a review come
    from the 8 MiB by which the heap grows, and what is kept of it at most is 16 MiB.
    """
    _set(_MMAP_THRESHOLD, 128 * 1024)
    _set(_TRIM_THRESHOLD, 16 * _MIB)
    _set(_TOP_PAD, 8 * _MIB)


_CHUNK_BYTES = 120 * 1024
"""Below the threshold above which glibc maps each buffer, so that chunks extend the heap."""
_ROOM_CHUNKS = 64
"""7.5 MiB: what a review of 512 KiB takes in a front door at a time."""


def make_room() -> None:
    """Extend the heap so that the large buffers of a review find room in it; takes 20 µs if there is room.

    glibc extends the heap for small buffers only. Where it ends too soon for a large one, each such buffer is mapped,
    and its pages are paid for again: 500 of them in half of the runs, 1 ms of a review of 500 KB. Does nothing unless
    :func:`keep_freed_memory_beside_connections` was called, and no variable took precedence.
    """
    if not _applied.issuperset(_VARIABLES):
        return
    with contextlib.suppress(OSError, AttributeError):
        malloc, free = _malloc_and_free()
        for chunk in [malloc(_CHUNK_BYTES) for _ in range(_ROOM_CHUNKS)]:
            free(chunk)


@functools.cache
def _malloc_and_free() -> tuple[Callable[[int], int | None], Callable[[int | None], None]]:
    library = ctypes.PyDLL(None)  # which keeps the interpreter lock: nobody else takes the room meanwhile
    malloc, free = library.malloc, library.free
    malloc.argtypes, malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    return malloc, free


def return_freed_memory() -> None:
    """Return all free memory to the system now."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _set(parameter: int, value: int) -> None:
    if _VARIABLES[parameter] not in os.environ:
        with contextlib.suppress(OSError, AttributeError):
            if ctypes.CDLL(None).mallopt(parameter, value):
                _applied.add(parameter)
