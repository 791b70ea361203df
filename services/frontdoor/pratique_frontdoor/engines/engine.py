"""The engine Protocol: one chain that decides reviews; and what the settings of a chain refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from pratique.admission.controllers import Controller, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSON
from pratique.cluster.store import Cluster
from pratique.configuration.admission_configuration import (
    configured_plugins,
    load_plugin_configurations,
    load_plugin_timeouts,
)
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import ChainSettings, Release, deprecation_notices
from pratique.hosting.catalogue import Catalogue, HostedController, load_catalogue
from pratique.https.clients import HttpsClients
from pratique.https.kubeconfigs import load_kubeconfig
from pratique.https.service_resolvers import cluster_resolver
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.webhooks.clients import WebhookCredentials

if TYPE_CHECKING:
    from pratique_frontdoor.engines.local import LocalEngine, LocalSources
    from pratique_frontdoor.settings import FrontDoorSettings


class Engine(Protocol):
    """Decides reviews with one chain."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the chain looks objects up in; reviews are created with it."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the mutating phase, the validating phase, or both in that order.

        ``explain`` adds a step with a reason for everything that did not match. Failures of controllers and webhooks
        are part of the decision; this raises only on faults of Pratique itself, or when the deadline passes
        (``TimeoutError``).
        """

    async def unready(self) -> Sequence[str]:
        """Return the reasons why reviews cannot be decided now; empty if they can."""

    async def close(self) -> None:
        """Close connections and controllers. No reviews may follow."""


def open_local(
    settings: ChainSettings, store: Cluster, read: LocalSources | None = None, *, tells_places: bool = False
) -> LocalEngine:
    """Build the whole chain in this process, with the objects of ``store``.

    ``read`` holds the files of the settings if another engine has read them already. With ``tells_places``, the failure
    of a policy in Python names its file and line.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from pratique_frontdoor.engines import local as local_engines  # noqa: PLC0415  # only for local chains

    return local_engines.LocalEngine(settings, store, read, tells_places=tells_places)


async def open_remote(settings: FrontDoorSettings) -> Engine:
    """Build the chain of a front door, whose controllers run in the mutator and the validators.

    It is a coroutine because it needs a running event loop.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from pratique.hosting.services import open_configurations, open_live_cluster  # noqa: PLC0415  # watches files
    from pratique_frontdoor.engines.remote import RemoteEngine  # noqa: PLC0415  # imports gRPC

    live = await open_live_cluster(settings.chain)
    return RemoteEngine(settings, live=live, configurations=await open_configurations(settings.chain, live))


_CALLERS = {"MutatingAdmissionWebhook": Phase.MUTATE, "ValidatingAdmissionWebhook": Phase.VALIDATE}


class ChainSources(msgspec.Struct, frozen=True):
    """The controllers of a chain, and their configurations."""

    catalogue: Catalogue
    selected: tuple[Controller, ...]
    """The enabled controllers, in chain order."""
    plugin_configurations: Mapping[str, JSON]
    """The configurations of the AdmissionConfiguration and of flags, by controller."""
    timeouts: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The time limits that the AdmissionConfiguration sets, in seconds, by controller."""
    file: Path | None = None
    """The file of the AdmissionConfiguration."""
    configured: frozenset[str] = frozenset()
    """The controllers that have explicit settings."""

    @classmethod
    def read(cls, settings: ChainSettings) -> ChainSources:
        """Read the files of the settings.

        Raises:
            ConfigurationError: a file is unusable, or a flag names an unknown controller.
        """
        catalogue = load_catalogue()
        configurations = load_plugin_configurations(settings)
        selected = catalogue.select(settings)
        timeouts = load_plugin_timeouts(settings)
        file = settings.admission_control_config_file
        return cls(catalogue, selected, configurations, timeouts, file, configured_plugins(settings))

    def notices(self, release: Release | None, cluster: Cluster | None = None) -> Iterator[str]:
        """Yield what has no effect, or will soon have none, in the release of the chain: controllers and spellings."""
        yield from deprecation_notices(self.selected, release)
        if not self.plugin_configurations and cluster is None:
            return
        from pratique.lint.spellings import unread_in_cluster, unread_in_settings  # noqa: PLC0415 - only at startup

        yield from unread_in_settings(self.plugin_configurations, release)
        if cluster is not None:
            yield from unread_in_cluster(cluster, release)

    def configure(self, controllers: Iterable[Controller]) -> tuple[HostedController, ...]:
        """Configure controllers.

        Raises:
            ConfigurationError: settings do not fit their controller.
        """
        return self.catalogue.configure(controllers, self.plugin_configurations, self.file)

    def without_effect(
        self, configurations: Configurations, cluster: Cluster, *, only_certain: bool = False
    ) -> Iterator[str]:
        """Yield a line for everything that is configured and can have no effect.

        With ``only_certain``, leave out what other kinds, policies or bindings in a cluster could make effective.
        """
        yield from self.ineffective_controllers(cluster)
        if configurations != Configurations():
            from pratique.lint import without_effect  # noqa: PLC0415 - not needed without configurations

            practices = without_effect.CERTAIN_RULES if only_certain else without_effect.EFFECT_RULES
            yield from without_effect.ineffective_configurations(
                configurations, cluster, self.selected, practices
            )

    def ineffective_controllers(self, cluster: Cluster) -> Iterator[str]:
        """Yield a line for each disabled controller with settings, and for each rule that matches nothing."""
        if not self.configured and all(controller.trusted for controller in self.selected):
            return
        from pratique.lint.without_effect import ineffective_controllers  # noqa: PLC0415 - few chains have either

        yield from ineffective_controllers(sorted(self.configured), self.selected, cluster)

    def credentials(self) -> Mapping[Phase, WebhookCredentials]:
        """Return the credentials for webhooks, by the phase that calls them.

        Raises:
            ConfigurationError: a kubeconfig is unusable.
        """
        credentials = {phase: WebhookCredentials() for phase in Phase}
        callers = [controller for controller in self.selected if controller.name in _CALLERS]
        for caller in self.configure(callers):
            file = getattr(caller.settings, "kube_config_file", "")
            if file:
                credentials[_CALLERS[caller.controller.name]] = WebhookCredentials(
                    load_kubeconfig(Path(file))
                )
        return credentials


def open_clients(cluster: Cluster) -> HttpsClients:
    """Return HTTPS clients that find services in the cluster's objects, or else by name."""
    return HttpsClients(cluster_resolver(cluster))
