"""Runs the front door as a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import uvloop

from pratique.apimachinery.errors import ConfigurationError
from pratique.processes.allocator import keep_freed_memory_beside_connections
from pratique.processes.garbage_collection import freeze_loaded
from pratique.processes.thread_pool import set_switch_interval
from pratique.telemetry.logs import configure_logging, log_loop_error
from pratique.telemetry.loop_watchdog import LoopWatchdog
from pratique.telemetry.tracing import open_tracing
from pratique_frontdoor.engines.engine import Engine, open_remote
from pratique_frontdoor.http.app import build_app
from pratique_frontdoor.http.servers import FrontDoorServer, raise_open_file_limit
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from pratique_frontdoor.console.live import LiveDecisions


def announce(url: str) -> None:
    """Print that the front door listens, for the process that started it."""
    print(f"pratique: frontdoor ready on {url}", flush=True)  # noqa: T201 - the process that starts it waits for this line


async def serve(
    settings: FrontDoorSettings, engine: Engine, announce: Callable[[str], None] = announce
) -> None:
    """Serve until SIGTERM or SIGINT, finish requests in flight and their records, and close the engine.

    Raises:
        ConfigurationError: the certificate is unusable, the address cannot be listened on, the recording or the
            decision log cannot be written, or the console's pages cannot be served.
    """
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    recorder, tracing, decision_log, live = None, None, None, None
    try:
        tracing = open_tracing("frontdoor")
        if settings.console:
            live = _open_live()
        if settings.record is not None or live is not None:
            from pratique_frontdoor.recording.recorders import open_recorder  # noqa: PLC0415 - few front doors record

            recorder = open_recorder(settings, live)
        if settings.decision_log is not None:
            from pratique_frontdoor.decision_logs.writers import open_decision_log  # noqa: PLC0415 - likewise

            decision_log = open_decision_log(settings)
        with LoopWatchdog() as watchdog:
            app = build_app(
                engine, settings, recorder, tracing, decision_log, live=live, collectors=[watchdog]
            )
            server = FrontDoorServer(app, settings, announce)
            freeze_loaded()
            await server.serve()
    finally:
        if recorder is not None:
            recorder.close()
        if decision_log is not None:
            decision_log.close()
        if tracing is not None:
            tracing.close()
        await engine.close()


def _open_live() -> LiveDecisions:
    """Return what keeps decisions for the console.

    Raises:
        ConfigurationError: the extra ``console`` is not installed.
    """
    if find_spec("jinja2") is None:
        problem = "--console needs jinja2, which is not installed: pip install 'pratique[console]'"
        raise ConfigurationError(problem)
    from pratique_frontdoor.console.live import LiveDecisions  # noqa: PLC0415 - few front doors have a console

    return LiveDecisions()


def run(
    settings: FrontDoorSettings,
    open_engine: Callable[[FrontDoorSettings], Awaitable[Engine]] = open_remote,
) -> None:
    """Configure logging, open the engine in the event loop that will serve it, and serve.

    Raises:
        ConfigurationError: as ``serve``, or as ``open_engine``.
    """
    configure_logging("frontdoor")
    raise_open_file_limit()
    keep_freed_memory_beside_connections()
    set_switch_interval()

    async def main() -> None:
        await serve(settings, await open_engine(settings))

    uvloop.run(main())
