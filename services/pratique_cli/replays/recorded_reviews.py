"""Recorded reviews: the lines of a recording, and the parts of a decision that can be compared with another decision.

Times, endpoints and uids are left out, and the random part of a generated name is written as ``#####``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique.apimachinery.manifest_files import list_files
from pratique.apimachinery.patches import PatchError, apply_patch
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.store import Cluster
from pratique.hosting.catalogue import Catalogue
from pratique_cli.outputs.findings import StepOrigin
from pratique_cli.reviews.requests import PHASES
from pratique_frontdoor.http.codecs import decode_review

_GENERATED = pattern(r"(.*-)[bcdfghjklmnpqrstvwxz2456789]{5}")
"""A generated name: ``k8s.io/apimachinery/pkg/util/rand`` uses these characters for its suffix."""
_RANDOM_SUFFIX = "#####"
_WEBHOOK_ANNOTATIONS = ("mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/")
"""Annotations with which the API server records webhook calls and patches; the steps hold the same information."""
_DENYING_OUTCOMES = frozenset({"denied", "failed"})


class ReplayedStep(msgspec.Struct, frozen=True):
    """The comparable parts of a step."""

    origin: StepOrigin
    """The controller, webhook or policy."""
    outcome: str
    """Its outcome, such as ``denied``."""
    reason: str
    """Why."""
    patch: list[JSONObject]
    """The JSON Patch that it applied."""

    @property
    def denies(self) -> bool:
        """Whether it denies the request."""
        return self.outcome in _DENYING_OUTCOMES


class ReplayedDecision(msgspec.Struct, frozen=True):
    """What was decided."""

    allowed: bool
    code: int
    """The code of the denial; 0 if allowed."""
    message: str
    """The message of the denial."""
    object: JSON
    """The object after the chain."""
    warnings: list[str]
    audit_annotations: dict[str, str]
    steps: tuple[ReplayedStep, ...]
    """The steps that were not skipped, in order."""

    def denials(self) -> dict[StepOrigin, str]:
        """The reasons of the denying steps, in chain order."""
        found: dict[StepOrigin, str] = {}
        for step in self.steps:
            if step.denies:
                found.setdefault(step.origin, step.reason or self.message)
        return found

    def patches(self) -> dict[StepOrigin, list[JSONObject]]:
        """The patches of the steps that changed the object."""
        found: dict[StepOrigin, list[JSONObject]] = {}
        for step in self.steps:
            if step.patch:
                found.setdefault(step.origin, []).extend(step.patch)
        return found


def replayed_decision(decision: JSONObject, received: JSON) -> ReplayedDecision:
    """Read a decision document; ``received`` is the object of the review.

    Raises:
        InputError: its patch cannot be applied to that object.
        KeyError, TypeError, AttributeError: it is not a decision document.
    """
    status = decision.get("status") or {}
    final = _patched(decision.get("patch") or [], received)
    names = dict(_generated_names(final, received))
    return ReplayedDecision(
        allowed=decision["allowed"] is True,
        code=int(status.get("code", 0)),
        message=_without_random_names(str(status.get("message", "")), names),
        object=_without_random_names(final, names),
        warnings=[_without_random_names(str(warning), names) for warning in decision.get("warnings") or []],
        audit_annotations=_without_random_names(
            _without_webhook_annotations(decision.get("auditAnnotations") or {}), names
        ),
        steps=tuple(
            _replayed_step(step, names) for step in decision["steps"] if step["outcome"] != "skipped"
        ),
    )


def _without_webhook_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if not key.startswith(_WEBHOOK_ANNOTATIONS)}


def _patched(patch: list[JSONObject], received: JSON) -> JSON:
    if not patch or received is None:
        return received
    try:
        return apply_patch(received, patch)
    except PatchError as error:
        raise InputError(f"decision.patch: does not apply to the review's object: {error}") from None


def _replayed_step(step: JSONObject, names: Mapping[str, str]) -> ReplayedStep:
    controller, name = str(step["controller"]), str(step["name"])
    origin = StepOrigin(controller, "" if name == controller else name, str(step.get("configuration", "")))
    reason = _without_random_names(str(step.get("reason", "")), names)
    return ReplayedStep(
        origin, str(step["outcome"]), reason, _without_random_names(step.get("patch") or [], names)
    )


def _generated_names(final: JSON, received: JSON) -> Iterator[tuple[str, str]]:
    """Yield the random names of volumes that the chain added, with their replacements."""
    for path in (("spec",), ("spec", "template", "spec")):
        there = {member(volume_, "name") for volume_ in member(received, *path, "volumes") or []}
        for volume in member(final, *path, "volumes") or []:
            name = member(volume, "name")
            found = _GENERATED.fullmatch(name) if isinstance(name, str) and name not in there else None
            if found:
                yield found[0], found[1] + _RANDOM_SUFFIX


def _without_random_names(value: JSON, names: Mapping[str, str]) -> JSON:
    if not names:
        return value
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_without_random_names(element, names) for element in value]
    if isinstance(value, dict):
        return {name: _without_random_names(element, names) for name, element in value.items()}
    return value


REDACTED = pattern(r"redacted:[0-9a-f]{12}|cmVkYWN0ZWQ6[A-Za-z0-9+/]{16}")
"""The replacement of a secret, as text and in base64."""

EXTRA = "userInfo.extra"
"""A redacted field that nearly every review has, and that few policies read."""

_MAX_PLACES = 5
"""The most redacted fields to name in a report."""


class RecordedReview(msgspec.Struct, frozen=True):
    """A review to decide again."""

    document: SourceDocument
    """The input document."""
    review: Review
    """The review, which is not charged to quotas."""
    phases: frozenset[Phase]
    """The phases that it goes through."""
    outcome: ReplayedDecision | None
    """The recorded decision; None if there is none."""
    configuration: str
    """The digest of the configuration of that decision."""
    redacted: tuple[str, ...]
    """The first few redacted fields of its objects."""
    omitted: bool
    """Whether its objects were too large to record, so that it cannot be decided."""


def read_recorded(document: SourceDocument, cluster: Cluster, phases: frozenset[Phase]) -> RecordedReview:
    """Read a line of a recording, or an AdmissionReview, which goes through ``phases``.

    Raises:
        InputError: the document is neither; the message gives location and reason.
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
    review = msgspec.structs.replace(
        decode_review(encode(written), cluster).review, quota_mode=QuotaMode.CHECK
    )
    return RecordedReview(
        document=document,
        review=review,
        phases=phases if alone else _phases(data),
        outcome=None
        if alone or data.get("decision") is None
        else _recorded_decision(data["decision"], review),
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
        for name, element in value.items():
            yield from _redacted_paths(element, (*path, name))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _redacted_paths(element, (*path, index))


_POLICIES = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})
_READING_CONTROLLERS = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "PodPreset"})
_MENTIONS_EXTRA = pattern(r"\bextra\b|\buserInfo\b(?!\s*\.\s*(?:username|groups|uid)\b)")


class RedactionReaders(msgspec.Struct, frozen=True):
    """Knows which controllers may read redacted fields."""

    catalogue: Catalogue
    policies_read_extra: bool
    """Whether a configured policy may read the ``extra`` of the user."""

    def read(self, controller: str, place: str) -> bool:
        """Whether a controller may have read a redacted field.

        Webhooks, policies and third-party controllers may read everything. Of Pratique's own controllers, only
        PodPreset reads redacted values: it compares environment variables.
        """
        if controller in _POLICIES:
            return place != EXTRA or self.policies_read_extra
        if controller in _READING_CONTROLLERS or controller in self.catalogue.origins:
            return True
        return self.catalogue.get(controller) is None


def mentions_extra(paths: Iterable[Path]) -> bool:
    """Whether configuration files mention the ``extra`` of users, or ``userInfo`` as a whole."""
    return any(
        _MENTIONS_EXTRA.search(Path(file).read_text("utf-8")) for path in paths for file in list_files(path)
    )
