"""Match requests against policies and bindings, and find the objects that expressions see as ``params``.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/policy``: ``matching/matching.go`` and
``generic/policy_dispatcher.go`` ``CollectParams``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

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
from pratique.apimachinery.selectors import Selector, compile_selector
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
    """A policy or binding cannot be evaluated for a request; the policy's failure policy decides.

    The API server reports ``failed to configure policy: …`` or ``failed to configure binding: …``.
    """


def find_param_type(kind: ParamKind, cluster: Cluster) -> ResourceType:
    """Find the resource that serves a ``paramKind``.

    Raises:
        PolicySettingError: the cluster serves none.
    """
    group, _, version = kind.api_version.rpartition("/")
    wanted = GroupVersionKind(group, version, kind.kind)
    found = cluster.resources.for_kind(wanted)
    if found is None or found.removed_in is not None:
        raise PolicySettingError(f"failed to find resource referenced by paramKind: '{wanted}'")
    return found


ParamDocuments: TypeAlias = "dict[int, Document]"
"""Parameters as documents, by the identity of their data, so that a conversion of one is made once."""


def collect_params(
    kind: ResourceType | None,
    ref: ParamRef | None,
    namespace: str,
    cluster: Cluster,
    documents: ParamDocuments | None = None,
) -> Sequence[JSON]:
    """Find the parameters of a binding; the policy is evaluated once with each of them.

    Args:
        kind: The resource of the policy's ``paramKind``; None if it has none.
        ref: The binding's ``paramRef``; ignored if the policy has no ``paramKind``.
        namespace: The namespace of the request.
        cluster: The cluster that holds the parameters.
        documents: Those of earlier calls for the same review, to which this adds.

    Returns:
        The parameters; a single null if the policy takes none; nothing if none were found and the binding allows that.

    Raises:
        PolicySettingError: the reference is invalid, or none were found and the binding requires one.
        PendingConversionError: a webhook has to convert a parameter first.
    """
    if kind is None or ref is None:
        return (None,)
    documents = {} if documents is None else documents
    found = [
        _convert_param(documents.setdefault(id(param), Document.from_data(param)), kind, cluster)
        for param in _find_params(kind, ref, _params_namespace(kind, ref, namespace), cluster)
    ]
    if not found and ref.parameter_not_found_action == "Deny":
        raise PolicySettingError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _params_namespace(kind: ResourceType, ref: ParamRef, namespace: str) -> str:
    """The namespace of the parameters; empty if they are cluster-scoped."""
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
        param = cluster.get(group, resource, ref.name, namespace)
        return () if param is None else (param,)
    if ref.selector is None:
        raise PolicySettingError("one of name or selector must be provided")
    try:
        selector = compile_selector(ref.selector)
    except InputError as error:
        raise PolicySettingError(str(error)) from None
    found = cluster.list(group, resource, namespace if kind.namespaced else None)
    return [param for param in found if selector.matches_object(param)]


def _convert_param(param: Document, kind: ResourceType, cluster: Cluster) -> JSON:
    try:
        return convert(param, kind.resource, kind.kind, cluster).data
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
"""Only static policies see requests for these, so that a broken policy can be repaired."""


def is_excluded(resource: GroupVersionResource, *, is_static: bool) -> bool:
    """Whether a policy never sees requests for a resource, in any version."""
    group_resource = (resource.group, resource.resource)
    return group_resource in VIRTUAL_RESOURCES or (group_resource in _POLICIES and not is_static)


class Mismatch(msgspec.Struct, frozen=True):
    """The request does not match."""

    reason: str


class _Rule(msgspec.Struct, frozen=True):
    rules: RuleSet
    names: frozenset[str]
    """The ``resourceNames``; empty matches all objects."""

    def matches(self, key: RequestKey, resource: GroupVersionResource) -> bool:
        return self.rules.matches_request(key.operation, resource, key.subresource, key.namespace)


_EVERY_NAME: frozenset[str] = frozenset()
_CANDIDATE_CACHE_SIZE = 64
"""How many kinds of requests have their matching rules cached in each policy."""

_Candidates: TypeAlias = "tuple[tuple[frozenset[str], MatchedResource | str], ...]"
"""The matching rules in order: each rule's ``resourceNames``, and the resource that the policy sees, or why it cannot
be determined."""


class ResourceMatcher(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Compiled ``matchConstraints`` or ``matchResources``."""

    namespace_selector: SelectorOrStatus
    object_selector: SelectorOrStatus
    is_equivalent: bool
    """Whether a rule for one version of a resource also matches its other versions."""
    _rules: tuple[_Rule, ...]
    _excluded: tuple[_Rule, ...]

    @classmethod
    def compile(cls, resources: MatchResources) -> ResourceMatcher:
        """Compile. An invalid selector becomes an error for each request that matches otherwise."""
        return cls(
            compile_selector_or_status(resources.namespace_selector),
            compile_selector_or_status(resources.object_selector),
            resources.match_policy == "Equivalent",
            _compile_each(resources.resource_rules),
            _compile_each(resources.exclude_resource_rules),
        )

    def may_match(self, key: RequestKey, resources: ApiResources) -> bool:
        """Whether such a request can match, whatever its name, labels and objects."""
        if not self._rules:
            return True
        found = next(self._matching_rules(self._rules, key, resources), None)
        return found is not None

    def matches_requested_resource(self, key: RequestKey) -> bool:
        """Whether a rule without ``resourceNames`` matches the requested resource itself, not an equivalent one."""
        return not self._rules or any(
            rule.matches(key, key.resource) for rule in self._rules if not rule.names
        )

    def match_all(self, key: RequestKey, resources: ApiResources) -> MatchedResource | None:
        """The resource that the policy sees in every such request; None if that depends on names, labels or objects."""
        if not (_selects_everything(self.namespace_selector) and _selects_everything(self.object_selector)):
            return None
        excluded, wanted = self._cached_candidates(key, resources)
        names, matched = wanted[0] if wanted and not excluded else (_EVERY_NAME, None)
        return matched if isinstance(matched, MatchedResource) and not names else None

    def match(self, context: MatchContext) -> MatchedResource | Mismatch:
        """Match a request. Gives the resource that the policy sees, or why it does not match.

        Raises:
            PolicySettingError: a selector is invalid or missing, or the resource cannot be determined.
        """
        # A missing selector is an error even if no rule matches: ``errNilSelector``.
        for selector, name in ((self.namespace_selector, "namespace"), (self.object_selector, "object")):
            if selector is None:
                raise PolicySettingError(
                    f"a nil {name} selector was passed, please ensure selectors are initialized properly"
                )
        in_namespace = context.selects_namespace(self.namespace_selector)
        if in_namespace is False:
            return Mismatch("namespaceSelector does not match the labels of the namespace")
        selected = context.selects_object(self.object_selector)
        if selected is False:
            return Mismatch("objectSelector matches the labels of neither object nor oldObject")
        found = self._match_rules(context)
        for refusal in (in_namespace, selected):
            if isinstance(found, MatchedResource) and isinstance(refusal, Status):
                raise PolicySettingError(refusal.message)
        return found

    def _match_rules(self, context: MatchContext) -> MatchedResource | Mismatch:
        review = context.review
        excluded, wanted = self._cached_candidates(context.request_key, review.cluster.resources)
        if _first_match(excluded, review.name) is not None:
            return Mismatch("excludeResourceRules match")
        found = _first_match(wanted, review.name)
        return Mismatch(self._mismatch_reason(context)) if found is None else found

    @functools.cached_property
    def _cached_candidates(self) -> Callable[[RequestKey, ApiResources], tuple[_Candidates, _Candidates]]:
        """Finds the rules that exclude and that match such a request. Cached, as few kinds of requests occur."""
        return functools.lru_cache(_CANDIDATE_CACHE_SIZE)(self._candidates)

    def _candidates(self, key: RequestKey, resources: ApiResources) -> tuple[_Candidates, _Candidates]:
        excluded = self._matched_resources(self._excluded, key, resources)
        if not self._rules:
            return excluded, ((_EVERY_NAME, MatchedResource(key.resource, key.kind)),)
        return excluded, self._matched_resources(self._rules, key, resources)

    def _matched_resources(
        self, rules: tuple[_Rule, ...], key: RequestKey, resources: ApiResources
    ) -> _Candidates:
        return tuple(
            (rule.names, _matched_resource(key, resource, resources))
            for rule, resource in self._matching_rules(rules, key, resources)
        )

    def _mismatch_reason(self, context: MatchContext) -> str:
        rules = compile_rules(rule for policy_rule in self._rules for rule in policy_rule.rules.rules)
        return rules.mismatch(context.review) or "no rule names the object"

    def _matching_rules(
        self, rules: tuple[_Rule, ...], key: RequestKey, resources: ApiResources
    ) -> Iterator[tuple[_Rule, GroupVersionResource]]:
        """The rules that match the requested resource, then those that match an equivalent one."""
        yield from ((rule, key.resource) for rule in rules if rule.matches(key, key.resource))
        if not self.is_equivalent or not rules:
            return
        others = served_beside(resources, key.resource, key.subresource)
        yield from ((rule, other) for rule in rules for other in others if rule.matches(key, other))


def _selects_everything(selector: SelectorOrStatus) -> bool:
    return isinstance(selector, Selector) and selector.is_empty


def _matched_resource(
    key: RequestKey, resource: GroupVersionResource, resources: ApiResources
) -> MatchedResource | str:
    """The resource that the policy sees, or why it cannot be determined."""
    if resource == key.resource:
        return MatchedResource(resource, key.kind)
    registered = resources.for_resource(resource, key.subresource)
    if registered is None or not registered.kind.kind:
        return f"unable to convert to {resource}: unknown kind"
    return MatchedResource(resource, registered.kind)


def _first_match(candidates: _Candidates, name: str) -> MatchedResource | None:
    for names, matched in candidates:
        if isinstance(matched, str):
            raise PolicySettingError(matched)
        if not names or name in names:
            return matched
    return None


def _compile_each(rules: Iterable[NamedRuleWithOperations]) -> tuple[_Rule, ...]:
    return tuple(_Rule(compile_rules((rule,)), frozenset(rule.resource_names)) for rule in rules)
