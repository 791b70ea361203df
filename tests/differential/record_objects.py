"""Keep drawn objects that reach code that no kept one reaches, with what a real kube-apiserver makes of them.

``make drawn-objects N=20000`` draws so many, and asks the API server only about those that take a step in object
validation that none before took. One of five is drawn from scratch; the others are such requests with more changes.
What is kept stays if nothing shorter takes its steps, unless ``--anew`` is given, as it is for another release.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, TypeAlias

import click

import pratique.registry
from differential.judging import Judge, judging
from differential.kept_requests import KeptRequests
from differential.listed import is_listed
from differential.objects import Objects, ask, draw_request, draw_world, our_answer
from differential.pairs import Answer, Request, User, World, resource_of
from differential.recorded_objects import RecordedObject, read, size, write
from pratique.apimachinery.json_values import JSONObject

Step: TypeAlias = tuple[CodeType, int, int]
"""From one line of a function to another; from 0 where it begins."""
_ROOM = Path(pratique.registry.__file__).parent
_FILES = str(_ROOM)
_FAMILY = Objects()
_NAMESPACE = "recorded"
_FROM_SCRATCH = 0.2
_CONFLICT = 409
"""What the API server answers to an update of what was stored in another world."""


def steps_of(work: Callable[[], Answer]) -> tuple[Answer, set[Step]]:
    """Do something; its result, and the steps that it takes through object validation."""
    steps: set[Step] = set()
    lines: dict[FrameType, int] = {}

    def follow(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            steps.add((frame.f_code, lines.get(frame, 0), frame.f_lineno))
            lines[frame] = frame.f_lineno
        elif event == "return":
            lines.pop(frame, None)
        return follow

    def enter(frame: FrameType, _event: str, _: Any) -> Any:
        return follow if frame.f_code.co_filename.startswith(_FILES) else None

    sys.settrace(enter)
    try:
        return work(), steps
    finally:
        sys.settrace(None)


def smallest(rows: Sequence[RecordedObject]) -> list[RecordedObject]:
    """The rows that are left once each is taken out, the longest first, whose steps others take as well."""
    steps = [_steps(row) for row in rows]
    times = Counter(itertools.chain.from_iterable(steps))
    kept = set(range(len(rows)))
    for number in sorted(kept, key=lambda number: -size(rows[number])):
        if all(times[step] > 1 for step in steps[number]):
            times.subtract(steps[number])
            kept.remove(number)
    return [rows[number] for number in sorted(kept)]


def _steps(row: RecordedObject) -> set[Step]:
    return steps_of(functools.partial(our_answer, row.request, row.old))[1]


class Recorder:
    """What is kept, and what it reaches.

    Args:
        judge: The API servers.
        world: What they have stored.
        rows: What was kept before.
    """

    def __init__(self, judge: Judge, world: World, rows: list[RecordedObject]) -> None:
        self.rows = rows
        self.different = 0
        self._judge = judge
        self._world = world
        self._known: set[Step] = set()
        self._kept = KeptRequests(_ROOM)
        for item in world.objects:
            if item["kind"] != "Namespace":
                self._kept.add(_replacement(item), item)
        for row in rows:
            self._known |= _steps(row)
            if row.old is None:  # an update names the UID of what was stored in its world
                self._kept.add(row.request, None)

    def draw(self, random: Random) -> None:
        """Draw a request, and keep it if it leads somewhere new and both sides answer alike."""
        if random.random() < _FROM_SCRATCH:
            request, old = draw_request(random, self._world, _FAMILY.subresources)
        else:
            request, old = self._kept.draw_change(random)
        ours, steps = steps_of(functools.partial(our_answer, request, old))
        if steps <= self._known:
            return
        self._known |= steps
        self._kept.add(request, old)
        try:
            real, difference = ask(self._judge, request, ours)
        except http.client.RemoteDisconnected:  # it panics over a few objects
            return
        if difference is None:
            self.rows.append(RecordedObject(request, old, real))
        elif real.code != _CONFLICT and not is_listed(difference):
            self.different += 1
            click.echo(f"{request.describe()}: {difference.describe()}\n  {json.dumps(request.body)}")


def _replacement(item: JSONObject) -> Request:
    metadata = item["metadata"]
    resource = resource_of(item["apiVersion"], item["kind"])
    return Request(User.ADMIN, "PUT", resource, metadata.get("namespace", ""), metadata["name"], item)


def main() -> int:
    """Draw, ask, and keep; 1 if the API server answers one otherwise."""
    arguments = _arguments()
    random = Random(arguments.seed)
    with (
        judging() as judges,
        judges.of(_FAMILY.setup).world(draw_world(random, _NAMESPACE)) as world,
    ):
        recorder = Recorder(judges.of(_FAMILY.setup), world, [] if arguments.anew else read())
        for number in range(1, arguments.objects + 1):
            recorder.draw(random)
            if number % 1000 == 0:
                click.echo(f"{number} of {arguments.objects} drawn, {len(recorder.rows)} kept", err=True)
                write(recorder.rows)
    rows = smallest(recorder.rows)
    write(rows)
    found = f"{len(rows)} kept, {recorder.different} different, and not kept"
    click.echo(f"seed {arguments.seed}: {found}")
    return 1 if recorder.different else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20000, metavar="N", help="how many to draw")
    parser.add_argument("--seed", default=f"{time.time_ns():x}", help="what they are drawn from")
    parser.add_argument("--anew", action="store_true", help="keep nothing of what was kept before")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
