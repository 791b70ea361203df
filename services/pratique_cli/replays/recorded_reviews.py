"""Recorded reviews: the lines of a recording, and the parts of a decision that can be compared with another decision.

Times, endpoints and uids are left out, and the random part of a generated name is written as ``#####``.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.documents import list_files
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique.apimachinery.patches import PatchError, apply_patch
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.store import Cluster
from pratique.hosting.catalogue import Catalogue
from pratique_cli.outputs.findings import StepOrigin
from pratique_frontdoor.http.codecs import decode_review

_GENERATED = re.compile(r"(.*-)[bcdfghjklmnpqrstvwxz2456789]{5}")
"""A name that was generated: ``k8s.io/apimachinery/pkg/util/rand`` writes its end with these."""
_RANDOM_SUFFIX = "#####"
_WEBHOOK_ANNOTATIONS = ("mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/")
"""Annotations by which the API server tells which webhooks it called and what they changed: steps tell the same."""
_DENYING_OUTCOMES = frozenset({"denied", "failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayedStep:
    """One step, as far as it counts."""

    rule: StepOrigin
    """Which controller, webhook or policy."""
    outcome: str
    """How it ended."""
    reason: str
    """Why."""
    patch: list[JSONObject]
    """What it did to the object."""

    @property
    def denies(self) -> bool:
        """True where the request is denied for it."""
        return self.outcome in _DENYING_OUTCOMES


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """What was decided."""

    allowed: bool
    code: int
    """Of the refusal; 0 where there is none."""
    message: str
    """Of the refusal."""
    object: JSON
    """As the chain left it."""
    warnings: list[str]
    audit_annotations: dict[str, str]
    steps: tuple[ReplayedStep, ...]
    """What was not skipped, in order."""

    def denials(self) -> dict[StepOrigin, str]:
        """Who denied the request, and why, in the order of the chain."""
        found: dict[StepOrigin, str] = {}
        for step in self.steps:
            if step.denies:
                found.setdefault(step.rule, step.reason or self.message)
        return found

    def patches(self) -> dict[StepOrigin, list[JSONObject]]:
        """Who changed the object, and how."""
        found: dict[StepOrigin, list[JSONObject]] = {}
        for step in self.steps:
            if step.patch:
                found.setdefault(step.rule, []).extend(step.patch)
        return found


def replayed_decision(decision: JSONObject, received: JSON) -> ReplayedDecision:
    """Read a decision document; ``received`` is the object as it came.

    Raises:
        InputError: its patch cannot be applied to that object.
        KeyError, TypeError, AttributeError: it is no decision document.
    """
    status = decision.get("status") or {}
    final = _patched(decision.get("patch") or [], received)
    names = dict(_generated_names(final, received))
    return ReplayedDecision(
        allowed=decision["allowed"] is True,
        code=int(status.get("code", 0)),
        message=_without_random_names(str(status.get("message", "")), names),
        object=_without_random_names(final, names),
        warnings=[_without_random_names(str(each), names) for each in decision.get("warnings") or []],
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
    rule = StepOrigin(controller, "" if name == controller else name, str(step.get("configuration", "")))
    reason = _without_random_names(str(step.get("reason", "")), names)
    return ReplayedStep(
        rule, str(step["outcome"]), reason, _without_random_names(step.get("patch") or [], names)
    )


def _generated_names(final: JSON, received: JSON) -> Iterator[tuple[str, str]]:
    """Names of volumes that the chain added and chose at random, and what is written in their place."""
    for path in (("spec",), ("spec", "template", "spec")):
        there = {member(one, "name") for one in member(received, *path, "volumes") or []}
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
        return [_without_random_names(each, names) for each in value]
    if isinstance(value, dict):
        return {name: _without_random_names(each, names) for name, each in value.items()}
    return value


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
    review = dataclasses.replace(decode_review(encode(written), cluster).review, quota_mode=QuotaMode.CHECK)
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
