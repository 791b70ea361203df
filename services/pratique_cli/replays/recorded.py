"""What a line of a recording holds, and who may have read what was redacted."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from frontdoor.http.codecs import decode_review
from pratique.admission.controllers import BOTH, MUTATE, VALIDATE
from pratique.admission.reviews import QuotaMode
from pratique.apimachinery.documents import list_files
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique_cli.replays.outcomes import ReplayedDecision, replayed_decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.admission.controllers import Phase
    from pratique.admission.reviews import Review
    from pratique.apimachinery.field_errors import Step
    from pratique.apimachinery.source_documents import SourceDocument
    from pratique.cluster.store import Cluster
    from pratique.hosting.catalogue import Catalogue

PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}
"""Phases by the names that a recording and ``--phase`` give them."""

REDACTED = re.compile(r"redacted:[0-9a-f]{12}|cmVkYWN0ZWQ6[A-Za-z0-9+/]{16}")
"""What stands for a secret, as text and in base64."""

EXTRA = "userInfo.extra"
"""The one redacted place that nearly every review has, and hardly any policy reads."""

_MAX_PLACES = 5
"""Redacted places that are named: more would be read by nobody."""


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedReview:
    """One review that is to be decided again."""

    document: SourceDocument
    """What stands in the input."""
    review: Review
    """What was asked. It is charged to nobody."""
    phases: frozenset[Phase]
    """What it goes through."""
    outcome: ReplayedDecision | None
    """What was decided; None where nobody says."""
    configuration: str
    """The digest of the configuration by which it was."""
    redacted: tuple[str, ...]
    """Where its objects are not what they were, the first few places."""
    omitted: bool
    """Its objects were too large to be recorded: nothing can be decided about it."""


def read_recorded(document: SourceDocument, cluster: Cluster, phases: frozenset[Phase]) -> RecordedReview:
    """Read a document; ``phases`` is for AdmissionReviews alone, which do not say what they went through.

    Raises:
        InputError: it is neither a line of a recording nor an AdmissionReview; the text says where and why.
    """
    try:
        return _read_review(document, cluster, phases)
    except InputError as error:
        raise document.fault((), str(error)) from None


def _read_review(document: SourceDocument, cluster: Cluster, phases: frozenset[Phase]) -> RecordedReview:
    data = document.data
    alone = data.get("kind") == "AdmissionReview"
    written = data if alone else data.get("review")
    if not isinstance(written, dict):
        raise InputError("neither a line of a recording nor an AdmissionReview")
    review = dataclasses.replace(decode_review(encode(written), cluster).review, charging=QuotaMode.CHECK)
    return RecordedReview(
        document=document,
        review=review,
        phases=phases if alone else _phases(data),
        outcome=None if alone or data.get("decision") is None else _recorded_decision(data["decision"], review),
        configuration="" if alone else str(data.get("configuration") or ""),
        redacted=tuple(_redacted_places(written.get("request"))),
        omitted=not alone and bool(data.get("omittedBytes")),
    )


def _phases(data: JSONObject) -> frozenset[Phase]:
    try:
        return PHASES[data["phase"]]
    except (KeyError, TypeError):
        raise InputError(f"phase: expected one of {', '.join(PHASES)}") from None


def _recorded_decision(decision: JSON, review: Review) -> ReplayedDecision:
    try:
        return replayed_decision(decision, review.object)
    except (KeyError, TypeError, AttributeError):
        raise InputError("decision: not a decision document") from None


def _redacted_places(request: JSON) -> Iterator[str]:
    if any(_redacted_paths(member(request, "userInfo", "extra"), ())):
        yield EXTRA
    objects = {name: member(request, name) for name in ("object", "oldObject", "options")}
    yield from (str(FieldPath(path)) for path in itertools.islice(_redacted_paths(objects, ()), _MAX_PLACES))


def _redacted_paths(value: JSON, path: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, str):
        if REDACTED.search(value):
            yield path
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _redacted_paths(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _redacted_paths(each, (*path, index))


_POLICIES = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})
_READING_CONTROLLERS = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "PodPreset"})
_MENTIONS_EXTRA = re.compile(r"\bextra\b|\buserInfo\b(?!\s*\.\s*(?:username|groups|uid)\b)")


@dataclasses.dataclass(frozen=True, slots=True)
class RedactionReaders:
    """What controllers may read."""

    catalogue: Catalogue
    policies_read_extra: bool
    """Whether any of the policies that decide may read who else the user is said to be."""

    def read(self, controller: str, place: str) -> bool:
        """Tell whether a controller may have read a redacted place.

        Webhooks and policies may read all there is, and so may controllers of other packages. Of Pratique's own one
        compares variables of environments; the others read nothing that is redacted.
        """
        if controller in _POLICIES:
            return place != EXTRA or self.policies_read_extra
        if controller in _READING_CONTROLLERS or controller in self.catalogue.origins:
            return True
        return self.catalogue.get(controller) is None


def mentions_extra(paths: Iterable[Path]) -> bool:
    """Tell whether the texts of configurations mention the ``extra`` of users, or users as a whole."""
    return any(
        _MENTIONS_EXTRA.search(Path(file).read_text("utf-8")) for path in paths for file in list_files(path)
    )
