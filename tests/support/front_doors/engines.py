"""Engines that decide at once, or not at all: what the front door's HTTP side is tested with."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import sys
from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import Document
from pratique.cluster.store import ANY_NAMESPACE, Cluster
from pratique_frontdoor.chain.decisions import Decision, Step


@dataclasses.dataclass
class AllowingEngine:
    """Allows everything, and remembers how it was asked."""

    cluster: Cluster = ANY_NAMESPACE
    missing: Sequence[str] = ()
    asked: list[tuple[Review, frozenset[Phase], float, bool]] = dataclasses.field(default_factory=list)
    closed: bool = False

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        self.asked.append((review, phases, deadline.remaining_seconds, explain))
        return await self.conclude(review)

    async def conclude(self, review: Review) -> Decision:
        return Decision(
            uid=review.uid,
            allowed=True,
            object_document=review.object_document,
            steps=(step(OutcomeStatus.ALLOWED),),
            phase_seconds={Phase.VALIDATE: 0.002},
        )

    async def unready(self) -> Sequence[str]:
        return self.missing

    async def close(self) -> None:
        self.closed = True


class ForgetfulEngine(AllowingEngine):
    """Allows everything, and keeps nothing of it."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        return await self.conclude(review)


class DenyingEngine(AllowingEngine):
    """Denies everything, as NamespaceLifecycle would."""

    async def conclude(self, review: Review) -> Decision:
        status = statuses.forbidden("", "pods", "one", "no")
        return Decision(uid=review.uid, allowed=False, status=status, steps=(step(OutcomeStatus.DENIED),))


class PatchingEngine(AllowingEngine):
    """Adds a label to everything, and says so."""

    async def conclude(self, review: Review) -> Decision:
        operation = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
        return Decision(
            uid=review.uid,
            allowed=True,
            object_document=Document.from_data({"metadata": {"labels": {"seen": "yes"}}}),
            patch=(operation,),
            warnings=("labelled",),
            audit_annotations={"labels.example.com/seen": "yes"},
        )


@dataclasses.dataclass
class HangingEngine(AllowingEngine):
    """Decides nothing until it is released, from whichever thread."""

    released: concurrent.futures.Future[None] = dataclasses.field(default_factory=concurrent.futures.Future)

    async def conclude(self, review: Review) -> Decision:
        await asyncio.shield(asyncio.wrap_future(self.released))
        return await super().conclude(review)


class MoodyEngine(AllowingEngine):
    """Never decides about what is named ``hang``, and allows all else."""

    async def conclude(self, review: Review) -> Decision:
        if review.name == "hang":
            await asyncio.Event().wait()
        return await super().conclude(review)


@dataclasses.dataclass
class SlowEngine(AllowingEngine):
    """Decides after a while."""

    seconds: float = 0.5

    async def conclude(self, review: Review) -> Decision:
        await asyncio.sleep(self.seconds)
        return await super().conclude(review)


def _say_began() -> None:
    sys.stdout.write("began\n")
    sys.stdout.flush()


class TellingSlowEngine(SlowEngine):
    """Says on standard output that it has begun."""

    async def conclude(self, review: Review) -> Decision:
        _say_began()
        return await super().conclude(review)


class TellingHangingEngine(HangingEngine):
    """Says on standard output that it has begun."""

    async def conclude(self, review: Review) -> Decision:
        _say_began()
        return await super().conclude(review)


@dataclasses.dataclass
class FailingEngine(AllowingEngine):
    """Breaks."""

    error: Exception = dataclasses.field(default_factory=lambda: ValueError("broken"))

    async def conclude(self, review: Review) -> Decision:
        raise self.error

    async def unready(self) -> Sequence[str]:
        raise self.error


class QuotingEngine(AllowingEngine):
    """Breaks, and quotes the reviewed object in its complaint."""

    async def conclude(self, review: Review) -> Decision:
        raise ValueError(f"cannot handle {review.object} of {review.user}")


def step(outcome: OutcomeStatus, **fields: object) -> Step:
    """Make a step of NamespaceLifecycle, or what ``fields`` say instead."""
    lifecycle = Step(
        controller="NamespaceLifecycle",
        phase=Phase.VALIDATE,
        name="NamespaceLifecycle",
        outcome=outcome,
        duration_seconds=0.001,
    )
    return msgspec.structs.replace(lifecycle, **fields)
