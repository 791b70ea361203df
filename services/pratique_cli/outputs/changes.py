"""Naming reviewed objects, and showing what changes in them: changed fields, and diffs without a Secret's values."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member, unescape
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique_cli.encoding import dump_yaml
from pratique_cli.outputs import ReviewedDocument
from pratique_frontdoor.recording.redaction import Masking, concerns_secret, is_secret

ObjectPath: TypeAlias = tuple[Step, ...]
"""The path of a value: members by name, items by index."""


def subject(review: Review) -> str:
    """Name the reviewed object: ``Deployment shop/web``, ``DELETE Pod shop/web``, ``Pod/status shop/web``."""
    kind = review.kind.kind + (f"/{review.subresource}" if review.subresource else "")
    name = review.name or member(review.object, "metadata", "name") or _generated_name(review)
    operation = "" if review.operation is Operation.CREATE else f"{review.operation.value} "
    # The namespace of a request for a Namespace is the Namespace itself.
    placed = review.namespace and review.resource.resource != "namespaces"
    return f"{operation}{kind} {review.namespace}/{name}" if placed else f"{operation}{kind} {name}"


def _generated_name(review: Review) -> str:
    prefix = member(review.object, "metadata", "generateName")
    return f"{prefix}…" if prefix else "without a name"


_PLAIN = pattern(r"[A-Za-z0-9_$-]+")


class FieldChange(msgspec.Struct, frozen=True):
    """A change to a field. Values are JSON text, or None if there is no value."""

    sign: str
    """``+`` added, ``-`` removed, ``~`` replaced."""
    path: str
    """The path of the field, such as ``spec.containers[0].image``."""
    before: str | None = None
    """The old value."""
    after: str | None = None
    """The new value."""


class ChangeTracker:
    """Follows an object through the steps of a review, and lists what each step changes."""

    def __init__(self, received: JSON) -> None:
        """Start with the object as received, which is not modified."""
        self._object = received

    def apply(self, operations: Iterable[JSONObject]) -> list[FieldChange]:
        """Apply JSON Patch operations, and list what they change; ``test`` changes nothing."""
        return [change for operation in operations for change in self._apply_one(operation)]

    def _apply_one(self, operation: JSONObject) -> list[FieldChange]:
        changes = self._changes(operation)
        self._object = apply_patch(self._object, (operation,))
        return changes

    def _changes(self, operation: JSONObject) -> list[FieldChange]:
        path = self._path(operation["path"])
        before = member(self._object, *path)
        match operation["op"]:
            case "remove":
                return [_removal(path, before)]
            case "replace":
                return [_replacement(path, before, operation.get("value"))]
            case "add":
                return [self._added(path, before, operation.get("value"))]
            case "copy":
                return [self._added(path, before, self._source(operation)[1])]
            case "move":
                source, value = self._source(operation)
                return [_removal(source, value), self._added(path, before, value)]
            case _:
                return []

    def _source(self, operation: JSONObject) -> tuple[ObjectPath, JSON]:
        path = self._path(operation["from"])
        return path, member(self._object, *path)

    def _added(self, path: ObjectPath, before: JSON, value: JSON) -> FieldChange:
        into_array = isinstance(member(self._object, *path[:-1]), list)
        return _replacement(path, None if into_array else before, value)

    def _path(self, pointer: str) -> ObjectPath:
        """Split a JSON Pointer, with array indexes as numbers; ``-`` becomes the index of the new item."""
        path: ObjectPath = ()
        for token in pointer.split("/")[1:]:
            parent = member(self._object, *path)
            path += (_index(token, len(parent)) if isinstance(parent, list) else unescape(token),)
        return path


def _index(step: str, length: int) -> int:
    if step == "-":
        return length
    # The API server's library counts negative indexes from the end.
    return int(step) % (length or 1) if step.startswith("-") else int(step)


def _removal(path: ObjectPath, before: JSON) -> FieldChange:
    return FieldChange("-", path_text(path), before=_value_text(before))


def _replacement(path: ObjectPath, before: JSON, after: JSON) -> FieldChange:
    if before is None:
        return FieldChange("+", path_text(path), after=_value_text(after))
    return FieldChange("~", path_text(path), before=_value_text(before), after=_value_text(after))


def path_text(path: ObjectPath) -> str:
    """Format a path as Kubernetes does: ``metadata.labels[example.com/app]``, ``spec.containers[0]``."""
    text = ""
    for step in path:
        if isinstance(step, int) or not _PLAIN.fullmatch(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "the whole object"


def _value_text(value: JSON) -> str:
    return encode(value).decode()


_CONTEXT = 3
"""Lines of context around each change, as in diff and kubectl."""


def difference(before: JSON, after: JSON, *, in_secret: bool = False) -> Iterator[str]:
    """Compare two objects as sorted YAML, as a unified diff without its two header lines.

    The values of Secrets are hidden, as by ``kubectl diff``; ``in_secret``: even if they do not say what they are.
    """
    if in_secret or is_secret(before) or is_secret(after):
        before, after = _masked(before, after)
    lines = difflib.unified_diff(_lines(before), _lines(after), n=_CONTEXT, lineterm="")
    return itertools.islice(lines, 2, None)  # the first two lines name files


def _lines(value: JSON) -> list[str]:
    return dump_yaml(value, sort=True).splitlines() if value is not None else []


def _masked(before: JSON, after: JSON) -> tuple[JSON, JSON]:
    """Hide the values of a Secret, but show which of them change."""
    redaction = Masking()
    masked_before, masked_after = redaction.value(before), redaction.value(after)
    for field in ("data", "stringData"):
        old, new = _entries(before, field), _entries(after, field)
        for key in old.keys() & new.keys():
            if old[key] != new[key]:
                masked_before[field][key] += " (before)"
                masked_after[field][key] += " (after)"
    return masked_before, masked_after


def _entries(secret: JSON, field: str) -> JSONObject:
    entries = member(secret, field)
    return entries if isinstance(entries, dict) else {}


def without_secrets(reviewed: ReviewedDocument) -> ReviewedDocument:
    """The same with the values of Secrets hidden in all that is said about them."""
    review, decision = reviewed.review, reviewed.decision
    if not concerns_secret(review):
        return reviewed
    redaction = Masking()
    redaction.learn(review, decision)
    return msgspec.structs.replace(reviewed, decision=redaction.decision(decision))
