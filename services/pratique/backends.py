"""Backends: servers of somebody else's that a controller asks for its answers.

Controllers get no network of their own; whoever hosts them hands them the means to reach the one server that their
configuration names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from pratique.calls import Deadline


class Backend(Protocol):
    """A server that is asked by POST, in JSON."""

    async def ask(self, body: bytes, deadline: Deadline) -> bytes:
        """Ask once, and have the body of the answer, which may be anything.

        Raises:
            CallError: no answer came that says something; the text is that of Kubernetes' client.
        """

    async def close(self) -> None:
        """Let go of connections. No questions may follow."""


OpenBackend: TypeAlias = Callable[[Path], Backend]
"""Makes ready to ask the server that a kubeconfig file names; connects to nothing yet.

It raises :class:`pratique.errors.ConfigurationError`: the file cannot be used.
"""
