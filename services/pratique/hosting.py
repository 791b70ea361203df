"""What a service hosts: the controllers of its chain, and the cluster that they look things up in."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING

from pratique.catalogues import load_catalogue
from pratique.cluster_files import load_cluster
from pratique.clusters import ReloadableCluster
from pratique.configurations.load import load_configurations
from pratique.isolation.apart import Apart
from pratique.isolation.modes import Isolation
from pratique.plugin_configurations import load_plugin_configurations
from pratique.provisioning import provisions
from pratique.reloading import Reloaded, keep_reloading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pratique.configurations.all_configurations import Configurations
    from pratique.definitions import Phase
    from pratique.hosted_controllers import HostedController
    from pratique.measures.reloads import Reloads
    from pratique.settings import ChainSettings

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosting:
    """What a service hosts."""

    controllers: tuple[HostedController, ...]
    """The controllers that are on and have that half, in chain order."""
    cluster: ReloadableCluster
    """What they look things up in; it changes when its files do."""
    reloads: Sequence[Reloads] = ()
    """How often that and the configuration were read again."""
    provisions: bool = False
    """Whether the chain, all of it, makes the namespaces that are missing."""


@contextlib.asynccontextmanager
async def hosting(
    settings: ChainSettings, phase: Phase, isolation: Isolation = Isolation.THREAD
) -> AsyncIterator[Hosting]:
    """Make ready what the settings name, and keep the cluster up to date; at the end, close the controllers.

    Args:
        settings: What is in the chain.
        phase: The half of it that is hosted. Controllers without that half get their settings all the same, so that
            every service refuses the same ones.
        isolation: Where the controllers of other packages run.

    Raises:
        ConfigurationError: a file cannot be used, or a flag names no controller.
    """
    async with contextlib.AsyncExitStack() as stack:
        catalogue = load_catalogue()
        selected = catalogue.select(settings)
        configurations = load_plugin_configurations(settings)
        apart = Apart(catalogue.origins, configurations, settings, phase, isolation, provisions(selected))
        everything = catalogue.configure(
            [one for one in selected if not apart.concerns(one)],
            configurations,
            settings.admission_control_config_file,
        )
        for one in everything:
            stack.push_async_callback(one.halves.close)
        here = [one for one in everything if phase in one.controller.phases]
        isolated = await apart.start([one for one in selected if apart.concerns(one)], stack)
        hosted = {one.controller.name: one for one in (*here, *isolated)}
        controllers = tuple(hosted[one.name] for one in selected if one.name in hosted)
        reloads: list[Reloads] = []
        cluster = await stack.enter_async_context(hosting_of(settings, here, reloads))
        yield Hosting(controllers, cluster, reloads, provisions(selected))


@contextlib.asynccontextmanager
async def hosting_of(
    settings: ChainSettings, controllers: Sequence[HostedController], reloads: list[Reloads] | None = None
) -> AsyncIterator[ReloadableCluster]:
    """Give controllers what ``--config`` and ``--cluster`` hold, now and whenever it changes; gives the cluster.

    ``reloads`` gets what is known of each reading.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    cluster, reloads = ReloadableCluster(load_cluster(None)), [] if reloads is None else reloads
    async with _followers() as followers:
        followers.update(_use_configurations(settings, controllers, reloads))
        if settings.cluster is not None:
            followers.add(_follow(settings, cluster, reloads))
        for one in controllers:
            following = asyncio.create_task(one.halves.follow(cluster), name=one.controller.name)
            following.add_done_callback(_tell_broken)
            followers.add(following)
        yield cluster


def _use_configurations(
    settings: ChainSettings, controllers: Sequence[HostedController], reloads: list[Reloads]
) -> Iterator[asyncio.Task[None]]:
    """Give controllers what ``--config`` holds, now and whenever it changes."""

    def use(configurations: Configurations) -> None:
        for one in controllers:
            one.halves.use(configurations)

    files = Reloaded("configuration", lambda: load_configurations(settings.config), settings.config)
    files.tell(use)
    use(files.value)
    if settings.config:
        reloads.append(files.reloads)
        yield asyncio.create_task(keep_reloading([files]), name="configuration files")


@contextlib.asynccontextmanager
async def _followers() -> AsyncIterator[set[asyncio.Task[None]]]:
    """Tasks that run until this ends; one that breaks ends alone."""
    tasks: set[asyncio.Task[None]] = set()
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell_broken(task: asyncio.Task[None]) -> None:
    """Say at once that what a controller does beside reviews has broken, and is not done any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        where = {"controller": task.get_name(), "reason": type(error).__name__}
        _log.error("what a controller does beside reviews broke", extra=where)


def _follow(
    settings: ChainSettings, cluster: ReloadableCluster, reloads: list[Reloads]
) -> asyncio.Task[None]:
    """Fill the cluster from its files, now and whenever they change."""
    paths = settings.cluster or ()
    files = Reloaded("cluster", lambda: load_cluster(paths), paths)
    files.tell(cluster.swap)
    reloads.append(files.reloads)
    cluster.swap(files.value)
    return asyncio.create_task(keep_reloading([files]), name="cluster files")
