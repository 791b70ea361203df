"""Fan-out: the validating work of a review is divided among replicas, with the same decision as undivided."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import VALIDATE, Controller, Handlers, Phase
from pratique.admission.results import ALLOWED, Answer, Outcome, allow, deny, warn
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import UnreachableError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import configure_controller, load_catalogue
from pratique.hosting.running import ValidatorHost
from pratique.rpc import messages
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision, OutageError
from pratique_frontdoor.chain.fan_out import (
    DivisiblePolicies,
    DivisionTrial,
    FanOut,
    PolicyDurations,
    Share,
    WorkUnits,
)
from pratique_frontdoor.engines.local import InProcessTransport
from support.strategies.policies import PARAMS, policy_sets
from support.validating_policies import binding, deployment, deployment_review, loaded, policy

POLICIES = "ValidatingAdmissionPolicy"


class Replicas:
    """Validators of one configuration, reached with the messages of the contract."""

    endpoint = "grpc://validators"

    def __init__(self, host: ValidatorHost, count: int = 9, *, silent: frozenset[int] = frozenset()) -> None:
        self.host, self.count, self.silent = host, count, silent
        self.busy = 0
        self.shares: list[list[str]] = []

    def usable_replicas(self, digest: str, *, idle: bool = False) -> int:
        del digest
        return self.count - self.busy if idle else self.count

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        raise NotImplementedError

    async def validate(
        self,
        review: Review,
        calls: Sequence[Call],
        deadline: Deadline,
        *,
        sent_to: set[str] | None = None,
        expected_seconds: float = 0.0,
    ) -> Sequence[Outcome]:
        assert sent_to is None or expected_seconds > 0
        share = len(self.shares)
        self.shares.append([call.name for call in calls])
        if share in self.silent:
            raise UnreachableError("gone")
        sent = messages.validate_request(review, calls)
        there, called = messages.review_and_calls(sent, self.host.cluster)
        outcomes = await self.host.validate(there, called, deadline)
        answer = messages.validate_response(outcomes, review.uid)
        return messages.outcomes_from_validate(answer, calls, f"grpc://{share}")

    async def close(self) -> None:
        """Nothing is open."""


def controller(name: str, answer: Answer) -> Controller:
    return Controller(
        name=name, summary=name, phases=VALIDATE, build=lambda _: Handlers(validate=lambda _: answer)
    )


ANSWERS = [allow(), warn("w"), deny("no"), allow(audit_annotations={"k": "v"})]
POLICY_CONTROLLER = next(found for found in load_catalogue() if found.name == POLICIES)


def parts_of(
    controllers: Sequence[Controller], configurations: Configurations, review: Review, **replicas: object
) -> ChainParts:
    hosted = [configure_controller(found, None) for found in controllers]
    for found in hosted:
        found.handlers.use_configurations(configurations)
    host = ValidatorHost(hosted, review.cluster)
    transport = Replicas(host, **replicas)  # type: ignore[arg-type]  # as the tests give them
    return ChainParts(
        controllers=controllers,
        configurations=configurations,
        mutator=InProcessTransport(host, host),  # type: ignore[arg-type]  # it is not asked
        validator=transport,
        replicas=transport,
        reach=lambda *_: transport,
    )


def decided(parts: ChainParts, review: Review, *, explain: bool = False) -> Decision:
    chain = assemble(parts)
    return asyncio.run(chain.decide(review, frozenset({Phase.VALIDATE}), Deadline.after(30), explain=explain))


def contents(decision: Decision) -> tuple[object, ...]:
    """All of a decision but where and when things happened."""
    steps = [
        msgspec.structs.replace(step, duration_seconds=0.0, endpoint="", ended_at=0)
        for step in decision.steps
    ]
    return (
        decision.allowed,
        decision.status,
        decision.warnings,
        dict(decision.audit_annotations),
        [msgspec.structs.astuple(step) for step in steps],
    )


@given(st.data(), policy_sets(), st.lists(st.sampled_from(ANSWERS), max_size=3), st.booleans(), st.booleans())
def test_any_division_gives_the_undivided_decision(
    data: st.DataObject,
    documents: list[JSONObject],
    answers: list[Answer],
    known_namespace: bool,  # noqa: FBT001 - drawn
    explain: bool,  # noqa: FBT001 - drawn
) -> None:
    cluster = ObjectStore(PARAMS, assume_namespaces=known_namespace)
    review = deployment_review(deployment(3, labels={"tier": "web"}), cluster=cluster)
    others = [controller(f"C{number}", answer) for number, answer in enumerate(answers)]
    place = data.draw(st.integers(0, len(others)))
    controllers = [*others[:place], POLICY_CONTROLLER, *others[place:]]
    parts = parts_of(controllers, loaded(*documents), review)
    whole = decided(msgspec.structs.replace(parts, fan_out=1), review, explain=explain)

    class AnyDivision(FanOut):
        def divide(self, review: Review, calls: Sequence[Call]) -> Sequence[Share]:
            units = WorkUnits(review, calls, self)
            return units.shares(data.draw(st.sets(st.integers(0, len(units)), max_size=5)))

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr("pratique_frontdoor.chain.assembly.FanOut", AnyDivision)
        divided = decided(parts, review, explain=explain)
    assert contents(divided) == contents(whole)


def policies(count: int) -> list[JSONObject]:
    return [
        document
        for number in range(count)
        for document in (
            policy("true", name=f"p{number:03}"),
            binding(f"p{number:03}", name=f"b{number:03}"),
        )
    ]


def replicas_of(parts: ChainParts) -> Replicas:
    assert isinstance(parts.replicas, Replicas)
    return parts.replicas


def test_steps_name_the_replica_of_each_policy() -> None:
    review = deployment_review()
    parts = parts_of([POLICY_CONTROLLER], loaded(*policies(30)), review, count=3)
    steps = decided(msgspec.structs.replace(parts, fan_out=3), review, explain=True).steps
    endpoints = [step.endpoint for step in steps]
    assert endpoints == ["grpc://0"] * 10 + ["grpc://1"] * 10 + ["grpc://2"] * 10
    assert [step.name for step in steps] == [f"p{number:03}" for number in range(30)]


def test_unknown_policies_are_divided_among_idle_replicas() -> None:
    review = deployment_review()
    parts = parts_of([POLICY_CONTROLLER], loaded(*policies(30)), review, count=3)
    decided(parts, review)
    assert len(replicas_of(parts).shares) == 3


@pytest.mark.parametrize("changes", [{"fan_out": 1}, {"replicas": None}])
def test_nothing_is_divided_without_fan_out(changes: dict[str, object]) -> None:
    review = deployment_review()
    parts = parts_of([POLICY_CONTROLLER], loaded(*policies(30)), review, count=3)
    transport = replicas_of(parts)
    decided(msgspec.structs.replace(parts, **changes), review)
    assert len(transport.shares) == 1


def test_busy_replicas_get_no_share() -> None:
    review = deployment_review()
    parts = parts_of([POLICY_CONTROLLER], loaded(*policies(30)), review, count=3)
    replicas_of(parts).busy = 2
    decided(parts, review)
    assert len(replicas_of(parts).shares) == 1


def test_cheap_work_is_not_divided_once_its_cost_is_known() -> None:
    fan_out, review, calls = fan_out_of(30)
    assert len(fan_out.divide(review, calls)) == 3
    learn(fan_out, review, calls, 0.0002)
    assert len(fan_out.divide(review, calls)) == 1


def test_dividing_is_given_up_if_it_makes_reviews_no_shorter() -> None:
    fan_out, review, calls = fan_out_of(30)
    learn(fan_out, review, calls, 0.05)
    assert len(fan_out.divide(review, calls)) == 3
    for divided, seconds in ((True, 0.02), (False, 0.021)):
        fan_out.trial(review).observe(seconds, divided=divided)
    assert {len(fan_out.divide(review, calls)) for _ in range(60)} == {1}


def test_dividing_goes_on_if_it_makes_reviews_shorter() -> None:
    fan_out, review, calls = fan_out_of(30)
    learn(fan_out, review, calls, 0.05)
    for divided, seconds in ((True, 0.02), (False, 0.05)):
        fan_out.trial(review).observe(seconds, divided=divided)
    assert {len(fan_out.divide(review, calls)) for _ in range(60)} == {3}


def test_the_slower_way_is_tried_again_now_and_then() -> None:
    for divided, undivided in ((0.02, 0.05), (0.05, 0.02)):
        trial = DivisionTrial()
        trial.observe(divided, divided=True)
        trial.observe(undivided, divided=False)
        ways = [trial.divides() for _ in range(128)]
        assert ways.count(divided > undivided) == 2


def test_both_ways_are_tried_before_one_is_chosen() -> None:
    trial = DivisionTrial()
    assert trial.divides()
    trial.observe(0.02, divided=True)
    assert not trial.divides()


def test_reviews_of_other_kinds_and_sizes_are_compared_separately() -> None:
    fan_out, review, _ = fan_out_of(1)
    large = deployment_review(deployment(3, labels={"a": "x" * 500_000}))
    assert fan_out.trial(review) is fan_out.trial(deployment_review())
    assert fan_out.trial(review) is not fan_out.trial(large)
    assert fan_out.trial(review) is not fan_out.trial(msgspec.structs.replace(review, subresource="scale"))


def test_costs_of_long_ago_are_forgotten() -> None:
    fan_out, review, calls = fan_out_of(30)
    learn(fan_out, review, calls, 0.0002)
    for _ in range(40):
        learn(fan_out, review, calls, 0.1)
    assert len(fan_out.divide(review, calls)) == 3


def test_a_large_object_makes_shares_dearer() -> None:
    fan_out, review, calls = fan_out_of(30)
    large = deployment_review(deployment(3, labels={"a": "x" * 500_000}))
    assert len(fan_out.divide(review, calls)) == 3
    assert len(fan_out.divide(large, calls)) == 1


def fan_out_of(count: int) -> tuple[FanOut, Review, list[Call]]:
    found = loaded(*policies(count))
    divisible = DivisiblePolicies(found.validating_policies, found.validating_bindings)
    review = deployment_review()
    transport = Replicas(ValidatorHost([], review.cluster), 3)
    return FanOut(transport, divisible), review, [Call("LimitRanger"), Call(POLICIES)]


def learn(fan_out: FanOut, review: Review, calls: Sequence[Call], seconds: float) -> None:
    durations = [0.00001, seconds]
    outcomes = [
        Outcome(controller=call.name, decision=ALLOWED, duration_seconds=duration, span=call.span)
        for call, duration in zip(calls, durations, strict=True)
    ]
    fan_out.observe(review, outcomes, calls)


def test_a_heavy_policy_ends_up_alone() -> None:
    durations = {number: 0.05 if number == 20 else 0.0001 for number in range(30)}
    fan_out, review, calls = fan_out_of(30)
    for _ in range(60):
        for share in fan_out.divide(review, calls):
            for call in share.calls:
                first, end = call.span or (0, 30)
                taken = sum(durations[number] for number in range(first, end)) if call.name == POLICIES else 0
                outcome = Outcome(
                    controller=call.name, decision=ALLOWED, duration_seconds=taken, span=call.span
                )
                fan_out.observe(review, [outcome], [call])
    heavy = [
        call.span
        for share in fan_out.divide(review, calls)
        for call in share.calls
        if call.span is not None and call.span[0] <= 20 < call.span[1]
    ]
    assert heavy
    assert all(end - first <= 3 for first, end in heavy)


def test_durations_follow_the_policies_that_match() -> None:
    durations = PolicyDurations([2, 5, 9])
    durations.observe((0, 5), 0.01)
    assert durations.seconds[0] == pytest.approx(0.01)
    assert durations.total == pytest.approx(sum(durations.seconds))


def test_a_share_without_an_answer_is_an_outage() -> None:
    review = deployment_review()
    parts = parts_of([POLICY_CONTROLLER], loaded(*policies(30)), review, count=3, silent=frozenset({1}))
    with pytest.raises(OutageError, match="gone"):
        decided(msgspec.structs.replace(parts, fan_out=3), review)


def test_a_denial_in_one_share_stands_although_another_got_no_answer() -> None:
    review = deployment_review()
    documents = [*policies(29), policy("false", name="p999"), binding("p999", name="b999")]
    parts = parts_of([POLICY_CONTROLLER], loaded(*documents), review, count=3, silent=frozenset({1}))
    decision = decided(msgspec.structs.replace(parts, fan_out=3), review)
    assert not decision.allowed
    assert decision.status is not None
    assert "p999" in decision.status.message
