"""The oracle: the right answers, from the same chain in one undisturbed process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaos.chains import FIRST, SECOND, chaperone_installed
from chaos.systems import chain_settings
from chaos.workloads import Request
from pratique.admission.controllers import MUTATE, VALIDATE
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSON
from pratique.cluster.files import load_cluster
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine, open_local
from pratique_frontdoor.http.codecs import decode_review

_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Right:
    """A right answer."""

    allowed: bool
    code: int
    message: str
    object: JSON
    """The object as the chain leaves it, where it is let through."""


class Oracle:
    """Returns the allowed answers."""

    def __init__(self, engines: dict[str, Engine], runner: asyncio.Runner) -> None:
        """Have an engine for each configuration; use :func:`open_oracle`."""
        self._engines = engines
        self._runner = runner
        self._known: dict[tuple[int, str, str, str], Right] = {}

    def right(self, request: Request, configurations: Iterable[str]) -> list[Right]:
        """The right answers while each service has either configuration: the phases may use different ones."""
        ways = itertools.product(sorted(configurations), repeat=2)
        return [self._right(request, mutating, validating) for mutating, validating in ways]

    def _right(self, request: Request, mutating: str, validating: str) -> Right:
        key = (request.review, request.path, mutating, validating)
        if key not in self._known:
            self._known[key] = self._runner.run(self._decide(request, mutating, validating))
        return self._known[key]

    async def _decide(self, request: Request, mutating: str, validating: str) -> Right:
        engine = self._engines[mutating]
        review = decode_review(json.dumps(request.body).encode(), engine.cluster).review
        if request.path != "/validate":
            decision = await engine.decide(review, MUTATE, Deadline.after(_SECONDS))
            if request.path == "/mutate" or not decision.allowed:
                return _of(decision)
            review = review.with_object(decision.object_document)
        return _of(await self._validate(review, validating))

    async def _validate(self, review: Review, name: str) -> Decision:
        return await self._engines[name].decide(review, VALIDATE, Deadline.after(_SECONDS))


def _of(decision: Decision) -> Right:
    status = decision.status
    if status is None:
        return Right(True, 200, "", decision.object_document.data)
    return Right(False, status.code, status.message, None)


@contextlib.contextmanager
def open_oracle(folder: Path) -> Iterator[Oracle]:
    """Open an oracle that keeps its files in a folder."""
    folder.mkdir(exist_ok=True)
    with chaperone_installed(folder / "packages"), asyncio.Runner() as runner:

        async def open_engine(name: str) -> Engine:
            settings = chain_settings(folder, name)
            return open_local(settings, load_cluster(settings.cluster))

        engines = {name: runner.run(open_engine(name)) for name in (FIRST, SECOND)}
        try:
            yield Oracle(engines, runner)
        finally:
            for engine in engines.values():
                runner.run(engine.close())
