"""Whether two answers are the same, word for word and field for field."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Sequence

from differential.custom_resources import CONVERT
from differential.pairs import Answer
from pratique.apimachinery.json_values import JSON
from pratique_frontdoor.webhooks.answers import answer_annotations
from support.webhook_servers import Received

_GIVEN_BY_STORAGE = frozenset(
    {
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "managedFields",
        "selfLink",
        "generation",
        "deletionTimestamp",
    }
)
"""Members of ``metadata`` that only storage can know."""
_UIDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_UID = "00000000-0000-0000-0000-000000000000"
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_OF_CALLER = frozenset({"content-length", "host", "user-agent"})
_MANAGED = re.compile(r',"managedFields":\[\{.*\}\]\}(?=: must be empty)', re.DOTALL)
_RANDOM = {
    re.compile(r"kube-api-access-[a-z0-9]{5}"): "kube-api-access-00000",
    _UIDS: _NO_UID,
    _MANAGED: "}",
}
"""What the API server draws: names of volumes, and UIDs; and who it says has written metadata, and when."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers part; the first of decision, code, words and object that does."""

    what: str
    """``decision``, ``code``, ``message``, ``reason``, ``warnings`` or ``object``."""
    real: JSON
    ours: JSON
    path: str = ""
    """Within the object."""

    def describe(self) -> str:
        """The difference in a few lines."""
        where = f" at {self.path}" if self.path else ""
        return f"{self.what}{where}\n  real: {self.real!r}\n  ours: {self.ours!r}"


def compare(real: Answer, ours: Answer) -> Difference | None:
    """Find the first difference; None where there is none."""
    if real.allowed is not ours.allowed:
        return Difference("decision", f"{real.code} {real.message}", f"{ours.code} {ours.message}")
    if not real.allowed:
        for what in ("code", "message", "reason"):
            one, other = (_without_chance(getattr(answer, what)) for answer in (real, ours))
            if one != other:
                return Difference(what, one, other)
    if real.warnings != ours.warnings:
        return Difference("warnings", list(real.warnings), list(ours.warnings))
    annotations = answer_annotations(real.annotations)
    if annotations != ours.annotations:
        return next(differences(annotations, dict(ours.annotations), what="audit annotation"))
    if not real.allowed or real.object is None or ours.object is None:
        return None
    return next(differences(canonical(real.object), canonical(ours.object)), None)


def canonical(value: JSON) -> JSON:
    """An object without what only storage knows, without chance, and without what is empty."""
    if not isinstance(value, dict):
        return value
    without = copy.deepcopy(value)
    without.pop("status", None)
    metadata = without.get("metadata")
    if isinstance(metadata, dict):
        for name in _GIVEN_BY_STORAGE:
            metadata.pop(name, None)
        if without.get("kind") == "Job":  # they have those of their template, if these come first
            metadata.pop("labels", None)
    return _without_empty(_without_chance(without))


def _without_chance(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _without_chance(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_chance(item) for item in value]
    if isinstance(value, str):
        for drawn, instead in _RANDOM.items():
            value = drawn.sub(instead, value)
    return value


def _without_empty(value: JSON) -> JSON:
    """Leave out members that are null or empty, which storage does not tell from absent ones for most fields."""
    if isinstance(value, dict):
        kept = ((name, _without_empty(member)) for name, member in value.items())
        return {name: member for name, member in kept if member not in (None, "", [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def differences(real: JSON, ours: JSON, path: str = "", what: str = "object") -> Iterator[Difference]:
    """The differences of two values, by where they are."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in sorted({*real, *ours}):
            yield from differences(real.get(name), ours.get(name), f"{path}.{name}" if path else name, what)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from differences(one, other, f"{path}[{index}]", what)
    elif real != ours:
        yield Difference(what, real, ours, path)


def compare_calls(real: Sequence[Received], ours: Sequence[Received]) -> Difference | None:
    """Find the first difference of the requests that webhooks received.

    Those to mutating webhooks come in their order, those to validating ones in any.
    """
    real, ours = _in_order(real), _in_order(ours)
    for index, (one, other) in enumerate(zip(real, ours, strict=False)):
        found = next(differences(_seen(one), _seen(other), f"call {index}", "webhook's request"), None)
        if found is not None:
            return found
    if len(real) != len(ours):
        return Difference("webhooks called", [call.path for call in real], [call.path for call in ours])
    return None


def _in_order(calls: Sequence[Received]) -> list[Received]:
    """Calls in an order; without those that convert custom resources, which no admission makes."""
    calls = [call for call in calls if not call.path.startswith(CONVERT)]
    return sorted(calls, key=lambda call: (call.path, json.dumps(_seen(call), sort_keys=True)))


def _seen(call: Received) -> JSON:
    """A call without what chance and time make of it, and without the status of an object, which may come with it."""
    review = json.loads(_TIMES.sub("1970-01-01T00:00:00Z", _UIDS.sub(_NO_UID, call.body.decode())))
    request = review.get("request", {})
    for name in ("object", "oldObject"):
        if isinstance(request.get(name), dict):
            request[name].pop("status", None)
    headers = {name: value for name, value in call.headers.items() if name not in _OF_CALLER}
    return {
        "target": call.target,
        "method": call.method,
        "headers": headers,
        "review": _without_chance(review),
    }
