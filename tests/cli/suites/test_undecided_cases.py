"""A case that times out is not a failure of the policy, and the run does not look complete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.cluster.store import ObjectStore
from pratique_cli.suites.cases import Case, CaseStatus
from pratique_cli.suites.running import CaseChains, CaseRunner
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine
from support.policy_suites import HEAD, case, read


class LateEngine:
    """Decides nothing in time."""

    def __init__(self, store: ObjectStore) -> None:
        self.cluster = store
        self.closed = False

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        raise TimeoutError

    async def unready(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        self.closed = True


class LateChains(CaseChains):
    """Chains that decide nothing in time."""

    def __init__(self) -> None:
        super().__init__()
        self.engines: list[LateEngine] = []

    def engine(self, case: Case, store: ObjectStore) -> Engine:
        self.engines.append(LateEngine(store))
        return self.engines[-1]


def test_a_case_that_times_out_is_undecided_and_its_chain_is_closed(tmp_path: Path) -> None:
    (only,), _ = read(tmp_path, HEAD + case("{allowed: true}"))
    chains = LateChains()
    result = asyncio.run(CaseRunner(chains, timeout_seconds=0.5).run(only))
    assert result.status is CaseStatus.UNDECIDED
    assert str(result.error).endswith("line 7, column 3: no decision within 0.5 s; --timeout allows more")
    assert [engine.closed for engine in chains.engines] == [True]
