"""Fan-out: divide the validating work of one review into shares, one for each replica, and merge their outcomes.

The work is a sequence in chain order: each controller is one unit, and each policy with a binding is one. A share is a
run of consecutive units, so that outcomes put together in the order of shares are those of the undivided work. How long
each unit takes is learned from the outcomes, and whether dividing makes such reviews shorter from how long they took
either way, both as averages that forget.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pratique.admission.matching import RequestKey
from pratique.admission.results import Denied, Failed, Outcome, OutcomeDecision, PolicyOutcome
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.errors import BadAnswerError
from pratique.cluster.api_resources import ApiResources
from pratique.policies.audit_annotations import join_annotations
from pratique.policies.matching import ResourceMatcher
from pratique.policies.policy_spans import ConfiguredBinding, ConfiguredPolicy, divide_policies
from pratique_frontdoor.transports import ReplicatedTransport

_UNKNOWN_CONTROLLER_SECONDS = 20e-6
"""How long a controller is assumed to take until it is known: most look at a few fields."""
_UNKNOWN_POLICY_SECONDS = 100e-6
"""How long a policy is assumed to take until it is known: longer than a simple one, so that new work is divided rather
than not."""
_LEAST_SECONDS = 1e-6
"""The least that a unit is ever taken to need, so that it can grow again."""
_NEWEST_WEIGHT = 1 / 8
"""The weight of the newest duration in an average."""
_SHARE_SECONDS = 500e-6
"""The least work that is worth a share of its own: what another hop costs both processes."""
_SHARE_SECONDS_PER_BYTE = 5e-9
"""The same for each byte of the object, which every share has to send and parse: 200 MB/s."""
_DIVISIBLE = "ValidatingAdmissionPolicy"
"""The controller whose policies can be evaluated by several replicas."""
_WORTHWHILE = 0.9
"""Dividing costs CPU time, so that a review must become this much shorter."""
_COMPARED_AGAIN = 64
"""After so many reviews of a kind, one is made the way that was slower, because that may have changed."""
_CACHED_REQUESTS = 256
"""Cached kinds of requests: the four operations on 64 resources and subresources."""


class Share(msgspec.Struct, frozen=True):
    """The part of a review's validating work that goes to one replica."""

    calls: Sequence[Call]
    """The controllers, in chain order."""
    expected_seconds: float
    """How long they usually take together."""


class DivisionTrial:
    """How long reviews of one kind take, divided and undivided, as averages."""

    __slots__ = ("_reviews", "_seconds")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._seconds: dict[bool, float] = {}
        self._reviews = 0

    def divides(self) -> bool:
        """Tell whether to divide the next review."""
        divided, undivided = self._seconds.get(True), self._seconds.get(False)
        if divided is None or undivided is None:
            return divided is None
        self._reviews += 1
        is_shorter = divided < undivided * _WORTHWHILE
        return is_shorter is not (self._reviews % _COMPARED_AGAIN == 0)

    def observe(self, seconds: float, *, divided: bool) -> None:
        """Observe how long a review took."""
        usual = self._seconds.get(divided, seconds)
        self._seconds[divided] = usual + (seconds - usual) * _NEWEST_WEIGHT


class PolicyDurations:
    """How long the policies take that can match one kind of request, by their numbers."""

    __slots__ = ("_unknown", "numbers", "seconds", "total")

    def __init__(self, numbers: Sequence[int]) -> None:
        """Know nothing yet of the policies with these ``numbers``, which increase."""
        self.numbers = numbers
        self.seconds = [_UNKNOWN_POLICY_SECONDS] * len(numbers)
        self.total = sum(self.seconds)
        """The sum of all."""
        self._unknown = bytearray(b"\x01" * len(numbers))

    def observe(self, span: tuple[int, int] | None, seconds: float) -> None:
        """Observe how long the policies of a span took together; each is taken to have had its usual part of that."""
        first, end = (0, len(self.numbers)) if span is None else self.indexes(span)
        before = self.seconds[first:end]
        expected = sum(before)
        if not expected:
            return
        weight = 1.0 if any(self._unknown[first:end]) else _NEWEST_WEIGHT
        self._unknown[first:end] = bytes(end - first)
        factor = 1 + weight * (seconds / expected - 1)
        self.seconds[first:end] = [max(_LEAST_SECONDS, usual * factor) for usual in before]
        self.total += sum(self.seconds[first:end]) - expected

    def indexes(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return where the policies of a span begin and end in this list."""
        return bisect.bisect_left(self.numbers, span[0]), bisect.bisect_left(self.numbers, span[1])


class DivisiblePolicies:
    """The validating policies of a chain, numbered as in the validators."""

    def __init__(self, policies: Iterable[ConfiguredPolicy], bindings: Iterable[ConfiguredBinding]) -> None:
        """Number the bound ``policies``."""
        self._matchers: list[tuple[ResourceMatcher | None, range]] = []
        self.count = 0
        """How many numbers there are."""
        for policy, parts in divide_policies(policies, bindings):
            constraints = policy.spec.match_constraints
            matcher = None if constraints is None else ResourceMatcher.compile(constraints)
            self._matchers.append((matcher, range(self.count, self.count + len(parts))))
            self.count += len(parts)
        self._durations = functools.lru_cache(_CACHED_REQUESTS)(self._find)

    def durations(self, review: Review) -> PolicyDurations:
        """Return the durations of the policies that can match such a request."""
        return self._durations(RequestKey.of(review), review.cluster.resources)

    def _find(self, request_key: RequestKey, resources: ApiResources) -> PolicyDurations:
        return PolicyDurations(
            [
                number
                for matcher, numbers in self._matchers
                if matcher is None or matcher.may_match(request_key, resources)
                for number in numbers
            ]
        )


class FanOut:
    """Divides the validating work of reviews among the replicas of a service."""

    def __init__(
        self, transport: ReplicatedTransport, policies: DivisiblePolicies, shares: int | None = None
    ) -> None:
        """Know nothing yet of durations.

        Args:
            transport: Calls the replicas.
            policies: The policies of ValidatingAdmissionPolicy.
            shares: The most shares, which are made whatever the work costs; None divides where that makes the review
                shorter.
        """
        self.transport = transport
        self._policies = policies
        self._shares = shares
        self._seconds: dict[str, float] = {}
        self._trials: dict[tuple[RequestKey, int], DivisionTrial] = {}

    def divide(self, review: Review, calls: Sequence[Call]) -> Sequence[Share]:
        """Divide the work of ``calls``; the shares are in chain order."""
        total = sum(self._expected(review, call) for call in calls)
        most = self._most_shares(review, total)
        if most < 2 or (self._shares is None and not self.trial(review).divides()):
            return (Share(calls, total),)
        units = WorkUnits(review, calls, self)
        return units.shares(units.borders(most))

    def trial(self, review: Review) -> DivisionTrial:
        """Return what is known of dividing such reviews: of the same kind of request, and about as large."""
        kind = (RequestKey.of(review), _bytes_of(review).bit_length())
        found = self._trials.get(kind)
        if found is None:
            if len(self._trials) >= _CACHED_REQUESTS:
                self._trials.clear()  # whoever sends that many kinds of requests makes them up
            found = self._trials[kind] = DivisionTrial()
        return found

    def _most_shares(self, review: Review, total: float) -> int:
        if self._shares is not None:
            return min(self._shares, self.transport.usable_replicas(review.digest))
        worthwhile = int(total / (_SHARE_SECONDS + _bytes_of(review) * _SHARE_SECONDS_PER_BYTE))
        if worthwhile < 2:
            return 1
        # A busy replica would let its share wait behind other reviews, and their work would only cost more.
        return min(worthwhile, self.transport.usable_replicas(review.digest, idle=True))

    def _expected(self, review: Review, call: Call) -> float:
        policies = self.units(review, call)
        return self.seconds(call) if policies is None else policies.total

    def units(self, review: Review, call: Call) -> PolicyDurations | None:
        """Return the policies of a call, or None if it cannot be divided."""
        return self._policies.durations(review) if call.name == _DIVISIBLE else None

    def seconds(self, call: Call) -> float:
        """Return how long a call that cannot be divided takes."""
        return self._seconds.get(call.name, _UNKNOWN_CONTROLLER_SECONDS)

    @property
    def policy_count(self) -> int:
        """How many numbers the policies have."""
        return self._policies.count

    def observe(self, review: Review, outcomes: Iterable[Outcome], calls: Iterable[Call]) -> None:
        """Learn from the outcomes of a share how long its calls take."""
        for call, outcome in zip(calls, outcomes, strict=True):
            if call.name == _DIVISIBLE:
                self._policies.durations(review).observe(outcome.span, outcome.duration_seconds)
                continue
            usual = self._seconds.get(call.name)
            seconds = max(_LEAST_SECONDS, outcome.duration_seconds)
            self._seconds[call.name] = (
                seconds if usual is None else usual + (seconds - usual) * _NEWEST_WEIGHT
            )


def _bytes_of(review: Review) -> int:
    return len(review.object_document.unchecked_raw) + len(review.old_object_document.unchecked_raw)


class _CallUnits(msgspec.Struct, frozen=True):
    """A call, and where its units begin and end."""

    call: Call
    first: int
    end: int
    policies: PolicyDurations | None


class WorkUnits:
    """The units of a review's work, in chain order."""

    def __init__(self, review: Review, calls: Sequence[Call], fan_out: FanOut) -> None:
        """Put the units of ``calls`` in a row, each with the duration that is usual for it."""
        self._policy_count = fan_out.policy_count
        self._calls: list[_CallUnits] = []
        seconds: list[float] = []
        for call in calls:
            policies = fan_out.units(review, call)
            first = len(seconds)
            if policies is not None and policies.numbers:
                seconds += policies.seconds
            else:
                policies = None
                seconds.append(fan_out.seconds(call))
            self._calls.append(_CallUnits(call, first, len(seconds), policies))
        self._until = [0.0, *itertools.accumulate(seconds)]

    def __len__(self) -> int:
        """The number of units."""
        return len(self._until) - 1

    def borders(self, most: int) -> set[int]:
        """Return where to cut between units for at most that many shares that take about as long."""
        total = self._until[-1]
        return {self._nearest(total * share / most) for share in range(1, most)}

    def shares(self, borders: Iterable[int]) -> list[Share]:
        """Cut between units."""
        cuts = sorted({0, len(self), *borders})
        return [self._share(first, end) for first, end in itertools.pairwise(cuts)]

    def _nearest(self, seconds: float) -> int:
        """Return the border between units that is nearest to a point in time."""
        after = bisect.bisect_left(self._until, seconds)
        if after == 0:
            return 0
        return after if self._until[after] - seconds <= seconds - self._until[after - 1] else after - 1

    def _share(self, first: int, end: int) -> Share:
        calls = [
            self._within(units, max(first, units.first), min(end, units.end))
            for units in self._calls
            if first < units.end and units.first < end
        ]
        return Share(calls, self._until[end] - self._until[first])

    def _within(self, units: _CallUnits, first: int, end: int) -> Call:
        """Return the call for the units from ``first`` to ``end``; policies that do not match go with those before."""
        if units.policies is None or (first, end) == (units.first, units.end):
            return units.call
        numbers = units.policies.numbers
        low = 0 if first == units.first else numbers[first - units.first]
        high = self._policy_count if end == units.end else numbers[end - units.first]
        return msgspec.structs.replace(units.call, span=(low, high))


def merge_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge the outcomes of one controller's shares, in their order, into the outcome of the undivided call.

    ``outcomes`` is not empty. A service that does not know of shares has evaluated everything, so its outcome counts
    alone.

    Raises:
        BadAnswerError: the audit annotations are not those of a validator.
    """
    whole = next((outcome for outcome in outcomes if outcome.span is None), None)
    if whole is not None or len(outcomes) == 1:
        return whole or outcomes[0]
    refusal = next((place for place, outcome in enumerate(outcomes) if _is_refusal(outcome)), None)
    evaluated = outcomes if refusal is None else outcomes[: refusal + 1]
    return Outcome(
        controller=outcomes[0].controller,
        decision=_merged_decision(evaluated, refusal),
        warnings=tuple(warning for outcome in evaluated for warning in outcome.warnings),
        audit_annotations=_joined_annotations(evaluated, refused=refusal is not None),
        duration_seconds=max(outcome.duration_seconds for outcome in evaluated),
        policy_outcomes=tuple(_located_outcomes(evaluated)),
        endpoint=",".join(dict.fromkeys(outcome.endpoint for outcome in evaluated)),
    )


def _is_refusal(outcome: Outcome) -> bool:
    """Return whether the request is denied whatever policies decide, so that none was evaluated afterwards."""
    if not isinstance(outcome.decision, Denied):
        return False
    refusals = [status for policy in outcome.policy_outcomes for status in policy.denials]
    return outcome.decision.status not in refusals


def _merged_decision(outcomes: Sequence[Outcome], refusal: int | None) -> OutcomeDecision:
    if refusal is not None:
        return outcomes[refusal].decision
    for kind in (Failed, Denied):
        for outcome in outcomes:
            if isinstance(outcome.decision, kind):
                return outcome.decision
    return outcomes[0].decision


def _joined_annotations(outcomes: Iterable[Outcome], *, refused: bool) -> Mapping[str, str]:
    try:
        return join_annotations([outcome.audit_annotations for outcome in outcomes], refused=refused)
    except msgspec.DecodeError:
        raise BadAnswerError("received audit annotations that cannot be joined") from None


def _located_outcomes(outcomes: Iterable[Outcome]) -> Iterable[PolicyOutcome]:
    for outcome in outcomes:
        for policy in outcome.policy_outcomes:
            yield msgspec.structs.replace(policy, endpoint=outcome.endpoint)
