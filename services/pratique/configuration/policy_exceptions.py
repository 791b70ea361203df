"""PolicyExceptions: what they say, and when they end.

A PolicyException exempts requests from named policies, webhooks or controllers until a date. It is Pratique's own kind:
no API server has it. Each part of it narrows what is exempted, and one that names no requests is refused.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re

import msgspec

from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import LabelSelector
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import NamedRuleWithOperations, ObjectMeta
from pratique.configuration.policy_references import PolicyReference


class ExceptionKind(enum.Enum):
    """The kind of exceptions, as an enum like those of policies and webhook configurations."""

    EXCEPTION = "PolicyException"


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user, a group or a service account."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    """The namespace of a ServiceAccount; empty for others."""


class PolicyExceptionSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What is exempted from what, why, and until when. A request must match every part that is there."""

    reason: str = ""
    until: str = ""
    """When it ends: a time as in RFC 3339."""
    policies: tuple[PolicyReference, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Names of namespaces whose objects are exempted."""
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    subjects: tuple[Subject, ...] = ()
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    """Operations, resources and names; without any, all."""


class PolicyExceptionDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A PolicyException as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: PolicyExceptionSpec = PolicyExceptionSpec()


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyException:
    """A PolicyException after validation."""

    name: str
    """Its ``metadata.name``."""
    spec: PolicyExceptionSpec
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """The document that it was read from; None if it was not read from one."""
    kind: ExceptionKind = ExceptionKind.EXCEPTION

    @property
    def ends_at(self) -> float:
        """When it ends, in seconds since 1970."""
        return parse_end(self.spec.until)


_TIME = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_end(text: str) -> float:
    """Return a time as in RFC 3339 in seconds since 1970.

    Raises:
        ValueError: it is not such a time.
    """
    if not _TIME.fullmatch(text):
        raise ValueError("must be a time as in RFC 3339, such as 2030-01-31T00:00:00Z")
    return dt.datetime.fromisoformat(text).timestamp()
