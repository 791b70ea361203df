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
from pratique.configurations.admission import load_admission_configuration
from pratique.watching import Reloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pratique.hosted_controllers import HostedController
    from pratique.settings import ChainSettings

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Hosting:
    """What a service hosts."""

    controllers: tuple[HostedController, ...]
    """The controllers that are on, in chain order."""
    cluster: ReloadableCluster
    """What they look things up in; it changes when its files do."""


@contextlib.asynccontextmanager
async def hosting(settings: ChainSettings) -> AsyncIterator[Hosting]:
    """Make ready what the settings name, and keep the cluster up to date; at the end, close the controllers.

    Raises:
        ConfigurationError: a file cannot be used, or a flag names no controller.
    """
    async with contextlib.AsyncExitStack() as stack:
        controllers = _configured(settings)
        for one in controllers:
            stack.push_async_callback(one.halves.close)
        cluster = ReloadableCluster(load_cluster(None))
        if settings.cluster is not None:
            stack.callback(_follow(settings, cluster).cancel)
        yield Hosting(controllers, cluster)


def _configured(settings: ChainSettings) -> tuple[HostedController, ...]:
    catalogue = load_catalogue()
    file = settings.admission_control_config_file
    configurations = {} if file is None else load_admission_configuration(file)
    return catalogue.configure(catalogue.select(settings), configurations, file)


def _follow(settings: ChainSettings, cluster: ReloadableCluster) -> asyncio.Task[None]:
    """Fill the cluster from its files, now and whenever they change."""
    paths = settings.cluster or ()
    files = Reloaded(lambda: load_cluster(paths), paths, on_change=cluster.swap, on_error=_tell)
    cluster.swap(files.value)
    return asyncio.create_task(files.run(), name="cluster files")


def _tell(error: Exception) -> None:
    _log.error(
        "changed cluster files cannot be used; what was read before stays", extra={"reason": str(error)}
    )
