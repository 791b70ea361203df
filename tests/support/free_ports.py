"""Ports for servers that have to be told theirs."""

from __future__ import annotations

import contextlib
import random
import socket

_BELOW_OTHERS = range(15_000, 32_000)
"""Below those that the kernel gives to connections and to whoever asks for any: it would give one away again before the
server listens on it, as it does some hundred times a second while tests run."""


def free_port() -> int:
    """A port of this host that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_BELOW_OTHERS)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
