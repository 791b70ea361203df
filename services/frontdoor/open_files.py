"""Open files and memory: how many connections this process may have, and that what they used goes back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_MAPPED_BYTES = 128 * 1024

ENOUGH = 4096
"""Each connection is one, and takes 60 to 70 KiB: a quarter of a GiB, which a front door with 512 MiB has beside the 64
of its reviews. 500 strangers a second that say nothing are 2,500 at a time, as each is closed after 5 s."""


def take_enough_open_files() -> None:
    """Raise the limit where it is lower, and the system grants more.

    The usual limit, 1,024, is for programs that use ``select``. Beyond it new connections are reset, so that a thousand
    strangers that say nothing would keep out who may call. Go raises it for each program (``os/rlimit.go``).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # A container's runtime may refuse it; the front door is as good as with the limit that it has, then.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def give_large_buffers_back() -> None:
    """Have each buffer of more than 128 KiB go back to the system when it is freed.

    glibc gives that up with the first of them, and keeps the next ones: after 1,000 connections over TLS, each with a
    buffer of 256 KiB, 180 MiB stayed. Other C libraries have no such threshold.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def give_freed_memory_back() -> None:
    """Collect what connections left behind that were closed, and have the system take back what is free.

    Connections over TLS are cycles of objects, and what they leave is small pieces all over the heap.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
