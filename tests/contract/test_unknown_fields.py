"""Fields from a later version of the contract harm nobody, in either direction, and are not lost on the way."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import Message

from pratique.admission.results import ALLOWED, Outcome
from pratique.admission.reviews import Call
from pratique.apimachinery.errors import BadAnswerError
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import KINDS, Kind, serving

# Field 1000, length-delimited: the five bytes "later".
UNKNOWN = b"\xc2\x3e\x05later"

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=str)


def with_unknown_fields(message: Message) -> int:
    """Add a field from the future to a message and to every message in it; gives how many there are."""
    added = 1
    for field, value in message.ListFields():
        inside = field.message_type
        if inside is not None and not inside.GetOptions().map_entry:
            inner = value if field.is_repeated else [value]
            added += sum(with_unknown_fields(nested) for nested in inner)
    message.MergeFromString(UNKNOWN)
    return added


def test_a_service_reads_past_them(kind: Kind) -> None:
    request = kind.request(review_of(), [Call("c", 5)])
    assert with_unknown_fields(request) >= 5

    async def run() -> bytes:
        async with serving(kind, hosted("c", controllers.allowing)) as channel:
            return await kind.send(channel, request)

    [outcome] = kind.outcomes(kind.response.FromString(asyncio.run(run())), [Call("c")])
    assert outcome.decision is ALLOWED


def test_a_client_reads_past_them(kind: Kind) -> None:
    expected = [Outcome(controller="c", decision=ALLOWED, warnings=("w",))]
    response = kind.response()
    list_field = response.DESCRIPTOR.fields[0].name
    getattr(response, list_field).add(controller="c", warnings=["w"]).allowed.SetInParent()
    assert with_unknown_fields(response) == 3
    received = kind.response.FromString(response.SerializeToString())
    assert kind.outcomes(received, [Call("c")]) == expected


def test_they_survive_being_read_and_written(kind: Kind) -> None:
    request = kind.request(review_of(), [Call("c", 5)])
    added = with_unknown_fields(request)
    passed_on = type(request).FromString(request.SerializeToString()).SerializeToString()
    assert passed_on.count(UNKNOWN) == added


def test_a_decision_of_a_later_kind_is_no_allowance(kind: Kind) -> None:
    # A later contract's new member of the oneof is an unknown field here, and leaves the decision unset.
    response = kind.response()
    getattr(response, response.DESCRIPTOR.fields[0].name).add(controller="c").MergeFromString(UNKNOWN)
    with pytest.raises(BadAnswerError, match="the outcome holds no decision"):
        kind.outcomes(response, [Call("c")])
