"""The validator: runs validating controllers concurrently, behind gRPC."""

from __future__ import annotations

import dataclasses

from pratique.admission.controllers import Phase
from pratique.admission.v1.validator_service_pb2 import ValidateRequest
from pratique.hosting.phase_services import PhaseService, PhaseServiceSettings
from pratique.hosting.running import ValidatorHost
from pratique.rpc.messages import validate_response


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorSettings(PhaseServiceSettings):
    """Where the validator listens, what it hosts, and how it stops."""

    port: int = 9002
    """Port to listen on; 0 picks a free one."""


VALIDATOR = PhaseService(
    "validator", Phase.VALIDATE, ValidatorHost, ValidatorHost.validate, ValidateRequest, validate_response
)
"""The validator, ready to run."""
