"""The playground's cases, and what came of them. Who decides them is given to the application."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.prepared_types import prepared
from pratique_frontdoor.chain.decisions import Decision

EXAMPLES = Path(__file__).parent / "examples"
"""A folder for each example, with a file for each editor that is not empty."""
EDITORS = ("manifest", "policies", "cluster")
"""The editors, by the fields of a case that they hold."""


class PlaygroundCase(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """What the three editors hold, as YAML or JSON, and whether webhooks are called."""

    manifest: str = ""
    """Manifests or AdmissionReviews, reviewed in order."""
    policies: str = ""
    """Policies, bindings and webhook configurations."""
    cluster: str = ""
    """Objects that controllers look up. Empty means an undescribed cluster, as without ``--cluster``."""
    call_webhooks: bool = False
    """Whether to call the webhooks of the chain, in a dry run."""


class LineMark(msgspec.Struct, frozen=True):
    """A remark about a line of an editor."""

    editor: str
    """``manifest``, ``policies`` or ``cluster``."""
    line: int
    """The line, from 1."""
    level: str
    """``error`` or ``warning``."""
    text: str
    """What is wrong, and who says so."""


class DecidedReview(msgspec.Struct, frozen=True):
    """A review and its decision."""

    title: str
    """What was reviewed, such as ``Pod web``."""
    review: Review
    decision: Decision
    of_workload: bool = False
    """Whether it is the Pod that the workload before it would make."""


class PlaygroundResult(msgspec.Struct, frozen=True):
    """What came of a case."""

    decided: Sequence[DecidedReview] = ()
    """The decisions, in the order of the documents."""
    marks: Sequence[LineMark] = ()
    """Denials, warnings and errors, at their lines."""
    problems: Sequence[str] = ()
    """Why something could not be decided."""
    not_called: Sequence[str] = ()
    """The webhooks that the chain has, where they were not called."""


class Playground(Protocol):
    """Decides cases offline: it charges no quota, and calls webhooks only if it may and the case asks for it."""

    may_call_webhooks: bool
    """Whether cases may ask for calls to webhooks."""

    async def decide(self, case: PlaygroundCase) -> PlaygroundResult:
        """Decide a case; what cannot be read is part of the result."""

    async def save(self, case: PlaygroundCase) -> bytes:
        """Make a ZIP archive with a suite of ``pratique test`` that expects what is decided now.

        Raises:
            InputError: the case cannot be one of a suite.
        """


def example_names() -> list[str]:
    """Return the names of the examples, in order."""
    return sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


def read_example(name: str) -> PlaygroundCase | None:
    """Read an example; None if there is none of that name."""
    if name not in example_names():
        return None
    texts = {
        editor: path.read_text("utf-8")
        for editor in EDITORS
        if (path := EXAMPLES / name / f"{editor}.yaml").exists()
    }
    return msgspec.convert(texts, prepared(PlaygroundCase))
