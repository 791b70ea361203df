"""The controllers that a service hosts: configured, isolated in worker processes where necessary, and reloaded.

Controller packages that are not part of Pratique each run in a worker process; everything else runs in the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from pratique.admission.controllers import Controller, Handler, Phase
from pratique.admission.namespace_provisioning import provisions_namespaces
from pratique.apimachinery.json_values import JSON
from pratique.cluster.files import load_cluster
from pratique.cluster.store import Cluster, ObjectStore, ReloadableCluster
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.input_digests import (
    InputDigests,
    RecentInputs,
    chain_digest,
    cluster_digest,
    configuration_digest,
)
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import ChainSettings, Isolation
from pratique.hosting.catalogue import HostedController, host_elsewhere, load_catalogue
from pratique.telemetry.metrics import ReloadCounts
from pratique.telemetry.reloading_files import Reloaded, keep_reloading

if TYPE_CHECKING:
    from typing import Self


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One half of one controller, and what it is given. It holds nothing of the other controllers' settings."""

    service: str
    """Under whose name it logs."""
    controller: str
    """The controller, by name."""
    origin: str
    """The entry point that it is, or is in: ``module:attribute``."""
    phase: Phase
    configuration: JSON = None
    """Its settings, as they are configured; None for the defaults."""
    source: str = ""
    """The file that they come from; empty where they come from none."""
    config: tuple[str, ...] = ()
    """As ``ChainSettings.config``."""
    cluster: tuple[str, ...] | None = None
    """As ``ChainSettings.cluster``. The worker reads these files and follows them itself."""
    provisions: bool = False
    """Whether the chain makes the namespaces that are missing."""
    chain: str = ""
    """The digest of the chain, of which it is a part."""
    reload_grace_seconds: float = 0.0
    """As ``ChainSettings.reload_grace_seconds``."""
    path: tuple[str, ...] = ()
    """Where Python looks for modules."""


class WorkerReadiness(msgspec.Struct, frozen=True):
    """What a worker answers to its plan."""

    error: str = ""
    """Why it cannot be carried out; empty where it can."""


_SERVICE_NAMES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}


@dataclasses.dataclass(frozen=True, slots=True)
class IsolatedControllers:
    """The controllers of a service that are somebody else's."""

    origins: Mapping[str, str]
    """Where each comes from, by name."""
    configurations: Mapping[str, JSON]
    """What each is told, by name."""
    settings: ChainSettings
    phase: Phase
    isolation: Isolation
    chain: str = ""
    """The digest of the chain."""
    provisions: bool = False
    """Whether the chain makes the namespaces that are missing."""

    def concerns(self, controller: Controller) -> bool:
        """Tell whether a controller gets a process of its own."""
        return (
            self.isolation is Isolation.PROCESS
            and controller.name in self.origins
            and self.phase in controller.phases
        )

    async def start(
        self, controllers: Sequence[Controller], stack: contextlib.AsyncExitStack
    ) -> list[HostedController]:
        """Start their processes, side by side; they end with ``stack``.

        Raises:
            ConfigurationError: one of them cannot be loaded or configured.
        """
        if not controllers:
            return []
        # Here, because most services host nobody else's.
        from pratique.hosting.isolated_controllers import IsolatedController  # noqa: PLC0415

        starts = [IsolatedController.start(self._plan(one), may_patch=one.may_patch) for one in controllers]
        started = await asyncio.gather(*starts, return_exceptions=True)
        for one in started:
            if isinstance(one, IsolatedController):
                stack.push_async_callback(one.close)
        for one in started:
            if isinstance(one, BaseException):
                raise one
        return [
            host_elsewhere(controller, self.configurations.get(controller.name), one.handlers)
            for controller, one in zip(controllers, started, strict=True)
            if isinstance(one, IsolatedController)
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
            chain=self.chain,
            reload_grace_seconds=self.settings.reload_grace_seconds,
        )


_log = logging.getLogger(__name__)


class _HostWithInputs(Protocol):
    def with_inputs(self, cluster: Cluster, handlers: Mapping[str, Handler]) -> Self: ...


H = TypeVar("H", bound=_HostWithInputs)
H_co = TypeVar("H_co", bound=_HostWithInputs, covariant=True)


class _HostFactory(Protocol[H_co]):
    """Makes what runs controllers."""

    def __call__(
        self, hosted: Sequence[HostedController], cluster: Cluster, *, provisions: bool = False
    ) -> H_co:
        """Run ``hosted``, which look things up in ``cluster``; with ``provisions_namespaces`` namespaces are made."""


"""What runs controllers."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostedChain(Generic[H]):
    """What a service hosts."""

    controllers: tuple[HostedController, ...]
    """The controllers that are on and have that half, in chain order."""
    cluster: ReloadableCluster
    """What they look things up in; it changes when its files do."""
    held: RecentInputs[H]
    """What runs them, by what they decide by: their configuration and cluster now, and those before for a while."""
    reloads: Sequence[ReloadCounts] = ()
    """How often that and the configuration were read again."""


@contextlib.asynccontextmanager
async def host_chain(
    settings: ChainSettings,
    phase: Phase,
    host_of: _HostFactory[H],
    isolation: Isolation = Isolation.THREAD,
) -> AsyncIterator[HostedChain[H]]:
    """Make ready what the settings name, and keep the cluster up to date; at the end, close the controllers.

    Args:
        settings: What is in the chain.
        phase: The half of it that is hosted. Controllers without that half get their settings all the same, so that
            every service refuses the same ones.
        host_of: Makes what runs controllers that look things up in a cluster.
        isolation: Where the controllers of other packages run.

    Raises:
        ConfigurationError: a file cannot be used, or a flag names no controller.
    """
    async with contextlib.AsyncExitStack() as stack:
        catalogue = load_catalogue()
        selected = catalogue.select(settings)
        configurations = load_plugin_configurations(settings)
        chain, making = chain_digest(selected, configurations), provisions_namespaces(selected)
        apart = IsolatedControllers(
            catalogue.origins, configurations, settings, phase, isolation, chain, making
        )
        everything = catalogue.configure(
            [one for one in selected if not apart.concerns(one)],
            configurations,
            settings.admission_control_config_file,
        )
        for one in everything:
            stack.push_async_callback(one.handlers.close)
        here = [one for one in everything if phase in one.controller.phases]
        isolated = await apart.start([one for one in selected if apart.concerns(one)], stack)
        hosted = {one.controller.name: one for one in (*here, *isolated)}
        controllers = tuple(hosted[one.name] for one in selected if one.name in hosted)
        inputs = ReloadedInputs(
            settings, chain, here, lambda cluster: host_of(controllers, cluster, provisions=making)
        )
        await stack.enter_async_context(inputs.kept())
        yield HostedChain(controllers, inputs.cluster, inputs.held, inputs.reloads)


class ReloadedInputs(Generic[H]):
    """What ``--config`` and ``--cluster`` hold, now and whenever it changes, and what runs controllers by it."""

    def __init__(
        self,
        settings: ChainSettings,
        chain: str,
        controllers: Sequence[HostedController],
        host_of: Callable[[Cluster], H],
    ) -> None:
        """Read everything for the first time.

        Args:
            settings: Where it is.
            chain: The digest of the chain.
            controllers: Get the configurations.
            host_of: Makes what runs controllers that look things up in a cluster.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        self._controllers = controllers
        self._chain = chain
        self._configuration = Reloaded(
            "configuration", lambda: load_configurations(settings.config), settings.config
        )
        self._cluster = Reloaded("cluster", lambda: load_cluster(settings.cluster), settings.cluster or ())
        self._watched: list[Reloaded[Any]] = [
            one for one in (self._configuration, self._cluster) if one.paths
        ]
        self.reloads: Sequence[ReloadCounts] = [one.reloads for one in self._watched]
        """What is known of each reading."""
        self.cluster = ReloadableCluster(self._cluster.value)
        """The cluster as it is now."""
        self._handlers = self._use(self._configuration.value)
        self._host = host_of(self._cluster.value)
        self._configuration_digest = configuration_digest(self._configuration.value)
        self._cluster_digest = cluster_digest(self._cluster.value)
        self.held: RecentInputs[H] = RecentInputs(
            self._digests,
            self._host.with_inputs(self._cluster.value, self._handlers),
            settings.reload_grace_seconds,
        )
        """What runs the controllers, by what they decide by."""
        self._configuration.add_listener(self._take_configurations)
        self._cluster.add_listener(self._take_cluster)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keep them up to date until this ends, and let controllers do what they do beside reviews."""
        async with _background_tasks() as followers:
            for each in self._watched:
                followers.add(asyncio.create_task(keep_reloading([each]), name=f"{each.name} files"))
            for one in self._controllers:
                following = asyncio.create_task(
                    one.handlers.run_in_background(self.cluster), name=one.controller.name
                )
                following.add_done_callback(_log_background_failure)
                followers.add(following)
            try:
                yield
            finally:
                self.held.close()

    @property
    def _digests(self) -> InputDigests:
        return InputDigests.of(self._chain, self._configuration_digest, self._cluster_digest)

    def _use(self, configurations: Configurations) -> Mapping[str, Handler]:
        used = {
            one.controller.name: one.handlers.use_configurations(configurations) for one in self._controllers
        }
        return {name: handler for name, handler in used.items() if handler is not None}

    async def _take_configurations(self, configurations: Configurations) -> None:
        digest = await asyncio.to_thread(configuration_digest, configurations)
        self._handlers = self._use(configurations)
        self._configuration_digest = digest
        self._take_up()

    async def _take_cluster(self, cluster: ObjectStore) -> None:
        self._cluster_digest = await asyncio.to_thread(cluster_digest, cluster)
        self.cluster.swap(cluster)
        self._take_up()

    def _take_up(self) -> None:
        self.held.switch_to(self._digests, self._host.with_inputs(self.cluster.current, self._handlers))


@contextlib.asynccontextmanager
async def _background_tasks() -> AsyncIterator[set[asyncio.Task[None]]]:
    """Tasks that run until this ends; one that breaks ends alone."""
    tasks: set[asyncio.Task[None]] = set()
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_background_failure(task: asyncio.Task[None]) -> None:
    """Say at once that what a controller does beside reviews has broken, and is not done any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        where = {"controller": task.get_name(), "reason": type(error).__name__}
        _log.error("what a controller does beside reviews broke", extra=where)
