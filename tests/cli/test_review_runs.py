from __future__ import annotations

import asyncio
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.cluster.store import ObjectStore
from pratique_cli.exit_codes import ExitCode
from pratique_cli.outputs.texts import TextOutput
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.reviews.runs import ReviewRun
from pratique_cli.terminal import Palette
from pratique_frontdoor.chain.decisions import Decision


@dataclasses.dataclass
class LateEngine:
    """Decides pods at once, and is late for everything else."""

    cluster: ObjectStore

    async def decide(
        self, review: Review, _phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        assert explain
        if review.kind.kind == "Pod":
            return Decision(uid=review.uid, allowed=True, object_document=review.object_document)
        await asyncio.sleep(deadline.remaining_seconds)
        raise TimeoutError

    async def unready(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        pass


def test_a_review_that_times_out_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    kinds = ("Pod", "ConfigMap", "Pod")
    texts = [f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a{n}}}\n" for n, kind in enumerate(kinds)]
    (tmp_path / "a.yaml").write_text("---\n".join(texts))
    written, complaints = io.StringIO(), list[str]()
    store = ObjectStore(assume_namespaces=True)
    run = ReviewRun(
        engine=LateEngine(store),
        store=store,
        phases=BOTH,
        timeout_seconds=0.5,
        output=TextOutput(written, Palette()),
        report_problem=complaints.append,
    )
    assert asyncio.run(run.run(read_inputs(tmp_path / "a.yaml"))) is ExitCode.BROKEN
    (complaint,) = complaints
    place = f"{tmp_path / 'a.yaml'}: document 2, line 5, column 1"
    assert complaint == f"{place}: no decision within 0.5 s; --timeout allows more"
    assert written.getvalue().endswith("2 reviewed, 2 admitted, 0 denied, 1 undecided\n")


def test_a_definition_that_defines_nothing_is_reported(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Lenient(LateEngine):
        """Admits whatever comes."""

        async def decide(
            self, review: Review, _phases: frozenset[Phase], _deadline: Deadline, *, explain: bool = False
        ) -> Decision:
            return Decision(uid=str(explain), allowed=True, object_document=review.object_document)

    (tmp_path / "crd.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: 3\n"
    )
    complaints = list[str]()
    store = ObjectStore(assume_namespaces=True)
    run = ReviewRun(
        engine=Lenient(store),
        store=store,
        phases=BOTH,
        timeout_seconds=5,
        output=TextOutput(io.StringIO(), Palette()),
        report_problem=complaints.append,
    )
    assert asyncio.run(run.run(read_inputs(tmp_path / "crd.yaml"))) is ExitCode.ADMITTED
    assert "later reviews will not see it" in complaints[0]
