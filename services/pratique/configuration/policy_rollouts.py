"""PolicyRollouts: whether policies are enforced, everywhere, for a share of the namespaces, or nowhere yet.

A PolicyRollout puts policies, webhooks or controllers in shadow: they decide, and what they say has no effect. It is
Pratique's own kind: no API server has it. Without one, a policy is enforced.
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
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.selectors import LabelSelector
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import ObjectMeta
from pratique.configuration.policy_references import (
    PolicyReference,
    PolicyReferenceKind,
    validate_policy_references,
)


class RolloutKind(enum.Enum):
    """The kind of rollouts, as an enum like those of policies and webhook configurations."""

    ROLLOUT = "PolicyRollout"


class RolloutMode(enum.StrEnum):
    """How far a rollout has come."""

    SHADOW = "Shadow"
    """Decides, and is enforced nowhere."""
    CANARY = "Canary"
    """Is enforced for some namespaces, and in shadow for all others."""
    ENFORCE = "Enforce"
    """Is enforced everywhere, as without a rollout."""


class PolicyRolloutSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What is rolled out, and how far. A canary's namespace must match every part that is there."""

    mode: str = ""
    """One of :class:`RolloutMode`."""
    policies: tuple[PolicyReference, ...] = ()
    percent: int | None = None
    """The share of namespaces for which a canary is enforced, from 1 to 100; None means no share."""
    namespaces: tuple[str, ...] = ()
    """Names of namespaces for which a canary is enforced."""
    namespace_selector: LabelSelector | None = None
    """Selects the namespaces for which a canary is enforced."""


class PolicyRolloutDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A PolicyRollout as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: PolicyRolloutSpec = PolicyRolloutSpec()


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyRollout:
    """A PolicyRollout after validation."""

    name: str
    """Its ``metadata.name``."""
    spec: PolicyRolloutSpec
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """The document that it was read from; None if it was not read from one."""
    kind: RolloutKind = RolloutKind.ROLLOUT

    @property
    def mode(self) -> RolloutMode:
        """How far it has come."""
        return RolloutMode(self.spec.mode)


_WITH_EFFECTS = {
    "NamespaceAutoProvision": "creates namespaces",
    "ResourceQuota": "charges quotas",
}
"""Controllers whose work is more than an answer, and what it is: nothing of it can be held back."""
_NO_SHARE = (
    "at least one of percent, namespaces and namespaceSelector must say for which namespaces it is enforced"
)


def validate_policy_rollout(document: PolicyRolloutDocument) -> list[FieldError]:
    """Validate a rollout."""
    from pratique.configuration.exception_validation import (  # noqa: PLC0415 - services without any validate none
        validate_namespaces,
        validate_narrow_selector,
    )
    from pratique.configuration.webhook_validation import validate_metadata  # noqa: PLC0415 - likewise

    spec, path = document.spec, ROOT / "spec"
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    if not spec.mode:
        errors.append(required(path / "mode"))
    elif spec.mode not in list(RolloutMode):
        errors.append(not_supported(path / "mode", spec.mode, RolloutMode))
    errors += validate_policy_references(spec.policies, path / "policies", concerns="concerns")
    errors += _validate_effects(spec.policies, path / "policies")
    errors += _validate_share(spec, path)
    errors += validate_namespaces(spec.namespaces, path / "namespaces")
    return errors + validate_narrow_selector(spec.namespace_selector, path / "namespaceSelector")


def _validate_effects(references: Sequence[PolicyReference], path: FieldPath) -> list[FieldError]:
    return [
        invalid(
            path / index / "name", reference.name, f"{_WITH_EFFECTS[reference.name]}, which no shadow can do"
        )
        for index, reference in enumerate(references)
        if reference.kind == PolicyReferenceKind.CONTROLLER and reference.name in _WITH_EFFECTS
    ]


def _validate_share(spec: PolicyRolloutSpec, path: FieldPath) -> list[FieldError]:
    """Validate that a canary has a share, and nothing else has one."""
    share = {
        "percent": spec.percent,
        "namespaces": spec.namespaces or None,
        "namespaceSelector": spec.namespace_selector,
    }
    given = [name for name, value in share.items() if value is not None]
    if spec.mode != RolloutMode.CANARY:
        return [forbidden(path / name, "only mode Canary is enforced for some namespaces") for name in given]
    errors = [] if given else [required(path, _NO_SHARE)]
    if spec.percent is not None and not 1 <= spec.percent <= 100:
        errors.append(invalid(path / "percent", spec.percent, "must be from 1 to 100"))
    return errors
