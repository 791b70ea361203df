"""What a lint rule is, and what it looks at."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pratique.admission.reviews import Review
from pratique.admission.rule_checks import RuleChecker
from pratique.admission.rules import Rule, compile_rules
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType, parse_api_version
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

if TYPE_CHECKING:
    from pratique.lint.scopes import SampleRequest


Owner: TypeAlias = "WebhookConfiguration | PolicyConfiguration[PolicySpec | PolicyBindingSpec]"


class Severity(enum.Enum):
    """How much harm there is in not following a practice."""

    ERROR = "error"
    """It will break a cluster, or what is configured cannot work."""
    WARNING = "warning"
    """It will hurt once something else goes wrong."""
    INFO = "info"
    """A choice that has its reasons, and a price."""


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """One place where a practice is not followed."""

    owner: Owner
    """The configuration, policy or binding."""
    path: tuple[Step, ...]
    """The field, such as ``("webhooks", 0, "timeoutSeconds")``."""
    text: str
    """What is there, and what comes of it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LintRule:
    """A named rule."""

    rule: str
    """Its name, in kebab-case."""
    severity: Severity
    explanation: str
    """One sentence: why it is a rule."""
    fix: str
    """One sentence: what to write instead."""
    check: Callable[[LintContext], Iterable[Violation]]
    """Finds where it is not followed."""


@dataclasses.dataclass(frozen=True, slots=True)
class LintFinding:
    """A practice that is not followed, and where."""

    lint_rule: LintRule
    violation: Violation

    def __str__(self) -> str:
        """Two lines: place, rule, whose field it is and what is there; and what to do."""
        return f"{self.told(self.lint_rule.severity)}\n    fix: {self.lint_rule.fix}"

    def told(self, severity: Severity) -> str:
        """The first of those lines, with a severity of the teller's."""
        violation = self.violation
        line = f"{severity.value}: {self.lint_rule.rule}: {_object_name(violation)}: {violation.text}"
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
"""Where namespaced samples are; which namespace it is makes no difference to rules."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConfiguredWebhook:
    """One webhook, and where it stands."""

    owner: WebhookConfiguration
    index: int
    webhook: Webhook

    def __str__(self) -> str:
        return f"webhook {go_quoted(self.webhook.name)} of {go_quoted(self.owner.name)}"

    @property
    def mutates(self) -> bool:
        """Whether it is of a MutatingWebhookConfiguration."""
        return self.owner.kind is WebhookConfigurationKind.MUTATING

    @property
    def fails_closed(self) -> bool:
        """Whether requests are refused where it does not answer."""
        return self.webhook.failure_policy == "Fail"

    @property
    def service(self) -> ServiceReference | None:
        """The Service behind which it runs; None where it is called by URL."""
        return self.webhook.client_config.service

    @property
    def backend(self) -> BackendService | None:
        """The Service of the cluster that it is called at, by reference or by URL; None where it is elsewhere."""
        return backend_service(self.webhook.client_config)

    @property
    def name(self) -> WebhookName:
        """Which webhook it is, for trials."""
        return WebhookName(self.owner.kind, self.owner.name, self.webhook.name)

    def violation(self, text: str, *path: Step) -> Violation:
        """Make the breach of one of its fields."""
        return Violation(self.owner, ("webhooks", self.index, *path), text)


class LintContext:
    """Everything that a practice may ask for."""

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
        self._wanted: dict[tuple[Rule, ...], frozenset[int]] = {}
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
        """Finds rules that match nothing in the cluster."""
        return RuleChecker(self.cluster.resources)

    def matched(self, rules: Iterable[Rule]) -> frozenset[tuple[ResourceType, str]]:
        """All that any of the rules matches: kinds, removed ones among them, and with each an operation."""
        return frozenset().union(*(self.futile_rules.matched(rule) for rule in rules))

    def runs(self, controller: str) -> bool:
        """Whether an admission controller is in the chain."""
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
        """The rules of all webhooks and policies, and where they stand."""
        for hook in self.hooks:
            yield hook.owner, ("webhooks", hook.index, "rules"), hook.webhook.rules
        for policy in self.policies:
            if policy.spec.match_constraints is not None:
                path = ("spec", "matchConstraints", "resourceRules")
                yield policy, path, policy.spec.match_constraints.resource_rules

    @functools.cached_property
    def scales(self) -> frozenset[tuple[str, str]]:
        """Group, and resource with subresource, of all that has a subresource ``scale``."""
        return frozenset(
            (each.resource.group, f"{each.resource.resource}/scale")
            for each in self.cluster.resources
            if each.subresource == "scale"
        )

    def selects(self, hook: ConfiguredWebhook, namespace: str) -> bool:
        """Whether a webhook is called for anything in a namespace, as far as rules and namespaceSelector say."""
        if not any(each.namespaced for each, _ in self.matched(hook.webhook.rules)):
            return False
        labels = labels_of(self.cluster.get("", "namespaces", namespace)) or {}
        return compile_selector(hook.webhook.namespace_selector or EVERYTHING).matches(labels)

    @property
    def is_described(self) -> bool:
        """Whether somebody has said what there is in the cluster."""
        return self.cluster.is_described

    def params(self, kind: ParamKind, ref: ParamRef) -> Iterator[JSONObject]:
        """The parameters that a binding means, of whatever namespace where it names none."""
        of_kind = GroupVersionKind(*parse_api_version(kind.api_version), kind.kind)
        type_ = self.cluster.resources.for_kind(of_kind)
        if type_ is None:
            return
        selector = compile_selector(ref.selector) if ref.selector is not None else None
        for each in self.cluster.list(type_.resource.group, type_.resource.resource, ref.namespace or None):
            if selector.matches_object(each) if selector else member(each, "metadata", "name") == ref.name:
                yield each

    @functools.cached_property
    def requests(self) -> tuple[tuple[Operation, ResourceType], ...]:
        """Every kind of request there is: each operation on each collection and subresource that is still served."""
        return tuple(
            (operation, each)
            for each in self.cluster.resources
            if each.served and each.removed_in is None
            for operation in Operation
        )

    @functools.cached_property
    def backends(self) -> tuple[BackendService, ...]:
        """The Services of the cluster at which webhooks are called, each once."""
        return tuple(dict.fromkeys(hook.backend for hook in self.hooks if hook.backend is not None))

    @functools.cached_property
    def _starts(self) -> Mapping[BackendService, tuple[tuple[StartupRequest, OutageResult], ...]]:
        """For each server what it needs to start, and what comes of asking for it."""
        return {
            backend: tuple(
                (request, self._simulator(request.review))
                for request in startup_requests(backend, self.cluster)
            )
            for backend in self.backends
        }

    def refused_starts(self, hook: ConfiguredWebhook, backend: BackendService) -> list[StartupRequest]:
        """What a server needs to start and is refused for the silence of a webhook."""
        return [request for request, tried in self._starts[backend] if hook.name in tried.refusing]

    def refusing(self, backend: BackendService) -> list[ConfiguredWebhook]:
        """The webhooks whose silence refuses the start of a server, in the order of :attr:`hooks`."""
        names = {name for _, tried in self._starts[backend] for name in tried.refusing}
        found = [hook for name in names for hook in self._by_name.get(name, ())]
        return sorted(found, key=lambda hook: self._order[id(hook)])

    @functools.cached_property
    def _by_name(self) -> Mapping[WebhookName, list[ConfiguredWebhook]]:
        """Webhooks by name: those of v1beta1 may share one."""
        found: dict[WebhookName, list[ConfiguredWebhook]] = {}
        for hook in self.hooks:
            found.setdefault(hook.name, []).append(hook)
        return found

    @functools.cached_property
    def _order(self) -> Mapping[int, int]:
        return {id(hook): index for index, hook in enumerate(self.hooks)}

    def versions(self, sample: SampleRequest) -> tuple[SampleRequest, ...]:
        """A sample in every version that is served."""
        if id(sample) not in self._versions:
            self._versions[id(sample)] = tuple(sample.versions(self.cluster.resources))
        return self._versions[id(sample)]

    def is_reached(self, hook: ConfiguredWebhook, review: Review) -> bool:
        """Whether a webhook would be called for a request, or refuse it uncalled: as the chain itself decides."""
        key = id(review)
        if key not in self._reached:
            self._reached[key] = (review, self._simulator.reached(review))
        return hook.name in self._reached[key][1]

    def delayed_starts(self, hook: ConfiguredWebhook, backend: BackendService) -> list[StartupRequest]:
        """What a server needs to start and gets once a webhook has been waited for."""
        return [request for request, tried in self._starts[backend] if hook.name in tried.passed_over]

    def wanted(self, rules: Iterable[Rule]) -> frozenset[int]:
        """Which of :attr:`requests`, by index, any of the rules wants; what selectors leave out is not left out."""
        key = tuple(rules)
        if key not in self._wanted:
            self._wanted[key] = self._find_wanted(key)
        return self._wanted[key]

    def _find_wanted(self, rules: tuple[Rule, ...]) -> frozenset[int]:
        compiled = compile_rules(rules)
        return frozenset(
            index
            for index, (operation, each) in enumerate(self.requests)
            if compiled.matches_request(
                operation, each.resource, each.subresource, _SAMPLE_NAMESPACE if each.namespaced else ""
            )
        )


def _configured_webhooks(configurations: Iterable[WebhookConfiguration]) -> tuple[ConfiguredWebhook, ...]:
    return tuple(
        ConfiguredWebhook(owner, index, webhook)
        for owner in configurations
        for index, webhook in enumerate(owner.webhooks)
    )


_SUPPRESSION_PREFIX = b"pratique:"
_CACHED_FILES = 8
"""Texts whose lines are remembered: findings come by the text."""
_CACHED_LINES = 256
"""Lines above which comments are remembered: those of a document, for all that is found in it."""
_COMMENT = re.compile(r"\s*#\s*pratique:\s*disable=([\w, -]+)")


def is_suppressed(source: SourceDocument | None, path: Sequence[Step], rule: str) -> bool:
    """Tell whether a comment switches a rule off for a field."""
    origin = source.origin if source is not None else None
    if source is None or not isinstance(origin, YamlOrigin) or not _has_suppressions(origin.text.raw):
        return False
    steps = (*source.path, *path)
    for length in range(len(steps) + 1):
        # Back from the line of the file to that of the text.
        line = origin.find(steps[:length]).line - origin.text.first_line
        if rule in _disabled_rules(origin.text.raw, line, is_document=length == 0):
            return True
    return False


@functools.lru_cache(maxsize=_CACHED_LINES)
def _disabled_rules(raw: bytes, line: int, *, is_document: bool) -> frozenset[str]:
    """The rules that the comments right above a line name; above a document there may be empty lines between."""
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
