"""Denials: one Status out of all that was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.statuses import StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.statuses import Status


def combine(denials: Sequence[Status], *, first_only: bool) -> Status:
    """Make the Status that the user reads.

    The first denial in chain order gives code, reason and message; ``details.causes`` has one entry for each. A
    denial that is alone and brings causes of its own stays as it is. ``denials`` is not empty.
    """
    first = denials[0]
    if first_only or (len(denials) == 1 and first.details is not None and first.details.causes):
        return first
    details = first.details or StatusDetails()
    causes = tuple(_cause(denial) for denial in denials)
    return msgspec.structs.replace(first, details=msgspec.structs.replace(details, causes=causes))


def _cause(denial: Status) -> StatusCause:
    own = denial.details.causes if denial.details is not None else ()
    field = own[0].field if own else ""
    return StatusCause(reason=denial.reason, message=denial.message, field=field)
