"""Trials: what becomes of a request while the servers behind all webhooks are down.

Practices ask for it and do not know how it is found out: chains run on a floor above.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pratique.configurations.webhooks import ConfigurationKind
    from pratique.reviews import Review


class HookName(NamedTuple):
    """Which webhook is meant."""

    kind: ConfigurationKind
    configuration: str
    webhook: str


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """What came of a request."""

    refusing: frozenset[HookName] = frozenset()
    """The webhooks whose silence refuses it, each by itself."""
    passed_over: frozenset[HookName] = frozenset()
    """Those that it goes on without, once it has waited for them."""


class Trial(Protocol):
    """Puts requests to a chain whose webhooks do not answer."""

    @property
    def controllers(self) -> frozenset[str]:
        """The names of the admission controllers that are on."""

    def reached(self, review: Review) -> frozenset[HookName]:
        """Which webhooks would be called for a request, each by itself, or refuse it without being called."""

    def __call__(self, review: Review) -> Tried:
        """Try one request. Nothing is called, stored or charged for it."""
