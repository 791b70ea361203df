"""What a front door proves to have checked, over a real connection."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import grpc
import pytest

from pratique.admission.results import Allowed
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, Document
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.check_digests import CheckDigests
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import DIGESTS, KINDS, Kind

KEYED = CheckDigests(b"k" * 32)
TWICE = b'{"a":1,"a":2,"x":"' + b"x" * MIN_PROVED_BYTES + b'"}'
"""What no service accepts that checks it."""


def review(checks: CheckDigests | None) -> Review:
    large = Document.from_raw(TWICE).checked_by(checks)
    return dataclasses.replace(review_of(), object_document=large, digest=DIGESTS.whole)


async def answer(kind: Kind, believed: CheckDigests | None, checks: CheckDigests | None) -> Any:
    held = RecentInputs(DIGESTS, kind.host([hosted("c", controllers.allowing)], ANY_NAMESPACE))
    offered: Any = kind.offered
    server = RpcServer(offered(held, None, believed), ServerSettings(drain_seconds=0))
    transport = GrpcTransport(await server.start(), ours=True)
    call = transport.mutate if kind.name == "mutator" else transport.validate
    try:
        [outcome] = await call(review(checks), [Call("c")], Deadline.after(10))
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
