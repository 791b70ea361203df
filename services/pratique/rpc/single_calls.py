"""One call of one controller and its outcome as bytes, for worker processes: messages of the contract, of one each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.v1 import validator_service_pb2
from pratique.rpc import messages

if TYPE_CHECKING:
    from pratique.calls import Call
    from pratique.clusters import Cluster
    from pratique.outcomes import Outcome
    from pratique.reviews import Review


def write_call(review: Review, call: Call) -> bytes:
    """Ask for one half of a controller, of either phase."""
    written: bytes = messages.validate_request(review, [call], review.digest).SerializeToString()
    return written


class IncomingCall:
    """A call that came in."""

    def __init__(self, raw: bytes) -> None:
        """Take what came in."""
        self._request = validator_service_pb2.ValidateRequest.FromString(raw)
        self.digest: str = self._request.digest
        """Of what it is to be decided by."""

    @property
    def seconds(self) -> float | None:
        """How long there is for it; None where nobody says."""
        millis = self._request.controllers[0].timeout_millis if self._request.controllers else 0
        return millis / 1000 if millis > 0 else None

    def read(self, cluster: Cluster) -> tuple[Review, Call]:
        """Read what is asked; the controller looks things up in ``cluster``.

        Raises:
            ReviewError: the review cannot be read.
        """
        review, [call] = messages.review_and_calls(self._request, cluster)
        return review, call


def write_outcome(outcome: Outcome) -> bytes:
    """Answer; an outcome that no message can hold is its controller's failure."""
    written: bytes = messages.validate_response([outcome]).SerializeToString()
    return written


def read_outcome(raw: bytes, call: Call) -> Outcome:
    """Read the answer to a call, which may hold a patch where the call says that it ``amends``.

    Raises:
        BadAnswerError: it holds none that can be used.
    """
    response = validator_service_pb2.ValidateResponse.FromString(raw)
    [outcome] = messages.outcomes_from_validate(response, [call])
    return outcome
