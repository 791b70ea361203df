"""Which controllers of a chain run in processes of their own, and their start with the service."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from typing import TYPE_CHECKING

from pratique.definitions import Phase
from pratique.hosted_controllers import HostedController, apart
from pratique.isolation.modes import Isolation
from pratique.isolation.plans import Plan

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

    from pratique.definitions import Controller
    from pratique.json_values import JSON
    from pratique.settings import ChainSettings

_SERVICES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}


@dataclasses.dataclass(frozen=True, slots=True)
class Apart:
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
        from pratique.isolation.isolated_controllers import IsolatedController  # noqa: PLC0415

        starts = [IsolatedController.start(self._plan(one), amends=one.amends) for one in controllers]
        started = await asyncio.gather(*starts, return_exceptions=True)
        for one in started:
            if isinstance(one, IsolatedController):
                stack.push_async_callback(one.close)
        for one in started:
            if isinstance(one, BaseException):
                raise one
        return [
            apart(controller, self.configurations.get(controller.name), one.halves)
            for controller, one in zip(controllers, started, strict=True)
            if isinstance(one, IsolatedController)
        ]

    def _plan(self, controller: Controller) -> Plan:
        file = self.settings.admission_control_config_file
        cluster = self.settings.cluster
        return Plan(
            service=_SERVICES[self.phase],
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
