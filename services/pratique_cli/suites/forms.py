"""Forms: suites as they are written, member by member. Paths are texts here, and stand where objects may."""

from __future__ import annotations

from typing import Any

import msgspec


class _Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What all forms are like: JSON names in camel case, nothing required. What is null is absent."""


class MetadataForm(_Form, frozen=True):
    """``metadata``."""

    name: str = ""


class RequestForm(_Form, frozen=True):
    """``request``: what a manifest does not say."""

    operation: str = ""
    old: Any = None
    user: str = ""
    groups: tuple[str, ...] = ()
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False


class StepForm(_Form, frozen=True):
    """One of ``steps``: a step of the decision that has these members."""

    controller: str | None = None
    phase: str | None = None
    name: str | None = None
    configuration: str | None = None
    round: int | None = None
    outcome: str | None = None
    reason: str | None = None


class ExpectForm(_Form, frozen=True):
    """``expect``."""

    allowed: bool | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    warnings: tuple[str, ...] | None = None
    audit_annotations: dict[str, str] | None = None
    object: Any = None
    contains: Any = None
    patch: tuple[Any, ...] | None = None
    unchanged: bool | None = None
    steps: tuple[StepForm, ...] | None = None
    expanded: tuple[ExpectForm, ...] | None = None
    fixed_point: bool | None = None


class CaseForm(_Form, frozen=True):
    """One of ``cases``."""

    name: str = ""
    manifest: Any = None
    review: Any = None
    request: RequestForm | None = None
    phase: str = ""
    config: tuple[str, ...] = ()
    cluster: tuple[Any, ...] | None = None
    expect: ExpectForm | None = None


class SuiteForm(_Form, frozen=True):
    """The whole document."""

    api_version: str = ""
    kind: str = ""
    metadata: MetadataForm = MetadataForm()
    config: tuple[str, ...] = ()
    cluster: tuple[Any, ...] | None = None
    flags: dict[str, Any] = {}
    cases: tuple[CaseForm, ...] = ()
