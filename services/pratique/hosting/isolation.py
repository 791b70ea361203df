"""Which controllers of a chain run in processes of their own, and their start with the service."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Phase
from pratique.apimachinery.json_values import JSON
from pratique.configuration.settings import Isolation
from pratique.hosting.configured_controllers import HostedController, host_elsewhere

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

    from pratique.admission.controllers import Controller
    from pratique.apimachinery.json_values import JSON
    from pratique.configuration.settings import ChainSettings


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
