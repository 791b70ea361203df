"""Where other people's controllers run."""

from __future__ import annotations

import enum


class Isolation(enum.StrEnum):
    """What stands between a service and the controllers of installed packages. Pratique's own run in the service."""

    PROCESS = "process"
    """A process for each: one that spins, crashes its interpreter or is killed costs its own outcome alone."""
    THREAD = "thread"
    """The service's own process, in threads and tasks: without the memory and the hop, and on trust."""
