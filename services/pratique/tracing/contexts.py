"""Contexts: what a call says of the trace that it is part of, as W3C Trace Context has it."""

from __future__ import annotations

import contextvars
from typing import TypeAlias

Carried: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata, such as ``traceparent``."""

_CARRIED: contextvars.ContextVar[Carried | None] = contextvars.ContextVar("traced", default=None)


def carried() -> Carried | None:
    """What calls that are made from here say; None where nothing is traced."""
    return _CARRIED.get()


def carry(metadata: Carried) -> None:
    """Say this with all calls that this task makes, and those that it starts from now on."""
    _CARRIED.set(metadata)
