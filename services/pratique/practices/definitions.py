"""What a good practice is, and a breach of one."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeAlias

from pratique.configurations.webhooks import WebhookConfiguration
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pratique.configurations.policies import BindingSpec, Configured, PolicySpec
    from pratique.field_errors import Step
    from pratique.practices.subjects import Subject

    Owner: TypeAlias = WebhookConfiguration | Configured[PolicySpec | BindingSpec]


class Severity(enum.Enum):
    """How much harm there is in not following a practice."""

    ERROR = "error"
    """It will break a cluster, or what is configured cannot work."""
    WARNING = "warning"
    """It will hurt once something else goes wrong."""
    INFO = "info"
    """A choice that has its reasons, and a price."""


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """One place where a practice is not followed."""

    owner: Owner
    """The configuration, policy or binding."""
    path: tuple[Step, ...]
    """The field, such as ``("webhooks", 0, "timeoutSeconds")``."""
    text: str
    """What is there, and what comes of it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Practice:
    """A named rule."""

    rule: str
    """Its name, in kebab-case."""
    severity: Severity
    explanation: str
    """One sentence: why it is a rule."""
    fix: str
    """One sentence: what to write instead."""
    check: Callable[[Subject], Iterable[Breach]]
    """Finds where it is not followed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A practice that is not followed, and where."""

    practice: Practice
    breach: Breach

    def __str__(self) -> str:
        """Two lines: place, rule, whose field it is and what is there; and what to do."""
        return f"{self.told(self.practice.severity)}\n    fix: {self.practice.fix}"

    def told(self, severity: Severity) -> str:
        """The first of those lines, with a severity of the teller's."""
        breach = self.breach
        line = f"{severity.value}: {self.practice.rule}: {_whose(breach)}: {breach.text}"
        source = breach.owner.source
        return line if source is None else str(source.fault(breach.path, line))


def _whose(breach: Breach) -> str:
    owner: Owner = breach.owner
    named = f"{owner.kind.value} {go_quoted(owner.name)}"
    match breach.path:
        case ("webhooks", int(index), *_) if isinstance(owner, WebhookConfiguration):
            return f"webhook {go_quoted(owner.webhooks[index].name)} of {named}"
        case _:
            return named
