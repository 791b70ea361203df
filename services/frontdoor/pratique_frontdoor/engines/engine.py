"""The engine: one chain, asked for decisions, and what the settings of a chain name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pratique.admission.controllers import Controller, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSON
from pratique.cluster.store import Cluster
from pratique.configuration.admission_configuration import configured_plugins, load_plugin_configurations
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
    """Decides reviews by one chain."""

    @property
    def cluster(self) -> Cluster:
        """What the chain looks up; reviews are made with it."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the mutating phase, the validating phase, or both in their order.

        ``explain`` adds a step for everything that did not match, with the reason. Failures of controllers and
        webhooks are part of the decision; this raises only where Pratique itself is at fault, or the deadline
        passes (``TimeoutError``).
        """

    async def unready(self) -> Sequence[str]:
        """Why reviews cannot be decided now, a reason each; empty where they can."""

    async def close(self) -> None:
        """Let go of connections and controllers. No reviews may follow."""


def open_local(settings: ChainSettings, store: Cluster, read: LocalSources | None = None) -> LocalEngine:
    """Make the whole chain in this process, looking things up in ``store``.

    ``read`` is what the settings name, where it has been read already, for another engine.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from pratique_frontdoor.engines import local as local_engines  # noqa: PLC0415  # the two kinds share no imports worth their time

    return local_engines.LocalEngine(settings, store, read)


async def open_remote(settings: FrontDoorSettings) -> Engine:
    """Make the chain of a front door, whose controllers run in the mutator and the validators.

    It is a coroutine because it needs a running event loop.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from pratique_frontdoor.engines.remote import RemoteEngine  # noqa: PLC0415  # imports gRPC

    return RemoteEngine(settings)


_CALLERS = {"MutatingAdmissionWebhook": Phase.MUTATE, "ValidatingAdmissionWebhook": Phase.VALIDATE}


@dataclasses.dataclass(frozen=True, slots=True)
class ChainSources:
    """The controllers of a chain, and what they are told."""

    catalogue: Catalogue
    selected: tuple[Controller, ...]
    """The controllers that are on, in chain order."""
    plugin_configurations: Mapping[str, JSON]
    """What an AdmissionConfiguration and flags say, by controller."""
    file: Path | None = None
    """The file that says it."""
    configured: frozenset[str] = frozenset()
    """The controllers that somebody has given settings."""

    @classmethod
    def read(cls, settings: ChainSettings) -> ChainSources:
        """Read what the settings name.

        Raises:
            ConfigurationError: a file cannot be used, or a flag names no controller.
        """
        catalogue = load_catalogue()
        configurations = load_plugin_configurations(settings)
        selected = catalogue.select(settings)
        file = settings.admission_control_config_file
        return cls(catalogue, selected, configurations, file, configured_plugins(settings))

    def notices(self, release: Release | None, cluster: Cluster | None = None) -> Iterator[str]:
        """Tell what does nothing, or not for long, in the release that the chain follows: controllers and spellings."""
        from pratique.lint.spellings import unread_in_cluster, unread_in_settings  # noqa: PLC0415 - once, at the start

        yield from deprecation_notices(self.selected, release)
        yield from unread_in_settings(self.plugin_configurations, release)
        if cluster is not None:
            yield from unread_in_cluster(cluster, release)

    def configure(self, controllers: Iterable[Controller]) -> tuple[HostedController, ...]:
        """Give controllers their settings.

        Raises:
            ConfigurationError: settings are not those of their controller.
        """
        return self.catalogue.configure(controllers, self.plugin_configurations, self.file)

    def idle(
        self, configurations: Configurations, cluster: Cluster, *, only_certain: bool = False
    ) -> Iterator[str]:
        """Tell of all that is configured and can do nothing, a line each.

        With ``only_certain``, what other kinds, policies or bindings in a cluster would give work to is let be.
        """
        from pratique.lint import without_effect as idleness  # noqa: PLC0415 - what is not configured needs no practices

        yield from idleness.idle_controllers(sorted(self.configured), self.selected, cluster)
        if configurations != Configurations():
            practices = idleness.CERTAIN if only_certain else idleness.ALL
            yield from idleness.idle_configurations(configurations, cluster, self.selected, practices)

    def credentials(self) -> Mapping[Phase, WebhookCredentials]:
        """What webhooks are shown, by the phase that calls them.

        Raises:
            ConfigurationError: a kubeconfig cannot be used.
        """
        credentials = {phase: WebhookCredentials() for phase in Phase}
        callers = [one for one in self.selected if one.name in _CALLERS]
        for caller in self.configure(callers):
            file = getattr(caller.settings, "kube_config_file", "")
            if file:
                credentials[_CALLERS[caller.controller.name]] = WebhookCredentials(
                    load_kubeconfig(Path(file))
                )
        return credentials


def open_clients(cluster: Cluster) -> HttpsClients:
    """Make the HTTPS clients that find services in the cluster's objects, or else by name."""
    return HttpsClients(cluster_resolver(cluster))
