"""What a front door proves to have checked, over a real connection."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import msgspec
import pytest

from pratique.admission.results import Allowed
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.v1.validator_service_pb2 import ValidateResponse
from pratique.apimachinery.errors import CallError, ReviewError
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, Document
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.input_digests import RecentInputs
from pratique.processes.large_texts import LargeTextReader
from pratique.rpc.check_digests import OBJECT_RULES, CheckDigests
from pratique.rpc.handlers import IncomingRequest
from pratique.rpc.messages import read_request, record_checks, validate_request
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import DIGESTS, KINDS, Kind

KEYED = CheckDigests(b"k" * 32)
TWICE = b'{"a":1,"a":2,"x":"' + b"x" * MIN_PROVED_BYTES + b'"}'
"""What no service accepts that checks it."""


class Deferred:
    """A check that only a service does."""

    def __init__(self) -> None:
        self.passed = False

    def run(self) -> None:
        raise ReviewError("was checked here")


def review(checks: CheckDigests | None) -> Review:
    large = Document.from_raw(TWICE).checked_by(checks)
    return msgspec.structs.replace(review_of(), object_document=large, digest=DIGESTS.whole)


def deferring(raw: bytes, check: Deferred) -> Review:
    large = Document.from_raw(raw).checked_by(KEYED).defer(check)
    return msgspec.structs.replace(review_of(), object_document=large, digest=DIGESTS.whole)


async def answer(kind: Kind, believed: CheckDigests | None, checks: CheckDigests | None) -> Any:
    return await decision_of(kind, believed, review(checks))


async def decision_of(kind: Kind, believed: CheckDigests | None, sent: Review, *, ours: bool = True) -> Any:
    held = RecentInputs(DIGESTS, kind.host([hosted("c", controllers.allowing)], ANY_NAMESPACE))
    offered: Any = kind.offered
    server = RpcServer(offered(held, None, believed), ServerSettings(drain_seconds=0))
    transport = GrpcTransport(await server.start(), ours=ours)
    call = transport.mutate if kind.name == "mutator" else transport.validate
    try:
        [outcome] = await call(sent, [Call("c")], Deadline.after(30))
        return outcome.decision
    finally:
        await transport.close()
        await server.stop()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_service_believes_a_front_door_with_its_key(kind: Kind) -> None:
    assert isinstance(asyncio.run(answer(kind, KEYED, KEYED)), Allowed)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("checks", [None, CheckDigests(), CheckDigests(b"o" * 32)])
@pytest.mark.parametrize("believed", [None, KEYED])
def test_a_service_believes_nobody_else(
    kind: Kind, believed: CheckDigests | None, checks: CheckDigests | None
) -> None:
    with pytest.raises(CallError, match=grpc.StatusCode.INVALID_ARGUMENT.name.title().replace("_", "")):
        asyncio.run(answer(kind, believed, checks))


ONCE = TWICE.replace(b'"a":2', b'"b":2')


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("believed", [None, KEYED])
def test_a_service_checks_what_a_front_door_leaves_to_it(kind: Kind, believed: CheckDigests | None) -> None:
    check = Deferred()
    assert isinstance(asyncio.run(decision_of(kind, believed, deferring(ONCE, check))), Allowed)
    assert check.passed


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_service_refuses_what_it_finds_in_such_a_check(kind: Kind) -> None:
    check = Deferred()
    with pytest.raises(CallError, match="InvalidArgument"):
        asyncio.run(decision_of(kind, KEYED, deferring(TWICE, check)))
    assert not check.passed


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nothing_unchecked_goes_to_services_of_others(kind: Kind) -> None:
    with pytest.raises(ReviewError, match="was checked here"):
        asyncio.run(decision_of(kind, KEYED, deferring(ONCE, Deferred()), ours=False))


@pytest.mark.parametrize("rules", ["", "pratique JSON 0: 198 levels, 600000 values"])
def test_a_front_door_checks_what_a_service_checked_by_other_rules(rules: str) -> None:
    check = Deferred()
    record_checks(ValidateResponse(checked_rules=rules), deferring(ONCE, check))
    assert not check.passed


def test_a_service_that_is_asked_for_other_rules_does_not_claim_them() -> None:
    request = validate_request(deferring(ONCE, Deferred()), [Call("c")], DIGESTS.whole)
    incoming = IncomingRequest(request, request.ByteSize())
    read = read_request(incoming, ANY_NAMESPACE, LargeTextReader())
    assert asyncio.run(read)[2] == OBJECT_RULES
    request.review.checks.wanted_rules = "pratique JSON 0: 198 levels, 600000 values"
    read = read_request(incoming, ANY_NAMESPACE, LargeTextReader())
    assert asyncio.run(read)[2] == ""
