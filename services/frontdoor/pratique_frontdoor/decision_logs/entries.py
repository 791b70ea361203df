"""Entries: what a decision log says of one answer. Never an object, and of no text what is secret."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import NULL, JSONObject, decode, encode
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import REFUSING
from pratique_frontdoor.http.codecs import ReceivedReview
from pratique_frontdoor.recording.recorders import objects_size
from pratique_frontdoor.recording.redaction import Redaction

if TYPE_CHECKING:
    from starlette.types import Scope

MAX_TEXT_LENGTH = 1024
"""Characters of a message or a name that are kept: four times the longest name that Kubernetes allows. It bounds a
line, and with it the log, whatever a caller sends."""
_MAX_DENIERS = 100
"""Controllers, webhooks and policies that are named for one denial: more than any chain that we know has, and few
enough for a line to stay a line."""
_CREDENTIAL_KINDS = {"certificate": "certificate", "token": "token", "user": "basic"}
"""How callers are known, by the first word of what the guard calls them."""
_OBJECT_KEY_LABEL = b"pratique decision log: objects"
"""Makes another key of the chain's, so that a digest of an object is never a hash of a line."""


@dataclasses.dataclass(slots=True)
class Observation:
    """What is known of one request, while it is answered. It holds references alone."""

    path: str
    """The HTTP path on which it came."""
    scope: Scope
    """Who sent it."""
    came: float = dataclasses.field(default_factory=time.time)
    """When it came, in seconds since 1970."""
    started: float = dataclasses.field(default_factory=time.perf_counter)
    received: ReceivedReview | None = None
    """The review, once it has been read."""
    decision: Decision | None = None
    """What was decided, once it has been."""
    code: int = 0
    """The HTTP code of the answer."""
    body: bytes = b""
    """The answer, where it is no decision."""
    seconds: float = 0.0
    """How long it took."""
    has_dropped_objects: bool = False
    """Whether objects and patch were let go of, because too much waited to be written."""

    def answered(self, code: int, body: bytes) -> None:
        """Say how the request was answered."""
        self.code, self.seconds = code, time.perf_counter() - self.started
        if code != 200:
            self.decision, self.body = None, body

    def drop_objects(self) -> None:
        """Let go of objects and patch: a line without a message is better than none."""
        self.has_dropped_objects = True
        if self.received is not None:
            review = dataclasses.replace(
                self.received.review, object_document=NULL, old_object_document=NULL, options_document=NULL
            )
            self.received = dataclasses.replace(self.received, review=review)
        if self.decision is not None:
            self.decision = dataclasses.replace(self.decision, object_document=NULL, patch=(), expanded=())

    @property
    def size(self) -> int:
        """Bytes of the review's objects, as they came."""
        return 0 if self.received is None else objects_size(self.received.review)


@dataclasses.dataclass(frozen=True, slots=True)
class EntryWriter:
    """Makes the members of entries."""

    key: bytes | None = dataclasses.field(repr=False)
    """That of the chain; without one no object is digested, because a digest that anyone can make lets anyone guess."""
    redaction_key: bytes = dataclasses.field(repr=False)
    """Makes the replacements of secrets alike for as long as the process runs."""
    max_review_bytes: int
    """Of larger reviews no message is kept, because their objects are not searched for secrets."""

    def members(self, seen: Observation, configuration: str) -> JSONObject:
        """Write what was observed; ``configuration`` identifies the set in force."""
        entry: JSONObject = {
            "kind": "outage" if seen.decision is None else "decision",
            "time": audit_time(seen.came),
            "durationMs": round(seen.seconds * 1000, 3),
            "path": seen.path,
            "caller": _caller(seen.scope),
        }
        if configuration:
            entry["configuration"] = configuration
        if seen.received is not None:
            entry["request"] = _request(seen.received.review)
        if seen.decision is None:
            entry |= {"code": seen.code, **_failure(seen.body)}
        elif seen.received is not None:
            entry |= self._decided(seen.received.review, seen.decision, seen)
        return entry

    def _decided(self, review: Review, decision: Decision, seen: Observation) -> JSONObject:
        found: JSONObject = {"allowed": decision.allowed}
        if decision.status is not None:
            found |= {"code": decision.status.code, "reason": decision.status.reason}
            if seen.size <= self.max_review_bytes and not seen.has_dropped_objects:
                found["message"] = shortened(
                    _redacted_message(decision.status.message, review, self.redaction_key)
                )
            denying = [step for step in decision.steps if step.outcome in REFUSING]
            found["deniedBy"] = [
                {"controller": step.controller, "name": step.name, "configuration": step.configuration}
                for step in denying[:_MAX_DENIERS]
            ]
        failed_open = [step.name for step in decision.steps if str(step.outcome) == "failedOpen"]
        if failed_open:
            found["failedOpen"] = failed_open[:_MAX_DENIERS]
        found["warnings"] = len(decision.warnings)
        if seen.has_dropped_objects:
            return found | {"omitted": True}
        patch = encode(list(decision.patch)) if decision.patch else b""
        found["patch"] = {"operations": len(decision.patch), "bytes": len(patch)}
        if self.key is not None:
            object_key = hmac.digest(self.key, _OBJECT_KEY_LABEL, hashlib.sha256)
            found["objectDigest"] = _digest(object_key, review.object_document.raw)
            if patch:
                found["patch"]["digest"] = _digest(object_key, patch)
        return found


def audit_time(seconds: float) -> str:
    """A time as Kubernetes' audit log writes it, in UTC."""
    return (
        dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def shortened(text: str) -> str:
    """A text that has been cut where it is too long, and that can be encoded."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"


def _digest(key: bytes, content: bytes) -> str:
    return f"hmac-sha256:{hmac.digest(key, content, hashlib.sha256).hex()}"


def _caller(scope: Scope) -> JSONObject:
    """Who sent a request: the address, how the caller is known, and by which name; a token has none."""
    client, known = scope.get("client"), scope.get("state", {}).get("caller")
    found = {} if client is None else {"address": f"{client[0]}:{client[1]}"}
    if known is None:
        return found
    by, _, name = known.partition(" ")
    return {**found, "by": _CREDENTIAL_KINDS[by], "name": "" if by == "token" else shortened(name)}


def _request(review: Review) -> JSONObject:
    resource = review.resource
    fields = {
        "uid": review.uid,
        "operation": review.operation.value,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.resource,
        "subresource": review.subresource,
        "namespace": review.namespace,
        "name": review.name,
        "user": review.user.username,
    }
    found: JSONObject = {name: shortened(value) for name, value in fields.items() if value}
    return found | {"dryRun": True} if review.dry_run else found


def _redacted_message(message: str, review: Review, key: bytes) -> str:
    if not message:
        return message
    redaction = Redaction(key)
    for value in (review.object, review.old_object, review.options):
        redaction.value(value)
    told = redaction.told(message)
    return told if isinstance(told, str) else ""


def _failure(body: bytes) -> JSONObject:
    """What a Status says that was answered in place of a decision."""
    status: Any = decode(body) if body else {}
    return {name: shortened(str(status.get(name, ""))) for name in ("reason", "message")}
