"""The mutator: runs mutating controllers one after another, behind gRPC."""

from __future__ import annotations

import dataclasses

from pratique.admission.controllers import Phase
from pratique.admission.v1.mutator_service_pb2 import MutateRequest
from pratique.hosting.phase_services import PhaseService, PhaseServiceSettings
from pratique.hosting.running import MutatorHost
from pratique.rpc.messages import mutate_response


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MutatorSettings(PhaseServiceSettings):
    """Where the mutator listens, what it hosts, and how it stops."""

    port: int = 9001
    """Port to listen on; 0 picks a free one."""


MUTATOR = PhaseService(
    "mutator", Phase.MUTATE, MutatorHost, MutatorHost.mutate, MutateRequest, mutate_response
)
"""The mutator, ready to run."""
