"""The services as they are run: ``serve``, with the chain and the cluster that flags name."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import grpc
import pytest

from pratique.admission.results import Allowed, Denied
from pratique.admission.reviews import Call
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from support.services.processes import Process, running
from support.services.reviews import review_of
from support.services.servers import KINDS, Kind

both_services = pytest.mark.parametrize("kind", KINDS, ids=str)

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
OTHER_NAMESPACE = NAMESPACE.replace("shop", "other")
CHAIN = ("DefaultTolerationSeconds", "LimitPodHardAntiAffinityTopology", "AlwaysPullImages")
LIFECYCLE = [Call("NamespaceLifecycle", 5)]


def service(kind: Kind, *flags: str) -> AbstractAsyncContextManager[Process]:
    return running(kind.name, "-m", "pratique_cli", "serve", kind.name, "--port", "0", *flags)


async def hosted_by(process: Process) -> list[str]:
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
        answer = await stub.Describe(catalogue_service_pb2.DescribeRequest(), timeout=60)
        return [controller.name for controller in answer.controllers]


@both_services
def test_a_service_hosts_the_chain_that_its_flags_name(kind: Kind) -> None:
    async def run() -> list[str]:
        async with service(kind, "--admission-control", ",".join(CHAIN)) as process:
            return await hosted_by(process)

    assert (
        asyncio.run(run())
        == {
            "mutator": ["DefaultTolerationSeconds", "AlwaysPullImages"],
            "validator": ["LimitPodHardAntiAffinityTopology", "AlwaysPullImages"],
        }[kind.name]
    )


async def decided(process: Process, kind: Kind) -> type:
    async with grpc.aio.insecure_channel(process.address) as channel:
        [outcome] = await kind.ask(channel, review_of(), LIFECYCLE)
        return type(outcome.decision)


async def until_allowed(process: Process, kind: Kind) -> None:
    while await decided(process, kind) is not Allowed:  # noqa: ASYNC110 - nothing tells of the reload
        await asyncio.sleep(0.05)


async def until_logged(process: Process, text: str) -> None:
    while text not in await process.log():
        pass  # each look waits for a line


def test_a_changed_cluster_is_seen_and_a_broken_one_is_not(tmp_path: Path) -> None:
    kind = KINDS[0]
    file = tmp_path / "namespaces.yaml"
    file.write_text(OTHER_NAMESPACE)

    async def run() -> None:
        async with service(kind, "--cluster", str(file)) as process:
            assert await decided(process, kind) is Denied
            file.write_text(f"{OTHER_NAMESPACE}---\n{NAMESPACE}")
            await asyncio.wait_for(until_allowed(process, kind), 120)
            await until_logged(process, "cluster reloaded")
            file.write_text("kind: [")
            await until_logged(process, "cluster kept, the new one cannot be used")
            assert await decided(process, kind) is Allowed

    asyncio.run(run())
