"""A controller in a process of its own decides by what its call names, though it reads the files itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed, Denied, Failed, Outcome
from pratique.admission.reviews import Call, Deadline
from pratique.configuration.settings import ChainSettings, Isolation
from pratique.hosting.running import ValidatorHost
from pratique.hosting.services import host_chain
from support.controller_packages import lay_out
from support.services.reviews import review_of

PACKAGE = """
from pratique import Controller, Handlers, allow, deny
from pratique.admission.controllers import VALIDATE


def validate(review):
    namespace = review.cluster.get("", "namespaces", "closed")
    return allow() if namespace is None else deny("closed")


CONTROLLER = Controller(
    name="ShopIsOpen", summary="Looks.", phases=VALIDATE, build=lambda _: Handlers(validate=validate)
)
"""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n"


@pytest.fixture(autouse=True)
def _package(tmp_path: Path) -> Iterator[None]:
    place = lay_out(tmp_path / "acme", "acme_shop", PACKAGE, open="CONTROLLER")
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path.remove(str(place))


@pytest.mark.parametrize("isolation", Isolation)
def test_a_review_is_decided_by_the_cluster_that_its_call_names(tmp_path: Path, isolation: Isolation) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NAMESPACE.format("shop"))
    chain = ChainSettings(admission_control=("ShopIsOpen",), cluster=(file,))

    async def run() -> list[type]:
        async with host_chain(chain, Phase.VALIDATE, ValidatorHost, isolation) as hosted:

            async def ask(digest: str) -> Outcome:
                host = hosted.held.get(digest)
                assert host is not None
                review = msgspec.structs.replace(review_of(), cluster=host.cluster, digest=digest)
                [outcome] = await host.validate(review, [Call("ShopIsOpen", 10.0)], Deadline.after(30))
                return outcome

            before = hosted.held.digests.whole
            found = [await ask(before)]
            fresh = tmp_path / "cluster.new"
            fresh.write_text(f"{NAMESPACE.format('shop')}---\n{NAMESPACE.format('closed')}")
            fresh.rename(file)
            async with asyncio.timeout(120):
                while hosted.held.digests.whole == before:  # noqa: ASYNC110 - files are no events
                    await asyncio.sleep(0.01)
            for _ in range(5):
                found += [await ask(hosted.held.digests.whole), await ask(before)]
            return [type(outcome.decision) for outcome in found]

    assert asyncio.run(run()) == [Allowed, *([Denied, Allowed] * 5)]


def test_a_worker_does_not_decide_by_inputs_that_it_does_not_hold(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NAMESPACE.format("shop"))
    chain = ChainSettings(admission_control=("ShopIsOpen",), cluster=(file,))

    async def run() -> Outcome:
        async with host_chain(chain, Phase.VALIDATE, ValidatorHost, Isolation.PROCESS) as hosted:
            review = msgspec.structs.replace(review_of(), digest="0" * 32)
            calls = [Call("ShopIsOpen", 0.5)]
            [outcome] = await hosted.held.current.validate(review, calls, Deadline.after(30))
            return outcome

    assert isinstance(asyncio.run(run()).decision, Failed)
