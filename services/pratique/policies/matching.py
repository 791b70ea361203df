"""Match requests against policies and bindings, and find the objects that expressions see as ``params``.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/policy``: ``matching/matching.go`` and
``generic/policy_dispatcher.go`` ``CollectParams``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from pratique.admission.matching import (
    MatchContext,
    MatchedResource,
    RequestKey,
    SelectorOrStatus,
    compile_selector_or_status,
)
from pratique.admission.rules import RuleSet, compile_rules
from pratique.apimachinery.errors import ConversionError, InputError, PratiqueError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.apimachinery.selectors import compile_selector
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, ApiResources
from pratique.cluster.conversion import convert
from pratique.cluster.served_versions import served_beside
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    MatchResources,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
)


class PolicySettingError(PratiqueError):
    """A policy or binding cannot be used for a request: the policy's failure policy decides.

    ``failed to configure policy: …`` and ``failed to configure binding: …`` in the API server.
    """


def find_param_type(kind: ParamKind, cluster: Cluster) -> ResourceType:
    """Find the collection of a kind of parameters.

    Raises:
        SettingError: the cluster has none.
    """
    group, _, version = kind.api_version.rpartition("/")
    wanted = GroupVersionKind(group, version, kind.kind)
    found = cluster.resources.for_kind(wanted)
    if found is None or found.removed_in is not None:
        raise PolicySettingError(f"failed to find resource referenced by paramKind: '{wanted}'")
    return found


def collect_params(
    kind: ResourceType | None, ref: ParamRef | None, namespace: str, cluster: Cluster
) -> Sequence[JSON]:
    """Find the parameters that a binding means: the policy is evaluated once with each of them.

    Args:
        kind: The collection that the policy's parameters are in; None where it has none.
        ref: What the binding says of them; it is ignored where the policy has none.
        namespace: The request's.
        cluster: Where they are.

    Returns:
        The parameters; one that is null where there are to be none, and nothing where none were found and the
        binding lets that pass.

    Raises:
        SettingError: they cannot be found, and must be.
    """
    if kind is None or ref is None:
        return (None,)
    found = [
        _in_version(each, kind, cluster)
        for each in _find_params(kind, ref, _place(kind, ref, namespace), cluster)
    ]
    if not found and ref.parameter_not_found_action == "Deny":
        raise PolicySettingError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _place(kind: ResourceType, ref: ParamRef, namespace: str) -> str:
    """The namespace to look in; empty for parameters that are in none."""
    if not kind.namespaced:
        if ref.namespace:
            raise PolicySettingError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        return ""
    if not ref.namespace and not namespace:
        text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise PolicySettingError(text)
    return ref.namespace or namespace


def _find_params(kind: ResourceType, ref: ParamRef, namespace: str, cluster: Cluster) -> Sequence[JSONObject]:
    group, resource = kind.resource.group, kind.resource.resource
    if ref.name:
        one = cluster.get(group, resource, ref.name, namespace)
        return () if one is None else (one,)
    if ref.selector is None:
        raise PolicySettingError("one of name or selector must be provided")
    try:
        selector = compile_selector(ref.selector)
    except InputError as error:
        raise PolicySettingError(str(error)) from None
    found = cluster.list(group, resource, namespace if kind.namespaced else None)
    return [each for each in found if selector.matches_object(each)]


def _in_version(param: JSONObject, kind: ResourceType, cluster: Cluster) -> JSON:
    try:
        return convert(Document.from_data(param), kind.resource, kind.kind, cluster).data
    except ConversionError as error:
        raise PolicySettingError(str(error)) from None


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
        excluded, wanted = self._known(subject.request_key, review.cluster.resources)
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


def _target(
    asked: RequestKey, resource: GroupVersionResource, resources: ApiResources
) -> MatchedResource | str:
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
