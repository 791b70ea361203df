"""The controllers that a service hosts: configured, isolated in worker processes where necessary, and reloaded.

Controllers of other packages each run in a worker process, unless the isolation setting says otherwise; Pratique's own
run in the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from pratique.admission.controllers import Controller, Handler, Phase
from pratique.admission.namespace_provisioning import provisions_namespaces
from pratique.apimachinery.json_values import JSON
from pratique.cluster.authorization import AUTHORIZED_SECONDS, UNAUTHORIZED_SECONDS
from pratique.cluster.conversion import ConversionWebhooks
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ANY_NAMESPACE, STALENESS_SECONDS, Cluster, ObjectStore, ReloadableCluster
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.input_digests import (
    InputDigests,
    RecentInputs,
    chain_digest,
    cluster_digest,
    configuration_digest,
)
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import AuthorizerSource, ChainSettings, Isolation
from pratique.hosting.catalogue import HostedController, host_elsewhere, load_catalogue
from pratique.hosting.cluster_roles import (
    looked_up_beside_authorizer,
    looked_up_by_front_doors,
    looked_up_by_policies,
)
from pratique.hosting.running import ControllerHost
from pratique.https.clients import HttpsClients
from pratique.https.conversion_webhooks import HttpsConversionWebhooks
from pratique.https.service_resolvers import cluster_resolver
from pratique.telemetry.metrics import ReloadCounts
from pratique.telemetry.reloading_files import Reloaded, keep_reloading

if TYPE_CHECKING:
    from pratique.cluster.live import LiveCluster


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process runs: one handler of one controller. It has no other controller's settings."""

    service: str
    """The service's name, for the worker's log."""
    controller: str
    """The controller's name."""
    origin: str
    """The controller's entry point, ``module:attribute``."""
    phase: Phase
    configuration: JSON = None
    """The controller's configured settings; None for the defaults."""
    source: str = ""
    """The file with the settings; empty if there is none."""
    config: tuple[str, ...] = ()
    """As ``ChainSettings.config``."""
    cluster: tuple[str, ...] | None = None
    """As ``ChainSettings.cluster``. The worker reads and watches these files itself, and follows a live cluster."""
    kubeconfig: str = ""
    """As ``ChainSettings.kubeconfig``; empty if there is none."""
    context: str = ""
    in_cluster: bool = False
    cluster_staleness_seconds: float = STALENESS_SECONDS
    policies_from: tuple[str, ...] = ()
    """As ``ChainSettings.policies_from``."""
    authorizer: AuthorizerSource = AuthorizerSource.STORE
    """As ``ChainSettings.authorizer``, like the next two."""
    authorized_seconds: float = AUTHORIZED_SECONDS
    unauthorized_seconds: float = UNAUTHORIZED_SECONDS
    provisions: bool = False
    """Whether the chain creates missing namespaces."""
    chain: str = ""
    """The digest of the chain."""
    reload_grace_seconds: float = 0.0
    """As ``ChainSettings.reload_grace_seconds``."""
    path: tuple[str, ...] = ()
    """The service's ``sys.path``."""


class WorkerReadiness(msgspec.Struct, frozen=True):
    """A worker's answer to its plan."""

    error: str = ""
    """Why the plan cannot be carried out; empty if it can."""


_SERVICE_NAMES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}


class IsolatedControllers(msgspec.Struct, frozen=True):
    """Starts worker processes for a service's controllers from other packages."""

    origins: Mapping[str, str]
    """The entry point of each controller, by the controller's name."""
    configurations: Mapping[str, JSON]
    """The configured settings of each controller, by the controller's name."""
    settings: ChainSettings
    phase: Phase
    isolation: Isolation
    chain: str = ""
    """The digest of the chain."""
    provisions: bool = False
    """Whether the chain creates missing namespaces."""

    def isolates(self, controller: Controller) -> bool:
        """Tell whether a controller gets its own process."""
        return (
            self.isolation is Isolation.PROCESS
            and controller.name in self.origins
            and self.phase in controller.phases
        )

    async def start(
        self, controllers: Sequence[Controller], stack: contextlib.AsyncExitStack
    ) -> list[HostedController]:
        """Start the controllers' processes concurrently; they end with ``stack``.

        Raises:
            ConfigurationError: one of them cannot be loaded or configured.
        """
        if not controllers:
            return []
        # Imported here because most services have no controllers from other packages.
        from pratique.hosting.isolated_controllers import IsolatedController  # noqa: PLC0415

        results = await asyncio.gather(
            *(
                IsolatedController.start(self._plan(controller), may_patch=controller.may_patch)
                for controller in controllers
            ),
            return_exceptions=True,
        )
        started = [result for result in results if isinstance(result, IsolatedController)]
        for isolated in started:
            stack.push_async_callback(isolated.close)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [
            host_elsewhere(controller, self.configurations.get(controller.name), isolated.handlers)
            for controller, isolated in zip(controllers, started, strict=True)
        ]

    def _plan(self, controller: Controller) -> WorkerPlan:
        file = self.settings.admission_control_config_file
        cluster = self.settings.cluster
        return WorkerPlan(
            service=_SERVICE_NAMES[self.phase],
            controller=controller.name,
            origin=self.origins[controller.name],
            phase=self.phase,
            configuration=self.configurations.get(controller.name),
            source="" if file is None else str(file),
            config=tuple(map(str, self.settings.config)),
            cluster=None if cluster is None else tuple(map(str, cluster)),
            path=tuple(sys.path),
            provisions=self.provisions,
            kubeconfig=str(self.settings.kubeconfig or ""),
            context=self.settings.context,
            in_cluster=self.settings.in_cluster,
            cluster_staleness_seconds=self.settings.cluster_staleness_seconds,
            policies_from=self.settings.policies_from,
            authorizer=self.settings.authorizer,
            authorized_seconds=self.settings.authorized_seconds,
            unauthorized_seconds=self.settings.unauthorized_seconds,
            chain=self.chain,
            reload_grace_seconds=self.settings.reload_grace_seconds,
        )


_log = logging.getLogger(__name__)

_WARM_UP_SECONDS = 10.0
"""How long new policies wait for their parameters to be listed."""

HostT = TypeVar("HostT", bound=ControllerHost)
HostT_co = TypeVar("HostT_co", bound=ControllerHost, covariant=True)


class HostFactory(Protocol[HostT_co]):
    """Creates a host, as the classes in :mod:`pratique.hosting.running` do."""

    def __call__(
        self,
        hosted: Sequence[HostedController],
        cluster: Cluster,
        *,
        provisions: bool = False,
        conversion_webhooks: ConversionWebhooks | None = None,
    ) -> HostT_co:
        """Host ``hosted``, which look up objects in ``cluster``."""


class HostedChain(msgspec.Struct, Generic[HostT], frozen=True):
    """The controllers that a service hosts."""

    controllers: tuple[HostedController, ...]
    """The enabled controllers with a handler for the phase, in chain order."""
    cluster: ReloadableCluster
    """The objects that they look up; reloaded when the files change."""
    held: RecentInputs[HostT]
    """The hosts, by the digest of their inputs: the current configuration and cluster, and for a while the previous."""
    reloads: Sequence[ReloadCounts] = ()
    """How often the configuration and the cluster were reloaded."""
    live: LiveCluster | None = None
    """The live cluster that the objects come from, if they do."""


async def open_live_cluster(
    settings: ChainSettings, looked_up: Iterable[str] | None = None
) -> LiveCluster | None:
    """Follow the live cluster of the settings, if they name one, and list what is ``looked_up``.

    None means what a front door looks up itself: what the services do is followed by them.

    Raises:
        ConfigurationError: it cannot be used, or a file of ``--cluster``.
    """
    if not settings.is_live:
        return None
    from pratique.cluster.live import open_live  # noqa: PLC0415 - only for live clusters

    if looked_up is None:
        looked_up = looked_up_by_front_doors(load_catalogue().select(settings))
    base = load_cluster(settings.cluster) if settings.cluster else ObjectStore()
    kubeconfig = None if settings.in_cluster else settings.kubeconfig
    return await open_live(
        kubeconfig,
        settings.context,
        looked_up_beside_authorizer(looked_up, settings.authorizer),
        base,
        settings.cluster_staleness_seconds,
        access_review_seconds=settings.access_review_seconds,
    )


async def open_configurations(settings: ChainSettings, live: LiveCluster | None) -> Reloaded[Configurations]:
    """Load the configurations of files, and of the live cluster where the settings say so.

    Raises:
        ConfigurationError: something is invalid.
    """
    if live is None or not settings.policies_from:
        return Reloaded("configuration", lambda: load_configurations(settings.config), settings.config)
    from pratique.configuration.live_configurations import open_live_configurations  # noqa: PLC0415 - as above

    return await open_live_configurations(settings.config, settings.policies_from, live)


@contextlib.asynccontextmanager
async def host_chain(
    settings: ChainSettings,
    phase: Phase,
    host_of: HostFactory[HostT],
    isolation: Isolation = Isolation.THREAD,
    shared: LiveCluster | None = None,
) -> AsyncIterator[HostedChain[HostT]]:
    """Load and host a chain, and keep its inputs up to date; at the end, close the controllers.

    Args:
        settings: The chain, its configuration and its cluster.
        phase: The phase to host. Controllers without a handler for it are configured too, so that every service
            rejects the same settings.
        host_of: Creates the hosts.
        isolation: Where controllers of other packages run.
        shared: The live cluster that others in this process follow, too, and close.

    Raises:
        ConfigurationError: a file cannot be used, or a flag names no controller.
    """
    async with contextlib.AsyncExitStack() as stack:
        catalogue = load_catalogue()
        selected = catalogue.select(settings)
        configurations = load_plugin_configurations(settings)
        chain, provisions = chain_digest(selected, configurations), provisions_namespaces(selected)
        isolated = IsolatedControllers(
            catalogue.origins, configurations, settings, phase, isolation, chain, provisions
        )
        configured = catalogue.configure(
            [controller for controller in selected if not isolated.isolates(controller)],
            configurations,
            settings.admission_control_config_file,
        )
        for hosted in configured:
            stack.push_async_callback(hosted.handlers.close)
        local = [hosted for hosted in configured if phase in hosted.controller.phases]
        remote = await isolated.start(
            [controller for controller in selected if isolated.isolates(controller)], stack
        )
        by_name = {hosted.controller.name: hosted for hosted in (*local, *remote)}
        controllers = tuple(by_name[controller.name] for controller in selected if controller.name in by_name)
        live = shared
        if live is None:
            looked_up = {resource for hosted in controllers for resource in hosted.controller.looks_up}
            live = await open_live_cluster(settings, looked_up)
        if live is not None and shared is None:
            stack.push_async_callback(live.close)

        def resolve(host: str, port: int) -> tuple[str, int]:
            # In a live cluster DNS finds Services, so their endpoints need not be followed.
            return cluster_resolver(ANY_NAMESPACE if live is not None else inputs.cluster)(host, port)

        webhooks = None
        if settings.calls_conversion_webhooks:
            webhooks = HttpsConversionWebhooks(HttpsClients(resolve))
            stack.push_async_callback(webhooks.close)
        inputs = ReloadedInputs(
            settings,
            chain,
            local,
            lambda cluster: host_of(
                controllers, cluster, provisions=provisions, conversion_webhooks=webhooks
            ),
            configuration=await open_configurations(settings, live),
            live=live,
        )
        await inputs.warm_up(inputs.configuration.value)
        await stack.enter_async_context(inputs.kept_up_to_date())
        yield HostedChain(controllers, inputs.cluster, inputs.held, inputs.reloads, live)


class ReloadedInputs(Generic[HostT]):
    """The contents of ``--config`` and ``--cluster``, reloaded when they change, and the hosts that use them."""

    def __init__(
        self,
        settings: ChainSettings,
        chain: str,
        controllers: Sequence[HostedController],
        host_of: Callable[[Cluster], HostT],
        *,
        configuration: Reloaded[Configurations],
        live: LiveCluster | None = None,
    ) -> None:
        """Load the cluster for the first time, and use everything.

        Args:
            settings: The paths.
            chain: The digest of the chain.
            controllers: The controllers that use the configurations.
            host_of: Creates the host for a cluster.
            configuration: The configurations, of files and of a live cluster.
            live: The live cluster that replaces the files of ``--cluster``.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        self._controllers = controllers
        self._authorizer = settings.authorizer
        self._chain = chain
        self.configuration = configuration
        """The configurations, and where they come from."""
        self._live = live
        self._cluster: Reloaded[ObjectStore] = (
            Reloaded("cluster", lambda: load_cluster(settings.cluster), settings.cluster or ())
            if live is None
            else Reloaded("cluster", lambda: live.current, ())
        )
        self._watched: list[Reloaded[Any]] = [
            files for files in (self.configuration, self._cluster) if files.paths
        ]
        shown = self._watched if configuration.paths else [configuration, *self._watched]
        self.reloads: Sequence[ReloadCounts] = [
            files.reloads for files in shown if files.paths or settings.policies_from
        ]
        """How often each was reloaded."""
        self.cluster = ReloadableCluster(self._cluster.value)
        """The current cluster."""
        self._handlers = self._use_configurations(self.configuration.value)
        self._host = host_of(self._cluster.value)
        self._configuration_digest = configuration_digest(self.configuration.value)
        self._cluster_digest = cluster_digest(self._cluster.value)
        self.held: RecentInputs[HostT] = RecentInputs(
            self._digests,
            self._host.with_inputs(self._cluster.value, self._handlers),
            settings.reload_grace_seconds,
        )
        """The hosts, by the digest of their inputs."""
        self.configuration.add_listener(self._replace_configurations)
        self._cluster.add_listener(self._replace_cluster)
        if live is not None:
            live.add_listener(self._use_live)

    @contextlib.asynccontextmanager
    async def kept_up_to_date(self) -> AsyncIterator[None]:
        """Reload changed files, and run the controllers' background work, until the context ends."""
        async with _background_tasks() as tasks:
            for files in self._watched:
                tasks.add(asyncio.create_task(keep_reloading([files]), name=f"{files.name} files"))
            current = self.configuration.keep_current(self.held.suspend)
            tasks.add(asyncio.create_task(current, name="live configuration"))
            for hosted in self._controllers:
                background = asyncio.create_task(
                    hosted.handlers.run_in_background(self.cluster), name=hosted.controller.name
                )
                background.add_done_callback(_log_background_failure)
                tasks.add(background)
            try:
                yield
            finally:
                self.held.close()

    @property
    def _digests(self) -> InputDigests:
        return InputDigests.of(self._chain, self._configuration_digest, self._cluster_digest)

    def _use_configurations(self, configurations: Configurations) -> Mapping[str, Handler]:
        handlers = {
            hosted.controller.name: hosted.handlers.use_configurations(configurations)
            for hosted in self._controllers
        }
        return {name: handler for name, handler in handlers.items() if handler is not None}

    async def warm_up(self, configurations: Configurations) -> None:
        """Follow what policies look up in a live cluster, before the first review needs it.

        What cannot be listed soon refuses the reviews that need it.
        """
        if self._live is None:
            return
        controllers = [hosted.controller for hosted in self._controllers]
        named = looked_up_by_policies(
            controllers, configurations, self._live.current.resources, self._authorizer
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._live.sync(named), _WARM_UP_SECONDS)

    async def _replace_configurations(self, configurations: Configurations) -> None:
        digest = await asyncio.to_thread(configuration_digest, configurations)
        await self.warm_up(configurations)
        self._handlers = self._use_configurations(configurations)
        self._configuration_digest = digest
        self._switch_host()

    async def _replace_cluster(self, cluster: ObjectStore) -> None:
        self._cluster_digest = await asyncio.to_thread(cluster_digest, cluster)
        self.cluster.swap(cluster)
        self._switch_host()

    def _use_live(self, cluster: ObjectStore) -> None:
        self.cluster.swap(cluster)
        self._switch_host()

    def _switch_host(self) -> None:
        self.held.switch_to(self._digests, self._host.with_inputs(self.cluster.current, self._handlers))


@contextlib.asynccontextmanager
async def _background_tasks() -> AsyncIterator[set[asyncio.Task[None]]]:
    """Yield a set for tasks, which are cancelled at the end. A task that fails ends alone."""
    tasks: set[asyncio.Task[None]] = set()
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_background_failure(task: asyncio.Task[None]) -> None:
    """Log at once that a controller's background work failed, because nothing restarts it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        where = {"controller": task.get_name(), "reason": type(error).__name__}
        _log.error("a controller's background work failed", extra=where)
