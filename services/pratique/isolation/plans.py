"""Plans: what a worker process is told to run."""

from __future__ import annotations

import msgspec

from pratique.definitions import Phase  # noqa: TC001 - msgspec reads the annotations
from pratique.json_values import JSON  # noqa: TC001 - likewise


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One half of one controller, and what it is given. It holds nothing of the other controllers' settings."""

    service: str
    """Under whose name it logs."""
    controller: str
    """The controller, by name."""
    origin: str
    """The entry point that it is, or is in: ``module:attribute``."""
    phase: Phase
    configuration: JSON = None
    """Its settings, as they are configured; None for the defaults."""
    source: str = ""
    """The file that they come from; empty where they come from none."""
    config: tuple[str, ...] = ()
    """As ``ChainSettings.config``."""
    cluster: tuple[str, ...] | None = None
    """As ``ChainSettings.cluster``. The worker reads these files and follows them itself."""
    provisions: bool = False
    """Whether the chain makes the namespaces that are missing."""
    chain: str = ""
    """The digest of the chain, of which it is a part."""
    reload_grace_seconds: float = 0.0
    """As ``ChainSettings.reload_grace_seconds``."""
    path: tuple[str, ...] = ()
    """Where Python looks for modules."""


class Readiness(msgspec.Struct, frozen=True):
    """What a worker answers to its plan."""

    error: str = ""
    """Why it cannot be carried out; empty where it can."""
