"""How a front door calls its mutator and validators."""

from __future__ import annotations

import enum


class CallKind(enum.StrEnum):
    """What carries calls to the services of this suite. Those to webhooks are always made by themselves."""

    STREAM = "stream"
    """A stream to each replica, on which many are under way at a time; by themselves where a service knows none."""
    UNARY = "unary"
    """Each by itself, balanced and made again by gRPC."""
