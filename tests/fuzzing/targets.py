"""Targets: what reads bytes that somebody else wrote, and what may come of that.

A target's attempt gives True where the bytes were understood, False where they were refused as they may be, by the
error that is meant for it. Whatever else it raises is a defect of the product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from fuzzing import (
    admission_configurations,
    amounts,
    answers,
    cluster_files,
    configuration_files,
    credentials,
    expressions,
    large_reviews,
    manifests,
    messages,
    patterns_of_labels,
    queries,
    reviews,
    suites,
)

Attempt: TypeAlias = Callable[[bytes], bool]
Opened: TypeAlias = Callable[[Path], AbstractContextManager[Attempt]]

DATA = Path(__file__).parents[1] / "data" / "fuzzing"


@dataclasses.dataclass(frozen=True)
class Target:
    """One thing to be fuzzed."""

    name: str
    open: Opened
    """Makes it ready; it may write files into the folder that it is given."""
    seeds: Callable[[], Iterator[bytes]]
    """What fuzzing starts from."""
    is_json: bool = False
    """Whether its bytes are JSON, at least at times, which is then changed as such."""

    @property
    def corpus(self) -> Path:
        """What fuzzing has found that leads somewhere, and is no defect."""
        return DATA / "corpus" / self.name

    @property
    def crashes(self) -> Path:
        """What once was a defect."""
        return DATA / "crashes" / self.name


TARGETS = [
    Target("review", reviews.opened, reviews.seeds, is_json=True),
    Target("large-review", large_reviews.opened, reviews.seeds, is_json=True),
    Target("answer", answers.opened, answers.seeds, is_json=True),
    Target("query", queries.opened, queries.seeds),
    Target("credentials", credentials.opened, credentials.seeds),
    Target("configuration", configuration_files.opened, configuration_files.seeds, is_json=True),
    Target(
        "admission-configuration",
        admission_configurations.opened,
        admission_configurations.seeds,
        is_json=True,
    ),
    Target("cluster", cluster_files.opened, cluster_files.seeds, is_json=True),
    Target("manifest", manifests.opened, manifests.seeds, is_json=True),
    Target("suite", suites.opened, suites.seeds),
    Target("expression", expressions.opened, expressions.seeds),
    Target("amount", amounts.opened, amounts.seeds),
    Target("selector", patterns_of_labels.opened, patterns_of_labels.seeds),
    Target("message", messages.opened, messages.seeds),
]
