"""The methods of the contract by phase, the streams that carry their calls, and the messages on those."""

from __future__ import annotations

import dataclasses
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.admission.v1.stream_pb2 import StreamedAnswer, StreamedCall
from pratique.definitions import Phase

if TYPE_CHECKING:
    from pratique.calls import Deadline
    from pratique.tracing.contexts import Carried

__all__ = ["METHODS", "CarriedMethod", "StreamedAnswer", "streamed_call"]


@dataclasses.dataclass(frozen=True, slots=True)
class CarriedMethod:
    """A unary method, and the one that carries its calls."""

    path: str
    stream_path: str
    request_type: type[Any]
    """Has ``calls`` and ``given_up_ids``."""
    response_type: type[Any]
    """Has ``answers`` and ``leaving``."""


METHODS = MappingProxyType(
    {
        Phase.MUTATE: CarriedMethod(
            "/pratique.admission.v1.MutatorService/Mutate",
            "/pratique.admission.v1.MutatorService/MutateStream",
            mutator_service_pb2.MutateStreamRequest,
            mutator_service_pb2.MutateStreamResponse,
        ),
        Phase.VALIDATE: CarriedMethod(
            "/pratique.admission.v1.ValidatorService/Validate",
            "/pratique.admission.v1.ValidatorService/ValidateStream",
            validator_service_pb2.ValidateStreamRequest,
            validator_service_pb2.ValidateStreamResponse,
        ),
    }
)


def streamed_call(number: int, request: bytes, deadline: Deadline, metadata: Carried | None) -> StreamedCall:
    """Write one call of a stream, to be sent now."""
    # Rounded up, and never to 0, which would be no deadline.
    millis = max(1, math.ceil(deadline.remaining_seconds * 1000))
    return StreamedCall(id=number, timeout_millis=millis, metadata=dict(metadata or ()), request=request)
