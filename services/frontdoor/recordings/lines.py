"""Lines: one review and its decision, as a recording holds them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, NamedTuple

from frontdoor import decisions
from frontdoor.recordings.redactions import Redaction
from pratique.json_values import JSON, JSONObject, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.codecs import ReceivedReview
    from frontdoor.decisions import Decision
    from pratique.definitions import Phase
    from pratique.reviews import Review, UserInfo


class Entry(NamedTuple):
    """One review that was decided. It holds references alone: nothing was copied or encoded for it."""

    time: float
    """When, in seconds since 1970."""
    path: str
    """The HTTP path on which it came."""
    phases: frozenset[Phase]
    """What it went through."""
    received: ReceivedReview
    """What was asked."""
    decision: Decision
    """What was decided."""

    @property
    def size(self) -> int:
        """Bytes of its objects, as they came."""
        return size_of(self.received.review)


def size_of(review: Review) -> int:
    """Bytes of a review's objects, as they came."""
    documents = (review.object_document, review.old_object_document, review.options_document)
    return sum(len(one.raw) for one in documents)


@dataclasses.dataclass(frozen=True, slots=True)
class LineWriter:
    """Writes lines without what is secret."""

    key: bytes = dataclasses.field(repr=False)
    """Makes the replacements of one recording alike."""
    max_review_bytes: int
    """Of larger reviews the objects and patches are left out, and the line says so."""

    def write(self, entry: Entry, configuration: str) -> bytes:
        """Make a line; ``configuration`` identifies the set by which was decided."""
        redaction = Redaction(self.key)
        omitted = entry.size if entry.size > self.max_review_bytes else 0
        line: JSONObject = {
            "time": dt.datetime.fromtimestamp(entry.time, tz=dt.UTC).isoformat().replace("+00:00", "Z"),
            "path": entry.path,
            "phase": _phase(entry.phases),
            "configuration": configuration,
            "review": _review(entry.received, redaction, whole=not omitted),
            "decision": _decision(entry, redaction, whole=not omitted),
        }
        if omitted:
            line["omittedBytes"] = omitted
        return encode(line) + b"\n"


def _phase(phases: frozenset[Phase]) -> str:
    """Name phases as ``?phase=`` does."""
    return "admit" if len(phases) > 1 else next(iter(phases)).value


def _review(received: ReceivedReview, redaction: Redaction, *, whole: bool) -> JSONObject:
    """The AdmissionReview that came."""
    review = received.review
    request = {
        "uid": review.uid,
        "kind": review.kind,
        "resource": review.resource,
        "subResource": review.subresource,
        "requestKind": review.request_kind,
        "requestResource": review.request_resource,
        "requestSubResource": review.request_subresource,
        "name": review.name,
        "namespace": review.namespace,
        "operation": review.operation.value,
        "userInfo": _user(review.user, redaction),
        "object": redaction.value(review.object) if whole else None,
        "oldObject": redaction.value(review.old_object) if whole else None,
        "dryRun": review.dry_run,
        "options": redaction.value(review.options) if whole else None,
    }
    present = {name: value for name, value in request.items() if value not in ("", None)}
    return {"apiVersion": received.api_version, "kind": "AdmissionReview", "request": present}


def _user(user: UserInfo, redaction: Redaction) -> JSONObject:
    extra = {name: redaction.texts(values) for name, values in user.extra.items()}
    fields = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": extra}
    return {name: value for name, value in fields.items() if value}


def _decision(entry: Entry, redaction: Redaction, *, whole: bool) -> JSONObject:
    """The decision document without its object, which is that of the review with the patch applied."""
    document = decisions.to_document(entry.decision)
    del document["object"], document["expanded"]
    objects = [entry.received.review.object, entry.decision.object_document.data] if whole else []
    document["patch"] = redaction.patch(document["patch"], objects) if whole else []
    steps = [
        {**one, "patch": redaction.patch(one["patch"], objects) if whole else []} for one in document["steps"]
    ]
    if not whole:
        # What is quoted cannot be told from other words where the object was not looked at.
        return _without_words(document, steps)
    document["steps"] = [{**one, "reason": redaction.told(one["reason"])} for one in steps]
    document["status"] = _status(document["status"], redaction)
    document["warnings"] = redaction.told(document["warnings"])
    document["auditAnnotations"] = _annotations(document["auditAnnotations"], redaction)
    return document


def _status(status: JSON, redaction: Redaction) -> JSON:
    if status is None:
        return None
    told: JSONObject = {**status, "message": redaction.told(status.get("message", ""))}
    causes = status.get("details", {}).get("causes")
    if causes:
        told["details"] = {**status["details"], "causes": [_cause(one, redaction) for one in causes]}
    return told


def _cause(cause: JSONObject, redaction: Redaction) -> JSONObject:
    return {
        name: redaction.told(text) if name in ("message", "field") else text for name, text in cause.items()
    }


def _annotations(annotations: JSONObject, redaction: Redaction) -> JSONObject:
    return {redaction.told(name): redaction.told(value) for name, value in annotations.items()}


def _without_words(document: JSONObject, steps: Sequence[JSONObject]) -> JSONObject:
    status = document["status"]
    return {
        "uid": document["uid"],
        "allowed": document["allowed"],
        "status": None
        if status is None
        else {"code": status.get("code", 0), "reason": status.get("reason", "")},
        "steps": [{**one, "reason": ""} for one in steps],
    }
