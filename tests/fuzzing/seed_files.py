"""Seed files: what tests and examples hold that is of a kind that a target reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pratique.apimachinery.json_values import JSONObject

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"

LARGEST = 16 * 1024
"""Bytes of a seed: what is longer takes libFuzzer long, and leads nowhere that a shorter one does not."""


def files(*patterns: str) -> Iterator[bytes]:
    """The files below tests and examples that fit one of the patterns."""
    for pattern in patterns:
        for folder in (TESTS / "data", EXAMPLES):
            for file in sorted(folder.glob(pattern)):
                if file.is_file() and file.stat().st_size <= LARGEST and "fuzzing" not in file.parts:
                    yield file.read_bytes()


def lines(file: str) -> Iterator[JSONObject]:
    """The JSON values of a file below tests, one a line."""
    with (TESTS / file).open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)
