"""Deadlines of incoming calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pratique.calls import Deadline

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

_MOST_MARGIN_SECONDS = 0.05
"""What an answer may take on its way back: a hundred times what it takes between idle processes."""


def answering_deadline(context: ServicerContext[Any, Any]) -> Deadline | None:
    """When controllers must be done so that the answer, with what the others decided, is back in time.

    That is before the call's own deadline by a tenth of what is left, or by the margin where that is less.
    None where the call has no deadline.
    """
    remaining = context.time_remaining()
    if remaining is None:
        return None
    return Deadline.after(remaining - min(_MOST_MARGIN_SECONDS, remaining / 10))
