"""Matching: whether a webhook is to be called for a review.

The decisions are those of ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go`` ``ShouldCallHook``
and its predicates. Rules are looked at first, because what they say of one review they say of all like it; the
outcome does not depend on it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from pratique import statuses
from pratique.conversions import ConversionError
from pratique.selectors import Selector
from pratique.statuses import Status
from pratique.targets import find_target

if TYPE_CHECKING:
    from frontdoor.chain.match_conditions import MatchConditions
    from pratique.calls import Deadline
    from pratique.resources import Resources
    from pratique.reviews import Review
    from pratique.rules import RuleSet
    from pratique.subjects import Selecting, Subject
    from pratique.targets import Asked, Target


@dataclasses.dataclass(frozen=True, slots=True)
class Matched:
    """The webhook is to be called."""

    review: Review
    """As the webhook wants to see it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """The webhook does not want to see the review."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """It cannot be told whether the webhook wants to see the review, so the request is refused."""

    status: Status
    inconvertible: bool = False
    """The objects cannot be had as the webhook wants them: what mutating ones say of that, they say twice."""


Match: TypeAlias = Matched | Skipped | Refused

_OTHER_NAMESPACE = Skipped("namespaceSelector does not match the labels of the namespace")
_OTHER_OBJECT = Skipped("objectSelector matches the labels of neither object nor oldObject")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """What one webhook wants to see."""

    rules: RuleSet
    equivalent: bool = False
    """Whether rules that name another version of a collection mean it, too."""
    namespace_selector: Selecting
    """Defaulting turns an absent selector into the empty one."""
    object_selector: Selecting
    """Likewise."""
    conditions: MatchConditions | None = None
    """What must be true besides; None for nothing."""
    _any_namespace: bool = dataclasses.field(init=False)
    _any_object: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Note which selectors need not be asked: of most webhooks both, of each review all."""
        object.__setattr__(self, "_any_namespace", _is_everything(self.namespace_selector))
        object.__setattr__(self, "_any_object", _is_everything(self.object_selector))

    def target(self, asked: Asked, resources: Resources) -> Target | None:
        """What the rules say, whatever the objects are: None where the webhook wants none of that."""
        return find_target(self.rules, asked, resources if self.equivalent else None)

    def match(self, subject: Subject, target: Target | None) -> Match:
        """Decide whether the webhook is to be called, as far as its conditions have no say in it.

        ``target`` is what the rules have found.
        """
        if target is None:
            return Skipped(self.rules.mismatch(subject.review))
        in_namespace = self._any_namespace or subject.is_in_namespace(self.namespace_selector)
        if in_namespace is False:
            return _OTHER_NAMESPACE
        selected = self._any_object or subject.is_object(self.object_selector)
        if selected is False:
            return _OTHER_OBJECT
        for refusal in (target.fault, in_namespace, selected):
            if isinstance(refusal, Status):
                return Refused(refusal)
        return _aimed(target, subject)

    async def weigh(self, match: Match, deadline: Deadline) -> Match:
        """Decide as the conditions say, where everything else matches."""
        if self.conditions is None or not isinstance(match, Matched):
            return match
        return await self.conditions.decide(match.review, deadline.at)


def _is_everything(selector: Selecting) -> bool:
    return isinstance(selector, Selector) and selector.is_empty


def _aimed(target: Target, subject: Subject) -> Match:
    try:
        return Matched(subject.aimed(target))
    except ConversionError as error:
        return Refused(statuses.internal_error(str(error)), inconvertible=True)
