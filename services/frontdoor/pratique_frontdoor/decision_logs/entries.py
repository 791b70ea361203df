"""Entries: what a decision log contains about one response. Never an object, and no secrets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import NULL, JSONObject, decode, encode
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import REFUSING
from pratique_frontdoor.http.codecs import ReceivedReview
from pratique_frontdoor.recording.recorders import objects_size
from pratique_frontdoor.recording.redaction import Redaction, concerns_secret

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Scope

MAX_TEXT_LENGTH = 1024
"""The maximum length of a message or a name: four times the longest name in Kubernetes. It bounds a line, and with it
the log, whatever a caller sends."""
_MAX_DENIERS = 100
"""The maximum number of controllers, webhooks and policies named for one denial: more than any chain we know has."""
_CREDENTIAL_KINDS = {"certificate": "certificate", "token": "token", "user": "basic"}
"""The kind of credential, by the first word of the caller's name."""
_OBJECT_KEY_LABEL = b"pratique decision log: objects"
"""Derives a separate key from the chain's, so that a digest of an object is never a hash of a line."""


class Observation(msgspec.Struct):
    """What is known of one request while it is handled. It only holds references."""

    path: str
    """The HTTP path of the request."""
    scope: Scope
    """The ASGI scope, with the sender."""
    came: float = msgspec.field(default_factory=time.time)
    """When it was received, in seconds since 1970."""
    started: float = msgspec.field(default_factory=time.perf_counter)
    received: ReceivedReview | None = None
    """The review, once it is decoded."""
    decision: Decision | None = None
    """The decision, once there is one."""
    code: int = 0
    """The HTTP code of the response."""
    body: bytes = b""
    """The body of a response without a decision."""
    seconds: float = 0.0
    """The duration."""
    members: JSONObject | None = None
    """The members of its entry, if they are made already."""
    confirmation: asyncio.Future[bool] | None = None
    """What waits for its entry: becomes true once that is on the disk, and false if it cannot be written."""
    has_dropped_objects: bool = False
    """Whether objects and patch were dropped because too much waited to be written."""

    def answered(self, code: int, body: bytes) -> None:
        """Record the response."""
        self.code, self.seconds = code, time.perf_counter() - self.started
        if code != 200:
            self.decision, self.body = None, body

    def drop_objects(self) -> None:
        """Drop objects and patch: a line without a message is better than none."""
        self.has_dropped_objects = True
        if self.received is not None:
            review = msgspec.structs.replace(
                self.received.review, object_document=NULL, old_object_document=NULL, options_document=NULL
            )
            self.received = msgspec.structs.replace(self.received, review=review)
        if self.decision is not None:
            self.decision = msgspec.structs.replace(
                self.decision, object_document=NULL, patch=(), expanded=()
            )

    @property
    def size(self) -> int:
        """Bytes of the review's objects, as received."""
        return 0 if self.received is None else objects_size(self.received.review)


@dataclasses.dataclass(frozen=True, slots=True)
class EntryWriter:
    """Creates the members of entries."""

    key: bytes | None = dataclasses.field(repr=False)
    """The key of the chain. Without one no object is digested, because anyone could guess an object from an unkeyed
    digest."""
    redaction_key: bytes = dataclasses.field(repr=False)
    """The key by which equal secrets have equal replacements while the process runs."""
    max_review_bytes: int
    """Larger reviews have no message, because their objects are not searched for secrets."""

    def members(self, observation: Observation, configuration: str) -> JSONObject:
        """Return the members of an entry; ``configuration`` identifies the current configuration."""
        entry: JSONObject = {
            "kind": "outage" if observation.decision is None else "decision",
            "time": audit_time(observation.came),
            "durationMs": round(observation.seconds * 1000, 3),
            "path": observation.path,
            "caller": _caller(observation.scope),
        }
        if configuration:
            entry["configuration"] = configuration
        if observation.received is not None:
            entry["request"] = _request(observation.received.review)
        if observation.decision is None:
            entry |= {"code": observation.code, **_failure(observation.body)}
        elif observation.received is not None:
            entry |= self._decided(observation.received.review, observation.decision, observation)
        return entry

    def _decided(self, review: Review, decision: Decision, observation: Observation) -> JSONObject:
        found: JSONObject = {"allowed": decision.allowed}
        if decision.status is not None:
            found |= {"code": decision.status.code, "reason": decision.status.reason}
            if observation.size <= self.max_review_bytes and not observation.has_dropped_objects:
                found["message"] = shortened(
                    _redacted_message(decision.status.message, review, decision, self.redaction_key)
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
        if observation.has_dropped_objects:
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
    """Return a time in the format of Kubernetes' audit log, in UTC."""
    return (
        dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def shortened(text: str) -> str:
    """Return a text that can be encoded, truncated if it is too long."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"


def _digest(key: bytes, content: bytes) -> str:
    return f"hmac-sha256:{hmac.digest(key, content, hashlib.sha256).hex()}"


def _caller(scope: Scope) -> JSONObject:
    """Return the sender of a request: the address, the kind of credential, and the name; a token has none."""
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


def _redacted_message(message: str, review: Review, decision: Decision, key: bytes) -> str:
    """Return a message without what the review has in a Secret, or any step has put there."""
    if not message:
        return message
    redaction = Redaction(key, in_secret=concerns_secret(review))
    redaction.learn(review, decision)
    redacted = redaction.redact_texts(message)
    return redacted if isinstance(redacted, str) else ""


def _failure(body: bytes) -> JSONObject:
    """Return reason and message of a Status that was returned instead of a decision."""
    status: Any = decode(body) if body else {}
    return {name: shortened(str(status.get(name, ""))) for name in ("reason", "message")}
