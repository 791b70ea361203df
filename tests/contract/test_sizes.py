"""Legal reviews pass, whatever gRPC's own limits; more than the contract allows does not."""

from __future__ import annotations

import asyncio

import grpc
import msgspec
import pytest

from pratique.admission.results import Allow, Allowed, Patched, allow
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.json_values import Document
from pratique.rpc.servers import ServerSettings
from support.services import controllers
from support.services.controllers import hosted, labelling
from support.services.reviews import POD, review_of
from support.services.servers import KINDS, MUTATOR, Kind, serving

MIB = 1024 * 1024


def object_of(size: int) -> Document:
    """A Pod of ``size`` bytes."""
    empty = len(Document.from_data(POD | {"padding": ""}).raw)
    return Document.from_data(POD | {"padding": "x" * (size - empty)})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_review_of_7_mib_passes(kind: Kind) -> None:
    async def run() -> type:
        async with serving(kind, hosted("c", controllers.allowing)) as channel:
            review = msgspec.structs.replace(
                review_of(),
                object_document=object_of(3 * MIB),
                old_object_document=object_of(3 * MIB),
                options_document=object_of(MIB),
            )
            [outcome] = await kind.ask(channel, review, [Call("c")])
            return type(outcome.decision)

    assert asyncio.run(run()) is Allowed


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("over", "code"), [(0, None), (1, grpc.StatusCode.RESOURCE_EXHAUSTED)], ids=["16 MiB", "a byte more"]
)
def test_the_limit_is_16_mib(kind: Kind, over: int, code: grpc.StatusCode | None) -> None:
    def request_of(padding: int) -> bytes:
        # Small first, so that the field's length is known; then exactly as long as is wanted.
        review = review_of().with_object(object_of(padding))
        raw: bytes = kind.request(review, [Call("c")]).SerializeToString()
        return raw

    limit = ServerSettings().max_message_bytes
    around = len(request_of(15 * MIB)) - 15 * MIB
    raw = request_of(limit - around + over)
    assert len(raw) == 16 * MIB + over

    async def run() -> grpc.StatusCode | None:
        async with serving(kind, hosted("c", controllers.allowing)) as channel:
            try:
                await kind.send(channel, raw)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return None

    assert asyncio.run(run()) is code


def test_an_answer_may_be_as_long_as_a_review() -> None:
    big = "x" * (7 * MIB)

    async def run() -> int:
        async with serving(MUTATOR, hosted("c", labelling(big))) as channel:
            [outcome] = await MUTATOR.ask(channel, review_of(), [Call("c")])
            assert isinstance(outcome.decision, Patched)
            return len(str(outcome.decision.operations))

    assert asyncio.run(run()) > len(big)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_compression_bomb_is_rejected(kind: Kind) -> None:
    reviews: list[Review] = []

    def noting(review: Review) -> Allow:
        reviews.append(review)
        return allow()

    async def run() -> grpc.StatusCode | None:
        async with serving(kind, hosted("c", noting)) as channel:
            call = channel.unary_unary(kind.method, None, None)
            try:
                await call(bytes(64 * MIB), timeout=30, compression=grpc.Compression.Gzip)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return None

    assert asyncio.run(run()) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reviews == []
