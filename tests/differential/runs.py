"""A run: worlds of each family, pairs in them, and what differs, each difference made as small as it gets."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from differential.comparison import Difference, canonical, compare, compare_calls, differences
from differential.judging import Judge
from differential.listed import is_listed
from differential.ours import Pratique, deciding
from differential.pairs import NAMESPACES, Answer, Family, Request, Setup
from differential.run_files import RunFile
from differential.shrinking import shrink
from differential.tallies import Found, Tally
from pratique.apimachinery.json_values import JSONObject

_INVALID = 422
_IS_INVALID = re.compile(r'\S+ "[^"]*" is invalid: ')
"""How the words of the API server's own validation begin."""
_IS_RENAMED = "is invalid: metadata.name: Invalid value: "
"""How the API server's own validation refuses an update that a webhook has given another name."""
_AGAIN = 5
"""How often a pair that differs is asked again. Go's maps have no order, so some texts vary."""
_TRIES = 40
"""How often a pair is made smaller at most; each takes as long as a pair."""


class Comparable(Protocol):
    """What a run compares: a family, or something that is asked in another way."""

    @property
    def name(self) -> str:
        """As in the table of ``docs/conformance.md``."""

    @property
    def requests(self) -> int:
        """How many pairs are compared at once."""

    @property
    def setup(self) -> Setup:
        """How the API servers run."""

    def compare(self, judge: Judge, drawn_from: str, pairs: int, told: Callable[[str], None]) -> Tally:
        """Compare so many pairs, drawn from a text; ``told`` is told of each new kind of difference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run of any number of families."""

    seed: str
    told: Callable[[str], None]
    """Is told of progress, and of each new kind of difference."""
    done: RunFile = dataclasses.field(default_factory=lambda: RunFile(None))
    """What has been compared before."""
    until: float = math.inf
    """By ``time.monotonic``, when no more is begun."""

    def compare(self, judge: Judge | None, family: Comparable, pairs: int) -> Tally:
        """Compare so many pairs of a family, fewer where time is up; without a judge, what has been compared before."""
        tally = Tally()
        for number in itertools.count():
            wanted = min(pairs - tally.pairs, family.requests)
            if wanted <= 0:
                break
            assert number <= pairs, "hardly any request of this family reaches admission"
            drawn_from = f"{self.seed}/{family.name}/{number}"
            world = self.done.tally(drawn_from)
            if world is None:
                if judge is None or time.monotonic() > self.until:
                    break
                world = family.compare(judge, drawn_from, wanted, self.told)
                self.done.add(family.name, drawn_from, world)
                self.told(
                    f"{family.name}: {tally.pairs + world.pairs} of {pairs}, {world.different} different"
                )
            tally.add(world)
        return tally


@dataclasses.dataclass(frozen=True, slots=True)
class Worlds:
    """A family whose requests are asked in worlds of objects."""

    family: Family

    @property
    def name(self) -> str:
        """As in the table of ``docs/conformance.md``."""
        return self.family.name

    @property
    def requests(self) -> int:
        """How many requests each world is worth."""
        return self.family.requests

    @property
    def setup(self) -> Setup:
        """How the API servers run."""
        return self.family.setup

    def compare(self, judge: Judge, drawn_from: str, pairs: int, told: Callable[[str], None]) -> Tally:
        """Compare so many pairs of a world."""
        random, tally = Random(drawn_from), Tally()
        with (
            judge.world(self.family.world(random, _suffix(drawn_from), judge.webhooks)) as world,
            deciding(world, judge.common, self.setup, judge.folder) as pratique,
        ):
            sides = Sides(judge, pratique)
            for _ in range(pairs):
                request = self.family.request(random, world)
                difference = sides.difference(request)
                if difference is LEFT_OUT:
                    tally.left_out += 1
                    continue
                tally.pairs += 1
                if difference is None:
                    tally.same += 1
                    tally.refused += not sides.real.allowed
                elif is_listed(difference):
                    tally.listed += 1
                else:
                    _add(tally, sides, Found(self.name, drawn_from, request, difference), told)
        return tally


def _add(tally: Tally, sides: Sides, found: Found, told: Callable[[str], None]) -> None:
    """Add a pair that differs; the first one of its cause is made smaller."""
    if found.cause not in {known.cause for known in tally.found}:
        found = sides.smallest(found)
        told(f"{found.request.describe()} in {found.world}\n  {found.difference.describe()[:2000]}")
    tally.found.append(found)


def _suffix(drawn_from: str) -> str:
    """A name for a world that no other one of any run has."""
    return f"{Random(drawn_from).randrange(16**6):06x}{time.time_ns() % 16**4:04x}"


LEFT_OUT = Difference("left out", None, None)
"""Instead of a difference: the API server refused for a reason that has nothing to do with admission."""


class Sides:
    """Both sides in one world."""

    def __init__(self, judge: Judge, pratique: Pratique) -> None:
        self._judge = judge
        self._pratique = pratique
        self.real = Answer(0)
        """The last real answer."""

    def difference(self, request: Request, again: int = _AGAIN) -> Difference | None:
        """Ask both, and find the first difference; ``LEFT_OUT`` where admission did not decide."""
        review = self._judge.record(request)
        if review is None:
            return LEFT_OUT
        ours, found = self._ask(request, review)
        if found is None:
            return None
        if not self.real.allowed and self._refused_anyway(request, ours):
            return LEFT_OUT
        for _ in range(again):
            self._judge.order_policies_anew()
            ours, found = self._ask(request, review)
            if found is None:
                return None
        return found

    def _ask(self, request: Request, review: JSONObject) -> tuple[Answer, Difference | None]:
        """Ask both sides once; our answer, and the first difference."""
        received = self._judge.webhooks.received
        before = len(received)
        ours = self._pratique.decide(review)
        between = len(received)
        self.real = self._judge.decide(request)
        found = self._compare(request, self.real, ours)
        return ours, found or compare_calls(received[between:], received[before:between])

    def _compare(self, request: Request, real: Answer, ours: Answer) -> Difference | None:
        found = compare(real, ours)
        if found is not None and found.what == "warnings":
            # those that come with reading and storing the object are no answer of admission
            plain = self._judge.store(request).warnings
            real = dataclasses.replace(real, warnings=tuple(w for w in real.warnings if w not in plain))
            found = compare(real, ours)
        if found is None or found.what != "object":
            return found
        if request.subresource == "token":
            return None  # a token's request has no defaults before it is stored
        # storage fills in defaults of what was added: let it do the same to ours
        stored = self._judge.store(dataclasses.replace(request, body=ours.object))
        if not stored.allowed:
            return Difference("object", real.object, f"is refused: {stored.message}")
        return next(differences(canonical(real.object), canonical(stored.object)), None)

    def _refused_anyway(self, request: Request, ours: Answer) -> bool:
        """Whether the API server refuses it, or what we make of it, without any plugin, and in these words."""
        plain = self._judge.store(request)
        if plain.words() == self.real.words() or plain.code == self.real.code == _INVALID:
            return True
        if not ours.allowed:  # what plugins made of the object was invalid, before others were asked
            return request.resource is not NAMESPACES and _IS_INVALID.match(self.real.message) is not None
        if ours.object is None:
            return False
        if request.method == "PUT" and ours.object["metadata"]["name"] != request.name:
            return _IS_RENAMED in self.real.message  # what no request without plugins could ask
        return self._judge.store(dataclasses.replace(request, body=ours.object)).message == self.real.message

    def smallest(self, found: Found) -> Found:
        """Make the object of a request smaller as long as the difference is of the same kind."""

        def still(body: object) -> bool:
            shorter = dataclasses.replace(found.request, body=body)
            now = self.difference(shorter, again=0)
            return now is not None and (now.what, now.path) == (found.difference.what, found.difference.path)

        body = shrink(found.request.body, still, tries=_TRIES)
        request = dataclasses.replace(found.request, body=body)
        difference = self.difference(request, again=0) or found.difference
        return dataclasses.replace(found, request=request, difference=difference)
