"""A run: worlds of each family, pairs in them, and what differs, each difference made as small as it gets."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random

from differential import configurations
from differential.comparison import Difference, canonical, compare, compare_calls, differences
from differential.configurations import CONFIGURATIONS
from differential.judging import PLUGINS, Judge
from differential.listed import is_listed
from differential.ours import Pratique, deciding
from differential.pairs import NAMESPACES, Answer, Family, Request
from differential.shrinking import shrink
from pratique.apimachinery.json_values import JSONObject

_INVALID = 422
_IS_INVALID = re.compile(r'\S+ "[^"]*" is invalid: ')
"""How the words of the API server's own validation begin."""
_AGAIN = 5
"""How often a pair that differs is asked again. Go's maps have no order, so some texts vary."""
_TRIES = 40
"""How often a pair is made smaller at most; each takes as long as a pair."""
_NAMES = re.compile(r"\b[a-z]+-?[0-9][0-9a-z-]*\b|\d+")


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A pair that differs."""

    family: str
    world: str
    """What the world was drawn from; the same text draws it again."""
    request: Request
    difference: Difference

    @property
    def cause(self) -> str:
        """What pairs of the same cause have alike: the texts without names and numbers."""
        real, ours = (_NAMES.sub("…", str(side)) for side in (self.difference.real, self.difference.ours))
        return f"{self.difference.what} {_NAMES.sub('…', self.difference.path)}: {real} | {ours}"


@dataclasses.dataclass(slots=True)
class Tally:
    """How the pairs of a family came out."""

    pairs: int = 0
    same: int = 0
    refused: int = 0
    """Among the same, those that are refused."""
    listed: int = 0
    """Pairs that differ in a way that the documents argue."""
    left_out: int = 0
    """Requests that the API server refuses for other reasons than admission, beside the pairs."""
    found: list[Found] = dataclasses.field(default_factory=list)

    @property
    def different(self) -> int:
        """How many pairs differ in a way that no document argues."""
        return len(self.found)


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run of any number of families."""

    judge: Judge
    seed: str
    told: Callable[[str], None]
    """Is told of progress, and of each new kind of difference."""

    def compare(self, families: Sequence[Family], pairs: int) -> Mapping[str, Tally]:
        """Compare so many pairs of each family."""
        return {family.name: self._compare_family(family, pairs) for family in families}

    def compare_configurations(self, pairs: int) -> Tally:
        """Compare what both say to so many policies and webhook configurations."""
        tally = Tally(pairs=pairs)
        for number in range(pairs):
            drawn_from = f"{self.seed}/{CONFIGURATIONS}/{number}"
            request = configurations.draw(Random(drawn_from))
            taken, difference = configurations.compare_refusals(self.judge, request)
            if difference is None:
                tally.same += 1
                tally.refused += not taken
                continue
            if is_listed(difference):
                tally.listed += 1
                continue
            found = Found(CONFIGURATIONS, drawn_from, request, difference)
            if found.cause not in {known.cause for known in tally.found}:
                body = json.dumps(request.body)
                self.told(f"{request.resource.kind} in {drawn_from}\n  {difference.describe()}\n  {body}")
            tally.found.append(found)
        self.told(f"{CONFIGURATIONS}: {pairs}, {tally.different} different")
        return tally

    def _compare_family(self, family: Family, pairs: int) -> Tally:
        tally = Tally()
        for number in itertools.count():
            wanted = min(pairs - tally.pairs, family.requests)
            if wanted <= 0:
                break
            assert number <= pairs, "hardly any request of this family reaches admission"
            self._compare_world(family, f"{self.seed}/{family.name}/{number}", wanted, tally)
            self.told(f"{family.name}: {tally.pairs} of {pairs}, {tally.different} different")
        return tally

    def _compare_world(self, family: Family, drawn_from: str, pairs: int, tally: Tally) -> None:
        random = Random(drawn_from)
        with (
            self.judge.world(family.world(random, _suffix(drawn_from))) as world,
            deciding(world, self.judge.common, PLUGINS) as pratique,
        ):
            sides = Sides(self.judge, pratique)
            for _ in range(pairs):
                request = family.request(random, world)
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
                    self._add(tally, sides, Found(family.name, drawn_from, request, difference))

    def _add(self, tally: Tally, sides: Sides, found: Found) -> None:
        """Add a pair that differs; the first one of its cause is made smaller."""
        if found.cause not in {known.cause for known in tally.found}:
            found = sides.smallest(found)
            self.told(f"{found.request.describe()} in {found.world}\n  {found.difference.describe()[:2000]}")
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
