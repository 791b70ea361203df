"""Chain sources: what the settings of a chain name, read and made ready."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from frontdoor.webhook_credentials import WebhookCredentials
from pratique.catalogues import load_catalogue
from pratique.configurations.all_configurations import Configurations
from pratique.definitions import Phase
from pratique.https.https_clients import HttpsClients
from pratique.https.service_resolvers import from_cluster
from pratique.kubeconfigs import load_kubeconfig
from pratique.plugin_configurations import configured_plugins, load_plugin_configurations
from pratique.releases import notices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pratique.catalogues import Catalogue
    from pratique.clusters import Cluster
    from pratique.definitions import Controller
    from pratique.hosted_controllers import HostedController
    from pratique.json_values import JSON
    from pratique.releases import Release
    from pratique.settings import ChainSettings

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
        from pratique.spellings import unread_in_cluster, unread_in_settings  # noqa: PLC0415 - once, at the start

        yield from notices(self.selected, release)
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
        from pratique.practices import idleness  # noqa: PLC0415 - what is not configured needs no practices

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
    return HttpsClients(from_cluster(cluster))
