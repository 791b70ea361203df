"""What the practices look at: configurations, the cluster that they are for, and the time."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from pratique.configurations.webhooks import ConfigurationKind
from pratique.kinds import ResourceType  # noqa: TC001 - the type of a cached property
from pratique.practices.assumed_clusters import AssumedCluster
from pratique.practices.backends import Backend, backend_of
from pratique.practices.definitions import Breach
from pratique.practices.starts import Need, needs_of
from pratique.practices.trials import HookName
from pratique.reviews import Operation
from pratique.rules import compile_rules
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.clusters import Cluster
    from pratique.configurations.all_configurations import Configurations
    from pratique.configurations.policies import Configured, PolicySpec
    from pratique.configurations.webhooks import ServiceReference, Webhook, WebhookConfiguration
    from pratique.field_errors import Step
    from pratique.practices.trials import Trial, Tried
    from pratique.rules import Rule

_ANY_NAMESPACE = "default"
"""Where namespaced samples are; which namespace it is makes no difference to rules."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hook:
    """One webhook, and where it stands."""

    owner: WebhookConfiguration
    index: int
    webhook: Webhook

    def __str__(self) -> str:
        return f"webhook {go_quoted(self.webhook.name)} of {go_quoted(self.owner.name)}"

    @property
    def mutates(self) -> bool:
        """Whether it is of a MutatingWebhookConfiguration."""
        return self.owner.kind is ConfigurationKind.MUTATING

    @property
    def fails_closed(self) -> bool:
        """Whether requests are refused where it does not answer."""
        return self.webhook.failure_policy == "Fail"

    @property
    def service(self) -> ServiceReference | None:
        """The Service behind which it runs; None where it is called by URL."""
        return self.webhook.client_config.service

    @property
    def backend(self) -> Backend | None:
        """The Service of the cluster that it is called at, by reference or by URL; None where it is elsewhere."""
        return backend_of(self.webhook.client_config)

    @property
    def name(self) -> HookName:
        """Which webhook it is, for trials."""
        return HookName(self.owner.kind, self.owner.name, self.webhook.name)

    def breach(self, text: str, *path: Step) -> Breach:
        """Make the breach of one of its fields."""
        return Breach(self.owner, ("webhooks", self.index, *path), text)


class Subject:
    """Everything that a practice may ask for."""

    def __init__(self, configurations: Configurations, cluster: Cluster, trial: Trial, now: float) -> None:
        """Look at configurations in a cluster at the time ``now``, in seconds since 1970.

        ``trial`` tells what becomes of a request while the servers of all webhooks are down.
        """
        self.configurations = configurations
        self._trial = trial
        self.cluster = AssumedCluster(cluster)
        self.now = now
        self.mutating = _hooks(configurations.mutating)
        """The mutating webhooks, in the order in which they are called."""
        self.validating = _hooks(configurations.validating)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All webhooks."""
        return self.mutating + self.validating

    @property
    def policies(self) -> tuple[Configured[PolicySpec], ...]:
        """All policies."""
        return (*self.configurations.mutating_policies, *self.configurations.validating_policies)

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
    def backends(self) -> tuple[Backend, ...]:
        """The Services of the cluster at which webhooks are called, each once."""
        return tuple(dict.fromkeys(hook.backend for hook in self.hooks if hook.backend is not None))

    @functools.cached_property
    def _starts(self) -> Mapping[Backend, tuple[tuple[Need, Tried], ...]]:
        """For each server what it needs to start, and what comes of asking for it."""
        return {
            backend: tuple((need, self._trial(need.review)) for need in needs_of(backend, self.cluster))
            for backend in self.backends
        }

    def refused_starts(self, hook: Hook, backend: Backend) -> list[Need]:
        """What a server needs to start and is refused for the silence of a webhook."""
        return [need for need, tried in self._starts[backend] if hook.name in tried.refusing]

    def delayed_starts(self, hook: Hook, backend: Backend) -> list[Need]:
        """What a server needs to start and gets once a webhook has been waited for."""
        return [need for need, tried in self._starts[backend] if hook.name in tried.passed_over]

    def wanted(self, rules: Iterable[Rule]) -> frozenset[int]:
        """Which of :attr:`requests`, by index, any of the rules wants; what selectors leave out is not left out."""
        compiled = compile_rules(rules)
        return frozenset(
            index
            for index, (operation, each) in enumerate(self.requests)
            if compiled.matches_request(
                operation, each.resource, each.subresource, _ANY_NAMESPACE if each.namespaced else ""
            )
        )


def _hooks(configurations: Iterable[WebhookConfiguration]) -> tuple[Hook, ...]:
    return tuple(
        Hook(owner, index, webhook)
        for owner in configurations
        for index, webhook in enumerate(owner.webhooks)
    )
