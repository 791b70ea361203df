"""MutationAllowLists: which fields policies and webhooks may change, and what happens if they change others.

A MutationAllowList is Pratique's own kind: no API server has it. Without one, what mutates may change every field.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import msgspec

from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import unescape
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import ObjectMeta
from pratique.configuration.policy_references import (
    PolicyReference,
    PolicyReferenceKind,
    validate_policy_references,
)


class AllowListKind(enum.Enum):
    """The kind of allow-lists, as an enum like those of policies and webhook configurations."""

    ALLOW_LIST = "MutationAllowList"


class ViolationAction(enum.StrEnum):
    """What happens to a mutation that changes a field that is not listed."""

    FAIL = "Fail"
    """It is a failure of what mutates, so its failure policy decides."""
    DROP = "Drop"
    """The fields keep their values, and the rest of the mutation is applied."""


class MutationAllowListSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What may change which fields."""

    policies: tuple[PolicyReference, ...] = ()
    """What mutates: policies, webhooks or controllers."""
    fields: tuple[str, ...] = ()
    """JSON Pointers to what may change, with ``*`` for any member or item, and ``-`` for new items."""
    violation_action: str = ""
    """One of :class:`ViolationAction`."""


class MutationAllowListDocument(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A MutationAllowList as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: MutationAllowListSpec = MutationAllowListSpec()


@dataclasses.dataclass(frozen=True, slots=True)
class MutationAllowList:
    """A MutationAllowList after validation."""

    name: str
    """Its ``metadata.name``."""
    spec: MutationAllowListSpec
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """The document that it was read from; None if it was not read from one."""
    kind: AllowListKind = AllowListKind.ALLOW_LIST

    @property
    def action(self) -> ViolationAction:
        """What happens to a mutation that changes a field that is not listed."""
        return ViolationAction(self.spec.violation_action)


ANY = "*"
"""The step of a pattern that matches every member and item; at the end of a step, every rest of a name."""
NEW_ITEM = "-"
"""The last step of a pattern that matches items that were not in the list."""
_MAXIMUM_STEPS = 32
"""Deeper than every field of Kubernetes but those of schemas. Comparing two objects goes as deep as the patterns."""


def pattern_steps(pattern: str) -> tuple[str, ...]:
    """Return the steps of a valid pattern."""
    return tuple(map(unescape, pattern.split("/")[1:]))


def step_matches(step: str, name: str) -> bool:
    """Return whether a step of a pattern matches the name of a member."""
    return step == name or (step.endswith(ANY) and name.startswith(step[:-1]))


def validate_allow_list(document: MutationAllowListDocument) -> list[FieldError]:
    """Validate an allow-list."""
    from pratique.configuration.webhook_validation import validate_metadata  # noqa: PLC0415 - brings CEL

    spec, path = document.spec, ROOT / "spec"
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    errors += validate_policy_references(spec.policies, path / "policies", concerns="concerns")
    errors += _validate_kinds(spec.policies, path / "policies")
    if not spec.fields:
        errors.append(required(path / "fields"))
    for index, pattern in enumerate(spec.fields):
        if fault := _pattern_fault(pattern):
            errors.append(invalid(path / "fields" / index, pattern, fault))
    if not spec.violation_action:
        errors.append(required(path / "violationAction"))
    elif spec.violation_action not in list(ViolationAction):
        errors.append(not_supported(path / "violationAction", spec.violation_action, ViolationAction))
    return errors


_VALIDATING = (PolicyReferenceKind.VALIDATING_POLICY, PolicyReferenceKind.VALIDATING_WEBHOOK)


def _validate_kinds(references: Sequence[PolicyReference], path: FieldPath) -> list[FieldError]:
    return [
        invalid(path / index / "kind", reference.kind, "changes nothing, so no field has to be allowed")
        for index, reference in enumerate(references)
        if reference.kind in _VALIDATING
    ]


def _pattern_fault(pattern: str) -> str:
    """Say what is wrong with a pattern; empty if it is valid."""
    written = pattern.split("/")[1:]
    faults = (
        (
            not pattern.startswith("/") or pattern == "/",
            "must be a JSON Pointer to a field, such as /metadata/labels/team",
        ),
        (
            any("~" in step.replace("~0", "").replace("~1", "") for step in written),
            "~ must be written as ~0, and / in a name as ~1",
        ),
        ("" in written, "must not have an empty step"),
        (len(written) > _MAXIMUM_STEPS, f"must have at most {_MAXIMUM_STEPS} steps"),
        (
            NEW_ITEM in written[:-1],
            "- stands for new items as a whole, so it must be the last step; write * for items that are there",
        ),
        (any(ANY in step[:-1] for step in written), "* must be a whole step, or the end of one"),
    )
    return next((text for holds, text in faults if holds), "")
