"""Lint rules, the violations that they find, the context that they check, and the comments that suppress them."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.admission.rule_checks import RuleChecker
from pratique.admission.rules import Rule, compile_rules
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType, parse_api_version
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import EVERYTHING, compile_selector, labels_of
from pratique.apimachinery.source_documents import SourceDocument, YamlOrigin
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    ParamKind,
    ParamRef,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicySpec,
    ServiceReference,
    Webhook,
    WebhookConfiguration,
    WebhookConfigurationKind,
)
from pratique.configuration.loading import Configurations
from pratique.configuration.mutation_allow_lists import MutationAllowList
from pratique.configuration.policy_exceptions import PolicyException
from pratique.configuration.policy_rollouts import PolicyRollout
from pratique.lint.outage_simulation import (
    AssumedCluster,
    BackendService,
    OutageResult,
    OutageSimulator,
    StartupRequest,
    WebhookName,
    backend_service,
    startup_requests,
)
from pratique.lint.sample_requests import SampleRequest

_OwnDocument: TypeAlias = "PolicyException | PolicyRollout | MutationAllowList"
Owner: TypeAlias = "WebhookConfiguration | PolicyConfiguration[PolicySpec | PolicyBindingSpec] | _OwnDocument"


ADMISSION_GROUP = "admissionregistration.k8s.io"
ADMISSION_RESOURCES = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)
"""The resources that configure admission itself."""


class Severity(enum.Enum):
    """How much harm a violation does."""

    ERROR = "error"
    """It can break a cluster, or the configuration cannot work."""
    WARNING = "warning"
    """It does harm once something else goes wrong."""
    INFO = "info"
    """A legitimate choice with a cost."""


class Violation(msgspec.Struct, frozen=True):
    """A place where a configuration violates a rule."""

    owner: Owner
    """The configuration, policy, binding, exception, rollout or allow-list."""
    path: tuple[Step, ...]
    """The field, such as ``("webhooks", 0, "timeoutSeconds")``."""
    text: str
    """What is wrong, and what follows from it."""


class LintRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of good practice, and the function that finds its violations."""

    name: str
    """The name of the rule, in kebab-case."""
    severity: Severity
    explanation: str
    """One sentence: why the rule exists."""
    fix: str
    """One sentence: how to fix a violation."""
    check: Callable[[LintContext], Iterable[Violation]]
    """Finds the violations."""


class LintFinding(msgspec.Struct, frozen=True):
    """A violation with its rule."""

    lint_rule: LintRule
    violation: Violation

    def __str__(self) -> str:
        """Two lines: location, severity, rule, object and problem; then the fix."""
        return f"{self.line(self.lint_rule.severity)}\n    fix: {self.lint_rule.fix}"

    @property
    def subject(self) -> str:
        """The webhook or object, such as ``webhook "a" of MutatingWebhookConfiguration "b"``."""
        return _object_name(self.violation)

    def line(self, severity: Severity) -> str:
        """The first of those lines, with the given severity."""
        violation = self.violation
        line = f"{severity.value}: {self.lint_rule.name}: {self.subject}: {violation.text}"
        source = violation.owner.source
        return line if source is None else str(source.fault(violation.path, line))


def _object_name(violation: Violation) -> str:
    owner: Owner = violation.owner
    named = f"{owner.kind.value} {go_quoted(owner.name)}"
    match violation.path:
        case ("webhooks", int(index), *_) if isinstance(owner, WebhookConfiguration):
            return f"webhook {go_quoted(owner.webhooks[index].name)} of {named}"
        case _:
            return named


_SAMPLE_NAMESPACE = "default"
"""The namespace of namespaced requests; rules match all namespaces alike."""


class ConfiguredWebhook(msgspec.Struct, frozen=True):
    """A webhook, and its position in its configuration."""

    owner: WebhookConfiguration
    index: int
    webhook: Webhook

    def __str__(self) -> str:
        return f"webhook {go_quoted(self.webhook.name)} of {go_quoted(self.owner.name)}"

    @property
    def mutates(self) -> bool:
        """Whether it belongs to a MutatingWebhookConfiguration."""
        return self.owner.kind is WebhookConfigurationKind.MUTATING

    @property
    def fails_closed(self) -> bool:
        """Whether requests are denied if it does not answer."""
        return self.webhook.failure_policy == "Fail"

    @property
    def service(self) -> ServiceReference | None:
        """The Service that it is called at; None if it is called by URL."""
        return self.webhook.client_config.service

    @property
    def backend(self) -> BackendService | None:
        """The Service that it is called at, by reference or by URL; None if it runs outside the cluster."""
        return backend_service(self.webhook.client_config)

    @property
    def name(self) -> WebhookName:
        """The identity of the webhook in simulated outages."""
        return WebhookName(self.owner.kind, self.owner.name, self.webhook.name)

    def violation(self, text: str, *path: Step) -> Violation:
        """Make a violation at one of its fields."""
        return Violation(self.owner, ("webhooks", self.index, *path), text)


class LintContext:
    """Everything that a rule may look at: the configurations, the cluster, the time, and simulated outages."""

    def __init__(
        self, configurations: Configurations, cluster: Cluster, simulator: OutageSimulator, now: float
    ) -> None:
        """Look at configurations in a cluster at the time ``now``, in seconds since 1970.

        ``simulator`` tells what becomes of a request while the servers of all webhooks are down.
        """
        self.configurations = configurations
        self._simulator = simulator
        self._controllers = simulator.controllers
        self._versions: dict[int, tuple[SampleRequest, ...]] = {}
        self._reached: dict[int, tuple[Review, frozenset[WebhookName]]] = {}
        self._matching_requests: dict[tuple[Rule, ...], frozenset[int]] = {}
        self.cluster = AssumedCluster(cluster)
        self.now = now
        self.mutating = _configured_webhooks(configurations.mutating)
        """The mutating webhooks, in the order in which they are called."""
        self.validating = _configured_webhooks(configurations.validating)

    @property
    def hooks(self) -> tuple[ConfiguredWebhook, ...]:
        """All webhooks."""
        return self.mutating + self.validating

    @property
    def policies(self) -> tuple[PolicyConfiguration[PolicySpec], ...]:
        """All policies."""
        return (*self.configurations.mutating_policies, *self.configurations.validating_policies)

    @property
    def bindings(self) -> tuple[PolicyConfiguration[PolicyBindingSpec], ...]:
        """All bindings."""
        return (*self.configurations.mutating_bindings, *self.configurations.validating_bindings)

    @functools.cached_property
    def futile_rules(self) -> RuleChecker:
        """The finder of rules that match nothing in the cluster."""
        return RuleChecker(self.cluster.resources)

    def matched(self, rules: Iterable[Rule]) -> frozenset[tuple[ResourceType, str]]:
        """All pairs of resource and operation that any of the rules matches, removed resources included."""
        return frozenset().union(*(self.futile_rules.matched(rule) for rule in rules))

    def runs(self, controller: str) -> bool:
        """Whether an admission controller is enabled."""
        return controller in self._controllers

    @property
    def owners(self) -> Iterator[Owner]:
        """All configurations, policies and bindings."""
        yield from self.configurations.mutating
        yield from self.configurations.validating
        yield from self.policies
        yield from self.bindings

    @property
    def all_rules(self) -> Iterator[tuple[Owner, tuple[Step, ...], Sequence[Rule]]]:
        """The rules of all webhooks and policies: owner, path of the field, rules."""
        for hook in self.hooks:
            yield hook.owner, ("webhooks", hook.index, "rules"), hook.webhook.rules
        for policy in self.policies:
            if policy.spec.match_constraints is not None:
                path = ("spec", "matchConstraints", "resourceRules")
                yield policy, path, policy.spec.match_constraints.resource_rules

    @functools.cached_property
    def scales(self) -> frozenset[tuple[str, str]]:
        """Pairs of group and ``resource/scale`` for all resources that have the subresource ``scale``."""
        return frozenset(
            (type_.resource.group, f"{type_.resource.resource}/scale")
            for type_ in self.cluster.resources
            if type_.subresource == "scale"
        )

    def selects(self, hook: ConfiguredWebhook, namespace: str) -> bool:
        """Whether the rules and the namespaceSelector of a webhook select anything in a namespace."""
        if not any(type_.namespaced for type_, _ in self.matched(hook.webhook.rules)):
            return False
        labels = labels_of(self.cluster.get("", "namespaces", namespace)) or {}
        return compile_selector(hook.webhook.namespace_selector or EVERYTHING).matches(labels)

    @property
    def is_described(self) -> bool:
        """Whether the user described the cluster."""
        return self.cluster.is_described

    def params(self, kind: ParamKind, ref: ParamRef) -> Iterator[JSONObject]:
        """Yield the parameter objects of a binding, from all namespaces if it names none."""
        of_kind = GroupVersionKind(*parse_api_version(kind.api_version), kind.kind)
        type_ = self.cluster.resources.for_kind(of_kind)
        if type_ is None:
            return
        selector = compile_selector(ref.selector) if ref.selector is not None else None
        for param in self.cluster.list(type_.resource.group, type_.resource.resource, ref.namespace or None):
            if selector.matches_object(param) if selector else member(param, "metadata", "name") == ref.name:
                yield param

    @functools.cached_property
    def requests(self) -> tuple[tuple[Operation, ResourceType], ...]:
        """Every kind of request: each operation on each resource and subresource that is still served."""
        return tuple(
            (operation, type_)
            for type_ in self.cluster.resources
            if type_.served and type_.removed_in is None
            for operation in Operation
        )

    @functools.cached_property
    def backends(self) -> tuple[BackendService, ...]:
        """The Services that webhooks are called at, without duplicates."""
        return tuple(dict.fromkeys(hook.backend for hook in self.hooks if hook.backend is not None))

    @functools.cached_property
    def _starts(self) -> Mapping[BackendService, tuple[tuple[StartupRequest, OutageResult], ...]]:
        """For each server, the requests that it needs to start, with their results."""
        return {
            backend: tuple(
                (request, self._simulator(request.review))
                for request in startup_requests(backend, self.cluster)
            )
            for backend in self.backends
        }

    def denied_starts(self, hook: ConfiguredWebhook, backend: BackendService) -> list[StartupRequest]:
        """List the requests that a server needs to start and that the outage of a webhook denies."""
        return [request for request, tried in self._starts[backend] if hook.name in tried.refusing]

    def refusing(self, backend: BackendService) -> list[ConfiguredWebhook]:
        """List the webhooks whose outage denies the start of a server, in the order of :attr:`hooks`."""
        names = {name for _, tried in self._starts[backend] for name in tried.refusing}
        found = [hook for name in names for hook in self._by_name.get(name, ())]
        return sorted(found, key=lambda hook: self._order[id(hook)])

    @functools.cached_property
    def _by_name(self) -> Mapping[WebhookName, list[ConfiguredWebhook]]:
        """Webhooks by name; webhooks of v1beta1 may share a name."""
        found: dict[WebhookName, list[ConfiguredWebhook]] = {}
        for hook in self.hooks:
            found.setdefault(hook.name, []).append(hook)
        return found

    @functools.cached_property
    def _order(self) -> Mapping[int, int]:
        return {id(hook): index for index, hook in enumerate(self.hooks)}

    def versions(self, sample: SampleRequest) -> tuple[SampleRequest, ...]:
        """A sample request in every served version of its resource."""
        if id(sample) not in self._versions:
            self._versions[id(sample)] = tuple(sample.versions(self.cluster.resources))
        return self._versions[id(sample)]

    def is_reached(self, hook: ConfiguredWebhook, review: Review) -> bool:
        """Whether the chain would call a webhook for a request, or the webhook would deny it without a call."""
        key = id(review)
        if key not in self._reached:
            self._reached[key] = (review, self._simulator.reached(review))
        return hook.name in self._reached[key][1]

    def delayed_starts(self, hook: ConfiguredWebhook, backend: BackendService) -> list[StartupRequest]:
        """List the requests that a server needs to start and that wait for a webhook's timeout."""
        return [request for request, tried in self._starts[backend] if hook.name in tried.passed_over]

    def matching_requests(self, rules: Iterable[Rule]) -> frozenset[int]:
        """The indexes of :attr:`requests` that any of the rules matches, regardless of selectors."""
        key = tuple(rules)
        if key not in self._matching_requests:
            self._matching_requests[key] = self._find_matching_requests(key)
        return self._matching_requests[key]

    def _find_matching_requests(self, rules: tuple[Rule, ...]) -> frozenset[int]:
        compiled = compile_rules(rules)
        return frozenset(
            index
            for index, (operation, type_) in enumerate(self.requests)
            if compiled.matches_request(
                operation, type_.resource, type_.subresource, _SAMPLE_NAMESPACE if type_.namespaced else ""
            )
        )


def _configured_webhooks(configurations: Iterable[WebhookConfiguration]) -> tuple[ConfiguredWebhook, ...]:
    return tuple(
        ConfiguredWebhook(owner, index, webhook)
        for owner in configurations
        for index, webhook in enumerate(owner.webhooks)
    )


def run_rules(lint_rules: Iterable[LintRule], context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings of some rules that no comment suppresses."""
    for lint_rule in lint_rules:
        for violation in lint_rule.check(context):
            if not is_suppressed(violation.owner.source, violation.path, lint_rule.name):
                yield LintFinding(lint_rule, violation)


_SUPPRESSION_PREFIX = b"pratique:"
_CACHED_FILES = 8
"""Files whose lines are cached: findings come file by file."""
_CACHED_LINES = 256
"""Lines whose suppressions are cached: the lines of one document, for all its findings."""
_COMMENT = pattern(r"\s*#\s*pratique:\s*disable=([\w, -]+)")


def is_suppressed(source: SourceDocument | None, path: Sequence[Step], rule: str) -> bool:
    """Whether a comment disables a rule for a field."""
    origin = source.origin if source is not None else None
    if source is None or not isinstance(origin, YamlOrigin) or not _has_suppressions(origin.text.raw):
        return False
    steps = (*source.path, *path)
    for length in range(len(steps) + 1):
        # Positions count from the start of the file, the lines below from the start of the text.
        line = origin.find(steps[:length]).line - origin.text.first_line
        if rule in _disabled_rules(origin.text.raw, line, is_document=length == 0):
            return True
    return False


@functools.lru_cache(maxsize=_CACHED_LINES)
def _disabled_rules(raw: bytes, line: int, *, is_document: bool) -> frozenset[str]:
    """The rules that the comments right above a line disable; only above a document may empty lines intervene."""
    lines, names = _lines(raw), set[str]()
    for at in range(min(line, len(lines)) - 1, -1, -1):
        above = lines[at]
        if not above.lstrip().startswith("#") and (above.strip() or not is_document):
            break
        if found := _COMMENT.match(above):
            names |= {name.strip() for name in found[1].split(",")}
    return frozenset(names)


@functools.lru_cache(maxsize=_CACHED_FILES)
def _lines(raw: bytes) -> list[str]:
    return raw.decode().splitlines()


@functools.lru_cache(maxsize=_CACHED_FILES)
def _has_suppressions(raw: bytes) -> bool:
    return _SUPPRESSION_PREFIX in raw
