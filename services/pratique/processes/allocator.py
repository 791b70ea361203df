"""Settings of the C library's allocator, for processes that handle large messages again and again.

By default glibc returns the memory of a large message to the system as soon as the message is freed, and the next one
pays for every page again: a third of the CPU of a review of 500 KB. See ADR 0027 for the figures.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""The parameters of ``mallopt``, from ``malloc.h``."""
_VARIABLES = {
    _TRIM_THRESHOLD: "MALLOC_TRIM_THRESHOLD_",
    _TOP_PAD: "MALLOC_TOP_PAD_",
    _MMAP_THRESHOLD: "MALLOC_MMAP_THRESHOLD_",
}
"""Their environment variables: who sets one knows better."""

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


def return_freed_memory() -> None:
    """Return all free memory to the system now."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _set(parameter: int, value: int) -> None:
    if _VARIABLES[parameter] not in os.environ:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(parameter, value)
