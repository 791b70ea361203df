"""Running cases: each through a chain of its own, by the engine of ``pratique review``."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pratique.calls import Deadline
from pratique.definitions import MUTATE
from pratique.errors import InputError
from pratique_cli.expansions import Expander
from pratique_cli.old_objects import store_old
from pratique_cli.outputs import Reviewed
from pratique_cli.requests import review_of
from pratique_cli.suites.comparing import compare
from pratique_cli.suites.results import Ending, Observed, Result

if TYPE_CHECKING:
    from frontdoor.decisions import Decision
    from frontdoor.engines import Engine
    from pratique.clusters import ObjectStore
    from pratique.definitions import Phase
    from pratique.reviews import Review
    from pratique_cli.requests import RequestShape
    from pratique_cli.suites.cases import Case, Expectation
    from pratique_cli.suites.chains import Chains


@dataclasses.dataclass(frozen=True, slots=True)
class CaseRunner:
    """Runs cases."""

    chains: Chains
    timeout_seconds: float
    """How long each review may take."""

    async def run(self, case: Case) -> Result:
        """Run one case; nothing that it does is seen by another."""
        begun = time.perf_counter()
        try:
            observed = await self._observe(case)
        except InputError as error:
            return Result(case, Ending.UNREADABLE, error=_placed(error, case))
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            return Result(case, Ending.UNDECIDED, time.perf_counter() - begun, error=case.fault(problem))
        mismatches = compare(case.expect, observed)
        ending = Ending.FAILED if mismatches else Ending.PASSED
        return Result(case, ending, time.perf_counter() - begun, mismatches, observed=observed)

    async def _observe(self, case: Case) -> Observed:
        store = self.chains.store(case)
        review = review_of(case.asked, store, 0, _shape(case, store))
        engine = self.chains.engine(case, store)
        try:
            decision = await self._decide(engine, review, case.phases)
            pods = await self._pods(engine, case, review, decision)
            return await self._again(engine, case.expect, Observed(review, decision, pods=pods))
        finally:
            await engine.close()

    async def _decide(self, engine: Engine, review: Review, phases: frozenset[Phase]) -> Decision:
        return await engine.decide(review, phases, Deadline.after(self.timeout_seconds), explain=True)

    async def _pods(
        self, engine: Engine, case: Case, review: Review, decision: Decision
    ) -> tuple[Observed, ...]:
        """Decide on the Pods that the workload would make, where somebody expects something of them."""
        expected = case.expect.expanded
        if expected is None:
            return ()
        expander = Expander(engine=engine, phases=case.phases, timeout_seconds=self.timeout_seconds)
        reviewed = await expander.expand(Reviewed(case.asked, review, decision), 0)
        pods = [Observed(each.review, each.decision) for each in reviewed.expanded]
        further = [await self._again(engine, one, pod) for one, pod in zip(expected, pods, strict=False)]
        return (*further, *pods[len(further) :])

    async def _again(self, engine: Engine, expected: Expectation, observed: Observed) -> Observed:
        """Run the mutating phase on what came out of it, where somebody expects something of that."""
        if expected.fixed_point is None:
            return observed
        review = observed.review.with_object(observed.decision.object_document)
        return dataclasses.replace(observed, again=await self._decide(engine, review, MUTATE))


def _placed(error: InputError, case: Case) -> InputError:
    """Say where in the suite it is that something cannot be used."""
    if not error.file:
        # What has no place of its own is the configuration or the cluster, which many cases may share.
        return case.document.fault((), str(error))
    return error if error.file == case.document.file else case.fault(str(error))


def _shape(case: Case, store: ObjectStore) -> RequestShape:
    if case.old is None:
        return case.shape
    old = store_old([case.old], store.resources, case.shape.namespace)
    return dataclasses.replace(case.shape, old=old)
