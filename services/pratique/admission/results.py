"""What controllers return: answers, the edits that make patches, and the outcomes of calls.

A controller returns an **Answer**: :func:`allow`, :func:`warn`, :func:`patch` or :func:`deny`. :class:`Edits` collects
the operations of a patch. Each call to a controller results in an **Outcome**, which also covers failures.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, Document, JSONObject, json_type, member, pointer
from pratique.apimachinery.statuses import Status

Path: TypeAlias = Sequence[str | int]
"""The path of a value, without escaping: ``("spec", "containers", 0, "image")``."""


class Edits:
    """A draft of an object, and the JSON Patch that leads to it.

    The object itself is never changed; the draft shares everything with it that is not edited. The patch has one
    operation for each member that really changes. Example::

        edits = Edits(review.object)
        if edits.get(("spec", "priority")) is None:
            edits.set(("spec", "priority"), 0)
        return edits.answer()
    """

    def __init__(self, document: JSON) -> None:
        """Start with ``document``, a JSON object or array."""
        self._document = document
        self._operations: list[JSONObject] = []
        # Containers by id(), kept alive so that ids stay unique: copies for the draft, and values of operations. Edits
        # inside a value need no further operation.
        self._copies: dict[int, JSON] = {}
        self._values: dict[int, JSON] = {}

    @property
    def document(self) -> JSON:
        """The object with all edits so far. Do not change it in place."""
        return self._document

    @property
    def changed(self) -> bool:
        """Whether anything differs from the original object."""
        return bool(self._operations)

    @property
    def operations(self) -> tuple[JSONObject, ...]:
        """The JSON Patch from the original object to ``document``."""
        return tuple(self._operations)

    def get(self, path: Path) -> JSON:
        """Return the current value; None if it is missing. Do not change it in place."""
        return member(self._document, *path)

    def set(self, path: Path, value: JSON) -> None:
        """Set a member, or an existing item of an array; missing parents become objects.

        The value is copied. Nothing happens if it is already there.

        Raises:
            RefusalError: with code 400: a value on the path is not an object or array as it must be.
            IndexError: an array has no such item.
        """
        container, depth = self._nearest(path[:-1])
        missing = path[depth + 1 :]
        if not missing and _contains(container, path[-1]) and identical(container[path[-1]], value):
            return
        new = _deep_copy(value)
        for step in reversed(missing):
            new = {_member_name(step): new}
        self._put(path[: depth + 1], new)

    def append(self, path: Path, value: JSON) -> None:
        """Append a value to an array, which is created if it is missing.

        Raises:
            RefusalError: with code 400: the array, or a value on the path, has another type.
        """
        items = self.get(path)
        if items is None:
            self.set(path, [value])
            return
        if not isinstance(items, list):
            raise _type_refusal(path, 0, items)
        self._put((*path, len(items)), _deep_copy(value))

    def remove(self, path: Path) -> None:
        """Remove a member or an item; nothing happens if it is missing."""
        if not _contains(self.get(path[:-1]), path[-1]):
            return
        container, inside = self._own(path[:-1])
        del container[path[-1]]
        if not inside:
            self._operations.append({"op": "remove", "path": pointer(path)})

    def answer(
        self, *, warnings: tuple[str, ...] = (), audit_annotations: Mapping[str, str] | None = None
    ) -> Patch | Allow:
        """Return the answer that allows the request, with the changes if there are any."""
        annotations = audit_annotations or {}
        if not self._operations:
            return Allow(warnings, annotations)
        return Patch(self.operations, self.document, warnings=warnings, audit_annotations=annotations)

    def _nearest(self, parents: Path) -> tuple[JSON, int]:
        """Return the innermost existing container on a path, and the number of steps to it."""
        container = self._document
        for depth, step in enumerate(parents):
            if not _accepts_step(step, container):
                raise _type_refusal(parents[:depth], step, container)
            child = container[step] if _contains(container, step) else None
            if child is None:
                return container, depth
            container = child
        return container, len(parents)

    def _put(self, path: Path, new: JSON) -> None:
        """Set a member or item of an existing container; the index after the last item appends."""
        key = path[-1]
        container, inside = self._own(path[:-1])
        if not _accepts_step(key, container):
            raise _type_refusal(path[:-1], key, container)
        existing = _contains(container, key)
        if isinstance(container, dict) or existing:
            container[key] = new
        elif key == len(container):
            container.append(new)
        else:
            raise IndexError(f"{pointer(path)}: there is no such item")
        if inside:
            return
        self._operations.append({"op": "replace" if existing else "add", "path": pointer(path), "value": new})
        if isinstance(new, dict | list):
            self._values[id(new)] = new

    def _own(self, path: Path) -> tuple[JSON, bool]:
        """Return the draft's own copy of a container, and whether it is inside the value of an operation."""
        container = self._document = self._copied(self._document)
        inside = False
        for step in path:
            child = container[step]
            inside = inside or id(child) in self._values
            if not inside:
                child = container[step] = self._copied(child)
            container = child
        return container, inside

    def _copied(self, container: JSON) -> JSON:
        if id(container) in self._copies or not isinstance(container, dict | list):
            return container
        copy = container.copy()
        self._copies[id(copy)] = copy
        return copy


def _contains(container: JSON, key: str | int) -> bool:
    if isinstance(container, list):
        return isinstance(key, int) and 0 <= key < len(container)
    return isinstance(container, dict) and key in container


def _member_name(step: str | int) -> str:
    if isinstance(step, int):
        raise IndexError(f"there is no array that could have an item {step}")
    return step


def _deep_copy(value: JSON) -> JSON:
    """Copy a value's containers; scalars are immutable."""
    if isinstance(value, dict):
        return {name: _deep_copy(child) for name, child in value.items()}
    return [_deep_copy(child) for child in value] if isinstance(value, list) else value


def _accepts_step(step: str | int, container: JSON) -> bool:
    """Tell whether a container has members, for a name, or items, for an index."""
    return isinstance(container, dict if isinstance(step, str) else list)


def _type_refusal(path: Path, step: str | int, found: JSON) -> RefusalError:
    """Return the error of an object with another type where a member or item must be."""
    where = str(FieldPath(tuple(path))) or "the object"
    wanted = "a mapping" if isinstance(step, str) else "a list"
    return RefusalError(statuses.bad_request(f"{where}: must be {wanted}, not {json_type(found)}"))


class Allow(msgspec.Struct, frozen=True):
    """The request is allowed, and the object stays unchanged."""

    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


class Patch(msgspec.Struct, frozen=True):
    """The request is allowed, and the object changes by ``operations`` (RFC 6902) or becomes ``new_object``.

    If both are given, as by :class:`pratique.Edits`, the operations must lead to ``new_object``.
    """

    operations: tuple[JSONObject, ...] | None = None
    new_object: JSON = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


class Deny(msgspec.Struct, frozen=True):
    """The request is denied."""

    status: Status | None
    """The complete Status; None if there is only ``message``, which is then worded as ``NewForbidden`` does it."""
    message: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


Answer: TypeAlias = Allow | Patch | Deny
"""What a controller returns."""


def allow(*, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Allow the request and leave the object unchanged."""
    return Allow(audit_annotations=audit_annotations or {})


def warn(*warnings: str, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Allow the request, leave the object unchanged, and show ``warnings`` to the user."""
    return Allow(warnings=warnings, audit_annotations=audit_annotations or {})


def patch(
    new_object: JSON = None,
    *,
    operations: tuple[JSONObject, ...] | list[JSONObject] | None = None,
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Patch:
    """Allow the request and change the object.

    Give either the new object, as a changed copy of the reviewed one, or the JSON Patch ``operations`` that lead to
    it. Never change the reviewed object in place. :class:`pratique.Edits` creates such an answer member by member.

    Raises:
        ValueError: both or neither are given.
    """
    if (new_object is None) == (operations is None):
        raise ValueError("patch() takes either the new object or operations=[…]")
    return Patch(
        operations=None if operations is None else tuple(operations),
        new_object=new_object,
        warnings=warnings,
        audit_annotations=audit_annotations or {},
    )


def deny(
    message: str = "",
    *,
    status: Status | None = None,
    code: int = 403,
    reason: str = "Forbidden",
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Deny:
    """Deny the request.

    With only a message, the user reads ``<resource> "<name>" is forbidden: <message>``, as from any built-in
    controller. With a different ``code`` or ``reason``, the message is used unchanged. A ``status`` is used as it is.

    Raises:
        ValueError: both or neither of message and status are given.
    """
    if bool(message) == (status is not None):
        raise ValueError("deny() takes either a message or status=…")
    if status is None and (code, reason) != (403, "Forbidden"):
        status = statuses.failure(code, reason, message)
    return Deny(status, message, warnings, audit_annotations or {})


class OutcomeStatus(enum.StrEnum):
    """The result of a controller, a webhook or a policy for one review."""

    ALLOWED = "allowed"
    """It allowed the request."""
    MUTATED = "mutated"
    """It changed the object."""
    UNCHANGED = "unchanged"
    """It mutates, but left the object unchanged."""
    DENIED = "denied"
    """It denied the request."""
    WARNED = "warned"
    """It allowed the request with warnings."""
    SKIPPED = "skipped"
    """It does not apply to the request; reported only if the caller asks for explanations."""
    FAILED = "failed"
    """It reached no decision, so the request is denied."""
    FAILED_OPEN = "failedOpen"
    """It reached no decision, and the request continues nevertheless."""


class PolicyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one policy of a controller, by one binding."""

    name: str
    """The policy's name."""
    configuration: str = ""
    """What applies the policy, for example the name of its binding."""
    status: OutcomeStatus
    reason: str = ""
    """The reason for the status, for people."""
    denials: tuple[Status, ...] = ()
    """The policy's own denials. If any policy has denials, the user sees these instead of the controller's."""
    operations: tuple[JSONObject, ...] = ()
    """The policy's changes, as JSON Patch. For information only: the controller's own patch is applied."""
    key: str = ""
    """Identifies the policy in the second round of the mutating phase; empty if it did not run."""
    reinvocable: bool = False
    """Whether the policy runs again if a later step changes the object."""
    applied: bool = False
    """Whether the policy's mutations were applied, even if they left the object unchanged."""
    duration_seconds: float = 0.0
    """The policy's duration in seconds; 0 if not measured."""
    endpoint: str = ""
    """The replica that evaluated it, if the controller's policies were divided among replicas; empty otherwise."""
    unmet: tuple[int, ...] = ()
    """The indexes of the validations that were false. Available only within the process."""


class FailureKind(enum.Enum):
    """Why there is no decision."""

    ERROR = "error"
    """The controller raised an error or crashed, or its service could not be called."""
    TIMEOUT = "timeout"
    """The controller exceeded its time limit."""
    UNKNOWN_CONTROLLER = "unknown controller"
    """The service does not host a controller with this name."""


class Allowed(msgspec.Struct, frozen=True):
    """The request is allowed and the object unchanged."""


class Patched(msgspec.Struct, frozen=True):
    """The request is allowed, and JSON Patch operations change the object that the controller received."""

    operations: tuple[JSONObject, ...]


class Denied(msgspec.Struct, frozen=True):
    """The request is denied."""

    status: Status


class Failed(msgspec.Struct, frozen=True):
    """There is no decision: the failure policy decides. ``message`` never contains any part of the reviewed objects."""

    kind: FailureKind
    message: str
    code: int = 503
    """The HTTP code under which the API server's metrics count it."""


OutcomeDecision: TypeAlias = Allowed | Patched | Denied | Failed

ALLOWED = Allowed()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one call to a controller."""

    controller: str
    """The controller's name, as it was called."""
    decision: OutcomeDecision
    """The controller's decision, or why there is none."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = {}
    """Entries for the audit log, with keys as the controller wrote them."""
    duration_seconds: float = 0.0
    """The controller's own duration in seconds; 0 if not measured."""
    policy_outcomes: tuple[PolicyOutcome, ...] = ()
    """The outcomes of the controller's policies, in the order in which they ran."""
    endpoint: str = ""
    """The replica that answered; empty if there is only one."""
    span: tuple[int, int] | None = None
    """The numbers of the policies that were evaluated, as :attr:`Call.span`; None if all were."""
    document: Document | None = None
    """The object after the decision's operations, if a trusted controller in this process already computed it.

    None if the controller ran in another process or changed nothing."""
