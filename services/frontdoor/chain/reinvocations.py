"""Reinvocation: which webhooks and policies see the object a second time.

The algorithm is that of ``k8s.io/apiserver/pkg/admission/reinvocation.go`` and
``…/plugin/webhook/mutating/reinvocationcontext.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.differences import identical

if TYPE_CHECKING:
    from pratique.json_values import Document


@dataclasses.dataclass(slots=True)
class Reinvocation:
    """Decides about the second round, for one review."""

    wanted: bool = False
    """Whether the mutating phase runs once more."""
    last: Document | None = None
    """The object as the webhooks' last run left it."""
    previously_invoked: set[str] = dataclasses.field(default_factory=set)
    """Webhooks that would run again if the object changed after them."""
    to_reinvoke: set[str] = dataclasses.field(default_factory=set)
    """Webhooks that run in the second round."""

    def begin(self, document: Document, round_number: int) -> None:
        """Note what has changed since the webhooks' last run."""
        if round_number > 0 and (self.last is None or not identical(self.last.data, document.data)):
            self._require_previous()

    def skips(self, uid: str, round_number: int) -> bool:
        """Tell whether a webhook sits this round out."""
        return round_number > 0 and uid not in self.to_reinvoke

    def invoked(self, uid: str, *, changed: bool, if_needed: bool) -> None:
        """Note that a webhook ran. Its own change never brings itself back."""
        if changed:
            self.changed()
        if if_needed:
            self.previously_invoked.add(uid)

    def changed(self) -> None:
        """Note that the object changed: all that ran before and want to see it again do."""
        self._require_previous()
        self.wanted = True

    def end(self, document: Document) -> None:
        """Note how this run leaves the object."""
        self.last = document

    def _require_previous(self) -> None:
        self.to_reinvoke |= self.previously_invoked
        self.previously_invoked.clear()
