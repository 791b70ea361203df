"""No mutator adds a privilege to a Pod, or a field that makes a validator deny it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzing import clusters
from pratique.admission.controllers import MUTATE, VALIDATE, Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.engines.engine import Engine, open_local
from support.admissions import review_of
from support.pod_security_cases import pod_request
from support.strategies.privileges import pods, privileges

REFUSES_ALL = {"AlwaysDeny"}
NEEDS_SETTINGS = {"EventRateLimit", "ImagePolicyWebhook"}
HOSTED = [item for item in load_catalogue() if item.hosted and item.name not in REFUSES_ALL | NEEDS_SETTINGS]
MUTATORS = [item.name for item in HOSTED if Phase.MUTATE in item.phases]
VALIDATORS = [item.name for item in HOSTED if Phase.VALIDATE in item.phases]
SECONDS = 60
USER = {"username": "ann", "groups": ["system:authenticated"]}


@dataclasses.dataclass(frozen=True)
class Chains:
    """The default chain; each mutator alone, and all of the others; and all validators."""

    loop: asyncio.Runner
    default: Engine
    alone: dict[str, Engine]
    others: dict[str, Engine]
    validators: Engine

    async def mutated(self, engine: Engine, review: Review) -> JSONObject | None:
        """The Pod after a chain; None if it is denied."""
        decision = await engine.decide(review, MUTATE, Deadline.after(SECONDS))
        found: JSONObject = decision.object_document.data
        return found if decision.allowed else None

    async def refusing(self, review: Review) -> set[str]:
        """The validators that refuse a Pod, or fail."""
        decision = await self.validators.decide(review, VALIDATE, Deadline.after(SECONDS))
        refusals = {OutcomeStatus.DENIED, OutcomeStatus.FAILED}
        return {step.controller for step in decision.steps if step.outcome in refusals}

    async def check(self, pod: JSONObject, name: str) -> None:
        """Run one mutator, on the original Pod and on the result of all others."""
        review = review_of(pod_request(pod, "test", userInfo=USER), self.default.cluster)
        has = privileges(pod)
        for engine in (self.default, self.alone[name]):
            after = await self.mutated(engine, review)
            assert after is None or privileges(after) <= has
        before = await self.mutated(self.others[name], review)
        if before is None:
            return
        review = review.with_object(Document.from_data(before))
        after = await self.mutated(self.alone[name], review)
        if after is None or after == before:
            return
        assert privileges(after) <= privileges(before) <= has
        refused = await self.refusing(review.with_object(Document.from_data(after)))
        refused_before = await self.refusing(review)
        # Quotas are charged last, and nobody had asked them of a Pod that others refused.
        unasked = {"ResourceQuota"} if refused_before else set()
        assert refused - unasked <= refused_before

    def close(self) -> None:
        for engine in (self.default, self.validators, *self.alone.values(), *self.others.values()):
            self.loop.run(engine.close())


@contextlib.contextmanager
def opened() -> Iterator[Chains]:
    store = clusters.store()

    async def engine(*names: str) -> Engine:
        return open_local(ChainSettings(admission_control=names or None), store)

    with asyncio.Runner() as loop:
        alone = {name: loop.run(engine(name)) for name in MUTATORS}
        others = {
            name: loop.run(engine(*(mutator for mutator in MUTATORS if mutator != name))) for name in MUTATORS
        }
        chains = Chains(loop, loop.run(engine()), alone, others, loop.run(engine(*VALIDATORS)))
        try:
            yield chains
        finally:
            chains.close()


@pytest.fixture(scope="module")
def chains() -> Iterator[Chains]:
    with opened() as found:
        yield found


def test_the_chain_has_many_mutators_and_validators() -> None:
    assert len(MUTATORS) >= 15
    assert len(VALIDATORS) >= 15


@given(pod=pods(), name=st.sampled_from(MUTATORS))
def test_no_mutator_adds_a_privilege_or_a_denied_field(chains: Chains, pod: JSONObject, name: str) -> None:
    chains.loop.run(chains.check(pod, name))


@pytest.mark.long
@settings(max_examples=10_000)
@given(pod=pods(), name=st.sampled_from(MUTATORS))
def test_no_mutator_adds_a_privilege_in_ten_thousand_pods(chains: Chains, pod: JSONObject, name: str) -> None:
    chains.loop.run(chains.check(pod, name))
