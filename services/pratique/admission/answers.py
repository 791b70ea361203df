"""What a controller can answer: a closed set, made by these constructors alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from pratique.apimachinery import statuses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.admission.outcomes import PolicyOutcome
    from pratique.apimachinery.json_values import JSON, JSONObject
    from pratique.apimachinery.statuses import Status


@dataclasses.dataclass(frozen=True, slots=True)
class Allow:
    """Nothing against the request; the object stays as it is."""

    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """Nothing against the request; the object changes by ``operations`` (RFC 6902), or becomes ``new_object``.

    Where both are given, as by :class:`pratique.edits.Edits`, the one leads to the other.
    """

    operations: tuple[JSONObject, ...] | None = None
    new_object: JSON = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """The request is refused."""

    status: Status | None
    """The refusal whole; None where only ``message`` is given, which is then worded as ``NewForbidden`` does."""
    message: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


Answer: TypeAlias = Allow | Patch | Deny
"""What a controller returns."""


def allow(*, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Let the request through unchanged."""
    return Allow(audit_annotations=audit_annotations or {})


def warn(*warnings: str, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Let the request through unchanged and show ``warnings`` to the user."""
    return Allow(warnings=warnings, audit_annotations=audit_annotations or {})


def patch(
    new_object: JSON = None,
    *,
    operations: tuple[JSONObject, ...] | list[JSONObject] | None = None,
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Patch:
    """Let the request through and change the object.

    Give the object as it should be (a changed copy, never the reviewed one changed in place), or the JSON Patch
    ``operations`` that lead there. :class:`pratique.Edits` makes such an answer member by member.

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
    """Refuse the request.

    With a message alone, the user reads ``<resource> "<name>" is forbidden: <message>``, as from any built-in
    controller. With another ``code`` and ``reason`` the message stands as it is. ``status`` is used whole.

    Raises:
        ValueError: neither a message nor a status is given, or both.
    """
    if bool(message) == (status is not None):
        raise ValueError("deny() takes either a message or status=…")
    if status is None and (code, reason) != (403, "Forbidden"):
        status = statuses.failure(code, reason, message)
    return Deny(status, message, warnings, audit_annotations or {})
