"""Time limits of controllers: who sets them, that they are kept, and how steps show them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pratique import allow, mutator, validator
from pratique.admission.controllers import BOTH, Controller, Phase
from pratique.admission.results import Answer, OutcomeStatus
from pratique.admission.reviews import Deadline, Review
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import configure_controller
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import ChainSources
from pratique_frontdoor.engines.local import InProcessTransport
from support.chains import pod_review


async def hang(_: Review) -> Answer:
    """Wait for longer than any limit."""
    await asyncio.sleep(60)
    return allow()


def slow_validator(seconds: float | None = None) -> Controller:
    return validator("Slow", timeout_seconds=seconds)(hang)


def slow_mutator(seconds: float | None = None) -> Controller:
    return mutator("Slow", timeout_seconds=seconds)(hang)


def decided(controller: Controller, seconds: float = 30, **limits: object) -> Decision:
    review = pod_review()
    hosted = [configure_controller(controller, None)]
    transport = InProcessTransport(MutatorHost(hosted, review.cluster), ValidatorHost(hosted, review.cluster))
    parts = ChainParts(
        controllers=[controller],
        configurations=Configurations(),
        mutator=transport,
        validator=transport,
        reach=lambda *_: transport,
    )
    chain = assemble(msgspec.structs.replace(parts, **limits))
    return asyncio.run(chain.decide(review, BOTH, Deadline.after(seconds), explain=True))


@pytest.mark.parametrize(
    "controller", [slow_validator(0.05), slow_mutator(0.05)], ids=["validator", "mutator"]
)
def test_a_controller_that_exceeds_its_own_limit_has_failed(controller: Controller) -> None:
    decision = decided(controller)
    [step] = decision.steps
    assert step.outcome is OutcomeStatus.FAILED
    assert step.timeout_seconds == 0.05
    assert decision.status is not None
    assert decision.status.code == 500
    assert 'admission controller "Slow" failed: context deadline exceeded' in decision.status.message


def test_the_operators_limit_comes_before_the_definitions() -> None:
    [step] = decided(slow_validator(20), timeouts={"Slow": 0.05}).steps
    assert (step.outcome, step.timeout_seconds) == (OutcomeStatus.FAILED, 0.05)


def test_steps_show_the_shortest_limit_that_holds() -> None:
    limits = {Phase.VALIDATE: 0.04, Phase.MUTATE: None}
    quick = validator("Quick", timeout_seconds=2)(lambda _: allow())
    [step] = to_document(decided(quick, call_timeouts=limits))["steps"]
    assert step["timeoutMs"] == 40
    [step] = to_document(decided(quick))["steps"]
    assert step["timeoutMs"] == 2000


def test_a_controller_without_a_limit_has_the_reviews() -> None:
    quick = validator("Quick")(lambda _: allow())
    [step] = to_document(decided(quick))["steps"]
    assert "timeoutMs" not in step


@pytest.mark.parametrize("seconds", [0, -1, 30.5, float("nan")])
def test_a_definition_with_an_impossible_limit_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout_seconds must be more than 0 and at most 30"):
        validator("Slow", timeout_seconds=seconds)


def test_an_offline_run_keeps_the_limits_of_its_file(tmp_path: Path) -> None:

    file = tmp_path / "admission.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
        "plugins: [{name: LimitRanger, timeoutSeconds: 1.5}]\n"
    )
    assert ChainSources.read(ChainSettings(admission_control_config_file=file)).timeouts == {
        "LimitRanger": 1.5
    }
