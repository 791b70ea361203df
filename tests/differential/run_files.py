"""The file of a long run: a line of JSON for each world that is done, so that a run can go on where it ended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from differential.comparison import Difference
from differential.pairs import Request, User, resource_of
from differential.tallies import Found, Tally
from pratique.apimachinery.json_values import JSONObject


class RunFile:
    """The worlds of a run that are done, by what they were drawn from.

    Args:
        path: the file, which need not exist; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._done: dict[str, tuple[str, Tally]] = {}
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        for line in lines:
            read = json.loads(line)
            self._done[read["world"]] = read["family"], _tally(read)

    def tally(self, drawn_from: str) -> Tally | None:
        """How a world came out; None if it has not been compared."""
        done = self._done.get(drawn_from)
        return done[1] if done else None

    def add(self, family: str, drawn_from: str, tally: Tally) -> None:
        """Add a world."""
        self._done[drawn_from] = family, tally
        if self._path is None:
            return
        line = {"family": family, "world": drawn_from, **dataclasses.asdict(tally)}
        line["found"] = [_written(found) for found in tally.found]
        with self._path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")

    def seeds(self) -> list[str]:
        """What the worlds were drawn from."""
        return sorted({drawn_from.partition("/")[0] for drawn_from in self._done})

    def families(self) -> Mapping[str, Tally]:
        """The sum of the worlds of each family."""
        sums: dict[str, Tally] = {}
        for family, tally in self._done.values():
            sums.setdefault(family, Tally()).add(tally)
        return sums


def _written(found: Found) -> JSONObject:
    resource = found.request.resource
    request = dataclasses.asdict(found.request) | {"resource": [resource.api_version, resource.kind]}
    return {"family": found.family, "world": found.world, "request": request} | {
        "difference": dataclasses.asdict(found.difference)
    }


def _tally(line: JSONObject) -> Tally:
    names = {field.name for field in dataclasses.fields(Tally)}
    members = {name: value for name, value in line.items() if name in names}
    return Tally(**members | {"found": [_found(item) for item in line["found"]]})


def _found(item: JSONObject) -> Found:
    request = item["request"]
    api_version, kind = request["resource"]
    whole = request | {"resource": resource_of(api_version, kind), "user": User(request["user"])}
    return Found(item["family"], item["world"], Request(**whole), Difference(**item["difference"]))
