"""The settings of the mutator."""

from __future__ import annotations

import dataclasses

from pratique.rpc.settings import ServerSettings
from pratique.settings import ChainSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorSettings(ServerSettings):
    """Where the mutator listens, what it hosts, and how it ends."""

    port: int = 9001
    """Port to listen on; 0 picks a free one."""
    chain: ChainSettings = dataclasses.field(default_factory=ChainSettings)
    """What is in the chain and what it knows."""
