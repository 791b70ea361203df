"""Parts of outcomes as protobuf messages, and back."""

from __future__ import annotations

from pratique.admission.v1 import outcome_pb2
from pratique.json_values import encode
from pratique.parts import Ending, Part
from pratique.rpc.bad_answers import bad_answer, read_operations
from pratique.rpc.status_messages import read_status, write_status

_TO_NUMBER = {
    Ending.ALLOWED: outcome_pb2.Part.ENDING_ALLOWED,
    Ending.MUTATED: outcome_pb2.Part.ENDING_MUTATED,
    Ending.UNCHANGED: outcome_pb2.Part.ENDING_UNCHANGED,
    Ending.DENIED: outcome_pb2.Part.ENDING_DENIED,
    Ending.WARNED: outcome_pb2.Part.ENDING_WARNED,
    Ending.SKIPPED: outcome_pb2.Part.ENDING_SKIPPED,
    Ending.FAILED: outcome_pb2.Part.ENDING_FAILED,
    Ending.FAILED_OPEN: outcome_pb2.Part.ENDING_FAILED_OPEN,
}
_FROM_NUMBER = {number: ending for ending, number in _TO_NUMBER.items()}


def part_to_message(part: Part) -> outcome_pb2.Part:
    """Write a part as a message."""
    message = outcome_pb2.Part(
        name=part.name,
        configuration=part.configuration,
        ending=_TO_NUMBER[part.ending],
        reason=part.reason,
        key=part.key,
        reinvocable=part.reinvocable,
        applied=part.applied,
        duration_micros=round(part.duration_seconds * 1_000_000),
    )
    if part.operations:
        message.patch = encode(part.operations)
    for status in part.denials:
        write_status(message.denials.add(), status)
    return message


def part_from_message(message: outcome_pb2.Part) -> Part:
    """Read a part.

    Raises:
        BadAnswerError: it has no name or does not say how it ended, or its patch is none.
    """
    ending = _FROM_NUMBER.get(message.ending)
    if ending is None or not message.name:
        raise bad_answer("a part of the outcome does not say what it is or how it ended")
    return Part(
        name=message.name,
        configuration=message.configuration,
        ending=ending,
        reason=message.reason,
        denials=tuple(map(read_status, message.denials)),
        operations=read_operations(message.patch) if message.patch else (),
        key=message.key,
        reinvocable=message.reinvocable,
        applied=message.applied,
        duration_seconds=message.duration_micros / 1_000_000,
    )
