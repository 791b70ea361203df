"""Inputs: by what a service decides, as it tells its callers, and as they demand it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc, digest_pb2
from pratique.configuration.inputs import InputDigests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.configuration.inputs import RecentInputs
    from pratique.rpc.handlers import Context

HostT = TypeVar("T")

NOT_HELD = grpc.StatusCode.FAILED_PRECONDITION
"""How a call ends that is to be decided by what the service does not hold; nothing has been done then."""
_MAX_HELD_INPUTS = 16
"""Sets of inputs that a service is believed to hold. Services of this suite hold 4 at most."""
_MAX_DIGEST_CHARACTERS = 128
"""Of a digest. Those of this suite have 32."""
_NOT_HELD_DETAILS = (
    "this service does not decide by the inputs that the call names: give every service the same --config, --cluster, "
    "chain flags and --admission-control-config-file"
)


def inputs_to_messages(held: RecentInputs[Any]) -> list[digest_pb2.Inputs]:
    """Write what a service holds, what it decides by now first."""
    return [
        digest_pb2.Inputs(
            digest=digests.whole,
            chain=digests.chain,
            configuration=digests.configuration,
            cluster=digests.cluster,
        )
        for digests, _ in held
    ]


def inputs_from_messages(held: Iterable[digest_pb2.Inputs]) -> tuple[InputDigests, ...]:
    """Read what a service says that it holds, and no more of it than one would hold."""
    read = (
        InputDigests(one.digest, one.chain, one.configuration, one.cluster)
        for one in itertools.islice(held, _MAX_HELD_INPUTS)
    )
    return tuple(one for one in read if all(len(each) <= _MAX_DIGEST_CHARACTERS for each in one))


async def fetch_inputs(channel: grpc.aio.Channel, seconds: float) -> tuple[InputDigests, ...]:
    """Ask a service what it holds; nothing where it does not say.

    Raises:
        AioRpcError: it does not answer, or has no catalogue.
    """
    catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
    described = await catalogue.Describe(catalogue_service_pb2.DescribeRequest(), timeout=seconds)
    return inputs_from_messages(described.held)


async def held_or_abort(held: RecentInputs[HostT], digest: str, context: Context) -> tuple[str, HostT]:
    """What was made of the inputs of a digest, and the digest; of the present ones where the caller leaves it open.

    Raises:
        AbortError: they are not held; the call has ended.
    """
    found = held.find(digest)
    if found is None:
        held.mismatches += 1
        await context.abort(NOT_HELD, _NOT_HELD_DETAILS)
    digests, made = found
    return digests.whole, made
