"""The local stack of ``pratique up``: a mutator, validators and the front door, started and stopped in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import secrets
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.ledger import has_ledger_url, with_ledger_url
from pratique_cli import extras
from pratique_cli.chain_options import chain_arguments, chain_variables
from pratique_cli.supervisor import ServiceCommand, Supervisor

extras.require("grpc")  # imported while the front door starts

_LOOPBACK = "127.0.0.1"
_BETWEEN_PROBES_SECONDS = 0.05
_PROBE_SECONDS = 2.0
"""The timeout of one probe, as in a container's health check."""


class Stack:
    """The services of one chain, as processes on this machine."""

    def __init__(
        self,
        chain: ChainSettings,
        *,
        validators: int,
        host: str,
        port: int,
        tell: Callable[[str, str], None],
        front_door: tuple[str, ...] = (),
    ) -> None:
        """The front door listens on ``host`` and ``port`` (0: a free one), the other services on the loopback.

        ``front_door`` are additional flags for the front door.

        Raises:
            ConfigurationError: the chain's AdmissionConfiguration cannot be used.
        """
        # Open to this user alone, so that nobody else reads the key in it.
        self._folder = tempfile.TemporaryDirectory(prefix="pratique-")
        shared = chain if has_ledger_url(chain) else _with_shared_ledger(chain, self._folder.name)
        key = _write_key(Path(self._folder.name))
        self._shared_flags = ("--checks-key-file", str(key))
        self._chain = tuple(chain_arguments(shared))
        self._variables = chain_variables(shared)
        self._host = host
        self._port = port
        self._tell = tell
        self._front_door_flags = front_door
        self._validators = validators
        self._backends = self._create_backends()
        self._front_door: Supervisor | None = None
        self.waits_for = "services that do not say that they are ready"
        """Why the stack is not healthy yet, while it starts."""

    async def start(self) -> str:
        """Start all services, wait until they are healthy, and return the front door's URL.

        Raises:
            StartError: a service ended before it was ready.
        """
        targets = await _start_all(self._backends)
        self._front_door = self._create_front_door(targets)
        healthy = asyncio.create_task(self._until_all_healthy(targets))
        try:
            self._port = await self._front_door.start()
            await healthy
        finally:
            healthy.cancel()
        await self._until_healthy(self._front_door_problem)
        return self.url

    async def replace(self) -> None:
        """Replace all services by new processes; the old ones stay if the new ones do not start.

        New backends start beside the old ones. The front door keeps its port, so that it stops before its successor
        starts.

        Raises:
            StartError: a new service ended before it was ready.
        """
        backends = self._create_backends()
        try:
            targets = await _start_all(backends)
            await self._until_all_healthy(targets)
            await self._replace_front_door(self._create_front_door(targets))
        except BaseException:
            await asyncio.gather(*(keeper.kill() for keeper in backends))
            raise
        replaced, self._backends = self._backends, backends
        await asyncio.gather(*(keeper.stop() for keeper in replaced))

    async def _replace_front_door(self, successor: Supervisor) -> None:
        replaced = self._front_door
        if replaced is not None:
            await replaced.stop()
        try:
            await successor.start()
            await self._until_healthy(self._front_door_problem)
        except BaseException as error:
            await successor.kill()
            if replaced is not None and isinstance(error, Exception):
                await replaced.start()
            raise
        self._front_door = successor

    @property
    def url(self) -> str:
        """The URL of the front door."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"

    async def stop(self) -> None:
        """Drain the front door first, because reviews in flight need the other services; then those."""
        if self._front_door is not None:
            await self._front_door.stop()
        await asyncio.gather(*(keeper.stop() for keeper in self._backends))
        self._forget()

    async def kill(self) -> None:
        """Kill all services."""
        doors = [] if self._front_door is None else [self._front_door]
        await asyncio.gather(*(keeper.kill() for keeper in [*doors, *self._backends]))
        self._forget()

    def _forget(self) -> None:
        """Remove the key, the sockets, and the temporary ledger."""
        self._folder.cleanup()

    async def _until_healthy(self, unhealthy: Callable[[], str | None]) -> None:
        while (reason := await asyncio.to_thread(unhealthy)) is not None:
            self.waits_for = reason
            await asyncio.sleep(_BETWEEN_PROBES_SECONDS)

    async def _until_all_healthy(self, targets: list[str]) -> None:
        for target in targets:
            await self._until_healthy(functools.partial(_backend_problem, target))

    def _create_backends(self) -> list[Supervisor]:
        """The mutator, and then the validators."""
        validators = [self._backend("validator", f"validator-{n}") for n in range(1, self._validators + 1)]
        return [self._backend("mutator", "mutator"), *validators]

    def _create_front_door(self, targets: list[str]) -> Supervisor:
        return Supervisor(self._front_door_command(targets[0], targets[1:]), self._port, self._tell)

    def _backend(self, kind: str, name: str) -> Supervisor:
        # Several services share this machine, so each picks a free port for its metrics and logs it.
        arguments = (kind, "--host", _LOOPBACK, "--metrics-port", "0", *self._shared_flags, *self._chain)
        return Supervisor(ServiceCommand(name, arguments, self._variables), 0, self._tell)

    def _front_door_command(self, mutator: str, validators: list[str]) -> ServiceCommand:
        addresses = ("--host", self._host, "--mutator", mutator, "--validator", ",".join(validators))
        flags = (*self._shared_flags, *self._front_door_flags, *self._chain)
        # No load balancer has to notice that this front door stops, so it need not wait.
        arguments = ("frontdoor", *addresses, "--drain-seconds", "0", *flags)
        return ServiceCommand("frontdoor", arguments, self._variables)

    def _front_door_problem(self) -> str | None:
        host = {"0.0.0.0": _LOOPBACK, "::": "::1"}.get(self._host, self._host)  # noqa: S104 - asks there
        connection = http.client.HTTPConnection(host, self._port, timeout=_PROBE_SECONDS)
        try:
            with contextlib.closing(connection):
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                reasons = answer.read().decode(errors="replace").split()
        except (OSError, http.client.HTTPException) as error:
            reasons = [type(error).__name__]
        else:
            if answer.status == http.HTTPStatus.OK:
                return None
        return " ".join(["frontdoor:", *reasons])


def _backend_problem(target: str) -> str | None:
    from pratique.rpc.probes import probe  # noqa: PLC0415 - gRPC, while the front door starts

    return probe(target)


def _write_key(folder: Path) -> Path:
    """Write a key that only these services get: nobody else on this machine may read the folder."""
    file = folder / "checks.key"
    file.write_text(secrets.token_hex(32))
    return file


def _with_shared_ledger(chain: ChainSettings, folder: str) -> ChainSettings:
    """Let all validators share one ledger, which lasts as long as the stack."""
    return with_ledger_url(chain, str(Path(folder, "quotas.sqlite")))


async def _start_all(keepers: Iterable[Supervisor]) -> list[str]:
    """Start services, and return their addresses."""
    ports = await _gather_started(keeper.start() for keeper in keepers)
    return [f"{_LOOPBACK}:{port}" for port in ports]


async def _gather_started(starts: Iterable[Coroutine[None, None, int]]) -> list[int]:
    """Wait for all starts, even if one fails, so that every process can be stopped."""
    started = await asyncio.gather(*starts, return_exceptions=True)
    for result in started:
        if isinstance(result, BaseException):
            raise result
    return [result for result in started if isinstance(result, int)]
