"""Cases: what is asked of a chain, and what it is to decide, with all files read and all paths resolved."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pratique_cli.requests import CREATED, RequestShape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pratique.definitions import Phase
    from pratique.errors import InputError
    from pratique.field_errors import Step
    from pratique.json_values import JSON
    from pratique.settings import ChainSettings
    from pratique.source_documents import SourceDocument


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in the syntax of RE2, searched for."""

    text: str
    compiled: Any = dataclasses.field(repr=False, compare=False)

    def found_in(self, text: str) -> bool:
        """Tell whether some part of ``text`` matches."""
        return self.compiled.search(text) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedStep:
    """A step that has to be there."""

    members: Mapping[str, JSON]
    """By their names in the decision document, what they have to be."""
    reason: Pattern | None = None
    """What has to be found in its reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is to come of a review. None of any member means that it does not matter."""

    path: tuple[Step, ...]
    """Where it stands in the suite's document."""
    allowed: bool | None = None
    code: int | None = None
    reason: str | None = None
    message: Pattern | None = None
    warnings: tuple[Pattern, ...] | None = None
    """Each has to be found in one warning; where there are none of them, there may be no warning."""
    audit_annotations: Mapping[str, str] | None = None
    object: JSON = None
    """The object afterwards, all of it."""
    contains: JSON = None
    """A part of the object afterwards."""
    patch: tuple[JSON, ...] | None = None
    unchanged: bool | None = None
    steps: tuple[ExpectedStep, ...] | None = None
    """Each has to be there, in that order; others may stand between."""
    expanded: tuple[Expectation, ...] | None = None
    """One for each Pod that the workload would make."""
    fixed_point: bool | None = None
    """Whether the mutating phase leaves alone what it has made."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterSource:
    """What controllers look up."""

    paths: tuple[Path, ...] = ()
    objects: tuple[SourceDocument, ...] = ()
    """Objects written in the suite itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a suite."""

    suite: str
    name: str
    document: SourceDocument
    """The suite's."""
    path: tuple[Step, ...]
    """Where the case stands in it."""
    asked: SourceDocument
    """The manifest or AdmissionReview."""
    shape: RequestShape = CREATED
    """What a manifest asks for; what it says is stored before is in ``old``."""
    old: SourceDocument | None = None
    phases: frozenset[Phase]
    settings: ChainSettings
    cluster: ClusterSource | None
    """None means that nobody says what there is."""
    expect: Expectation

    @property
    def full_name(self) -> str:
        """What ``--run`` looks at."""
        return f"{self.suite}/{self.name}"

    @property
    def line(self) -> int:
        """The line of the suite's file on which the case begins."""
        return self.document.position(self.path).line

    def fault(self, problem: str) -> InputError:
        """Make the error that the case cannot be run."""
        return self.document.fault(self.path, problem)
