"""Which requests a policy or binding matches, and which it never sees."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, TypeAlias

from pratique.admission.label_subjects import compile_selector_or_status
from pratique.admission.matched_resources import RequestKey, MatchedResource
from pratique.admission.rules import compile_rules
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import VIRTUAL_RESOURCES
from pratique.cluster.served_versions import served_beside
from pratique.policies.params import PolicySettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pratique.admission.label_subjects import SelectorOrStatus, MatchContext
    from pratique.admission.rules import RuleSet
    from pratique.apimachinery.kinds import GroupVersionResource
    from pratique.cluster.api_resources import ApiResources
    from pratique.configuration.policies import MatchResources, NamedRuleWithOperations

_POLICIES = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    }
)
"""Seen by none but static policies, so that a broken policy can be repaired."""


def is_excluded(resource: GroupVersionResource, *, is_static: bool) -> bool:
    """Tell whether a policy never sees requests for a collection, in whatever version."""
    asked = (resource.group, resource.resource)
    return asked in VIRTUAL_RESOURCES or (asked in _POLICIES and not is_static)


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """The request is not meant."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Rule:
    rules: RuleSet
    names: frozenset[str]
    """Of the objects that are meant; empty where all are."""

    def wants(self, asked: RequestKey, resource: GroupVersionResource) -> bool:
        return self.rules.matches_request(asked.operation, resource, asked.subresource, asked.namespace)


_EVERY_NAME: frozenset[str] = frozenset()
_REMEMBERED = 64
"""Kinds of requests whose rules are remembered by each policy."""

_Candidates: TypeAlias = "tuple[tuple[frozenset[str], MatchedResource | str], ...]"
"""The rules that match, in their order: the names of the objects that each means, and what the request is seen as, or
why that cannot be told."""


@dataclasses.dataclass(frozen=True, eq=False)
class ResourceMatcher:
    """The requests that a policy or binding means, made ready to be asked for many of them."""

    namespace_selector: SelectorOrStatus
    object_selector: SelectorOrStatus
    is_equivalent: bool
    """Whether rules that name another version of a collection mean it, too."""
    _rules: tuple[_Rule, ...]
    _excluded: tuple[_Rule, ...]

    @classmethod
    def compile(cls, resources: MatchResources) -> ResourceMatcher:
        """Make ready. A selector that cannot be used is an error of each request that is meant otherwise."""
        return cls(
            compile_selector_or_status(resources.namespace_selector),
            compile_selector_or_status(resources.object_selector),
            resources.match_policy == "Equivalent",
            _rules(resources.resource_rules),
            _rules(resources.exclude_resource_rules),
        )

    def may_match(self, asked: RequestKey, resources: ApiResources) -> bool:
        """Tell whether such a request can be meant, whatever its name, labels and objects are."""
        if not self._rules:
            return True
        found = next(self._wanted(self._rules, asked, resources), None)
        return found is not None

    def means_literally(self, asked: RequestKey) -> bool:
        """Tell whether rules mean such a request by the collection that was asked for, whatever object they name."""
        return not self._rules or any(
            rule.wants(asked, asked.resource) for rule in self._rules if not rule.names
        )

    def match(self, subject: MatchContext) -> MatchedResource | Mismatch:
        """Tell as what the request is meant, if it is.

        Raises:
            SettingError: that cannot be told.
        """
        # Without selectors, there is nothing that rules could put right: ``errNilSelector``.
        for selector, name in ((self.namespace_selector, "namespace"), (self.object_selector, "object")):
            if selector is None:
                raise PolicySettingError(
                    f"a nil {name} selector was passed, please ensure selectors are initialized properly"
                )
        in_namespace = subject.selects_namespace(self.namespace_selector)
        if in_namespace is False:
            return Mismatch("namespaceSelector does not match the labels of the namespace")
        selected = subject.selects_object(self.object_selector)
        if selected is False:
            return Mismatch("objectSelector matches the labels of neither object nor oldObject")
        found = self._match_rules(subject)
        for refusal in (in_namespace, selected):
            if isinstance(found, MatchedResource) and isinstance(refusal, Status):
                raise PolicySettingError(refusal.message)
        return found

    def _match_rules(self, subject: MatchContext) -> MatchedResource | Mismatch:
        review = subject.review
        excluded, wanted = self._known(subject.asked, review.cluster.resources)
        if _first_target(excluded, review.name) is not None:
            return Mismatch("excludeResourceRules match")
        found = _first_target(wanted, review.name)
        return Mismatch(self._why_not(subject)) if found is None else found

    @functools.cached_property
    def _known(self) -> Callable[[RequestKey, ApiResources], tuple[_Candidates, _Candidates]]:
        """Gives the rules that exclude such a request and those that mean it, remembered: few kinds are asked for."""
        return functools.lru_cache(_REMEMBERED)(self._candidates)

    def _candidates(self, asked: RequestKey, resources: ApiResources) -> tuple[_Candidates, _Candidates]:
        excluded = self._targets(self._excluded, asked, resources)
        if not self._rules:
            return excluded, ((_EVERY_NAME, MatchedResource(asked.resource, asked.kind)),)
        return excluded, self._targets(self._rules, asked, resources)

    def _targets(self, rules: tuple[_Rule, ...], asked: RequestKey, resources: ApiResources) -> _Candidates:
        return tuple(
            (rule.names, _target(asked, resource, resources))
            for rule, resource in self._wanted(rules, asked, resources)
        )

    def _why_not(self, subject: MatchContext) -> str:
        every = compile_rules(rule for one in self._rules for rule in one.rules.rules)
        return every.mismatch(subject.review) or "no rule names the object"

    def _wanted(
        self, rules: tuple[_Rule, ...], asked: RequestKey, resources: ApiResources
    ) -> Iterator[tuple[_Rule, GroupVersionResource]]:
        """The rules that match by the collection that was asked for, all of them; then those by an equivalent."""
        yield from ((rule, asked.resource) for rule in rules if rule.wants(asked, asked.resource))
        if not self.is_equivalent or not rules:
            return
        others = served_beside(resources, asked.resource, asked.subresource)
        yield from ((rule, other) for rule in rules for other in others if rule.wants(asked, other))


def _target(asked: RequestKey, resource: GroupVersionResource, resources: ApiResources) -> MatchedResource | str:
    """What a request is seen as, or why that cannot be told."""
    if resource == asked.resource:
        return MatchedResource(resource, asked.kind)
    registered = resources.for_resource(resource, asked.subresource)
    if registered is None or not registered.kind.kind:
        return f"unable to convert to {resource}: unknown kind"
    return MatchedResource(resource, registered.kind)


def _first_target(candidates: _Candidates, name: str) -> MatchedResource | None:
    for names, target in candidates:
        if isinstance(target, str):
            raise PolicySettingError(target)
        if not names or name in names:
            return target
    return None


def _rules(rules: Iterable[NamedRuleWithOperations]) -> tuple[_Rule, ...]:
    return tuple(_Rule(compile_rules((rule,)), frozenset(rule.resource_names)) for rule in rules)
