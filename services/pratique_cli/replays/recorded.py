"""Recorded reviews: what a line of a recording holds, or an AdmissionReview alone."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING

from frontdoor.codecs import decode_review
from pratique.definitions import BOTH, MUTATE, VALIDATE
from pratique.errors import InputError
from pratique.field_errors import FieldPath
from pratique.json_values import JSON, JSONObject, encode, member
from pratique.reviews import Charging
from pratique_cli.replays.outcomes import Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.clusters import Cluster
    from pratique.definitions import Phase
    from pratique.field_errors import Step
    from pratique.reviews import Review
    from pratique.source_documents import SourceDocument

PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}
"""Phases by the names that a recording and ``--phase`` give them."""

REDACTED = re.compile(r"redacted:[0-9a-f]{12}|cmVkYWN0ZWQ6[A-Za-z0-9+/]{16}")
"""What stands for a secret, as text and in base64."""

EXTRA = "userInfo.extra"
"""The one redacted place that nearly every review has, and hardly any policy reads."""

_MOST_PLACES = 5
"""Redacted places that are named: more would be read by nobody."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """One review that is to be decided again."""

    document: SourceDocument
    """What stands in the input."""
    review: Review
    """What was asked. It is charged to nobody."""
    phases: frozenset[Phase]
    """What it goes through."""
    outcome: Outcome | None
    """What was decided; None where nobody says."""
    configuration: str
    """The digest of the configuration by which it was."""
    redacted: tuple[str, ...]
    """Where its objects are not what they were, the first few places."""
    omitted: bool
    """Its objects were too large to be recorded: nothing can be decided about it."""


def read_recorded(document: SourceDocument, cluster: Cluster, phases: frozenset[Phase]) -> Recorded:
    """Read a document; ``phases`` is for AdmissionReviews alone, which do not say what they went through.

    Raises:
        InputError: it is neither a line of a recording nor an AdmissionReview; the text says where and why.
    """
    try:
        return _read(document, cluster, phases)
    except InputError as error:
        raise document.fault((), str(error)) from None


def _read(document: SourceDocument, cluster: Cluster, phases: frozenset[Phase]) -> Recorded:
    data = document.data
    alone = data.get("kind") == "AdmissionReview"
    written = data if alone else data.get("review")
    if not isinstance(written, dict):
        raise InputError("neither a line of a recording nor an AdmissionReview")
    review = dataclasses.replace(decode_review(encode(written), cluster).review, charging=Charging.TRIED)
    return Recorded(
        document=document,
        review=review,
        phases=phases if alone else _phases(data),
        outcome=None if alone or data.get("decision") is None else _outcome(data["decision"], review),
        configuration="" if alone else str(data.get("configuration") or ""),
        redacted=tuple(_places(written.get("request"))),
        omitted=not alone and bool(data.get("omittedBytes")),
    )


def _phases(data: JSONObject) -> frozenset[Phase]:
    try:
        return PHASES[data["phase"]]
    except (KeyError, TypeError):
        raise InputError(f"phase: expected one of {', '.join(PHASES)}") from None


def _outcome(decision: JSON, review: Review) -> Outcome:
    try:
        return outcome_of(decision, review.object)
    except (KeyError, TypeError, AttributeError):
        raise InputError("decision: not a decision document") from None


def _places(request: JSON) -> Iterator[str]:
    if any(_redacted(member(request, "userInfo", "extra"), ())):
        yield EXTRA
    objects = {name: member(request, name) for name in ("object", "oldObject", "options")}
    yield from (str(FieldPath(path)) for path in itertools.islice(_redacted(objects, ()), _MOST_PLACES))


def _redacted(value: JSON, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, str):
        if REDACTED.search(value):
            yield path
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _redacted(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _redacted(each, (*path, index))
