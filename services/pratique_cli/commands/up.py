"""``pratique up``."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click

from pratique.apimachinery.errors import ListenError
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.chain_options import chain_flags, live_flags
from pratique_cli.exit_codes import ExitCode, end_by
from pratique_cli.loading import check_chain
from pratique_cli.local_stack import Stack
from pratique_cli.options import PORT, WholeNumber, flag
from pratique_cli.service_options import front_door_flags
from pratique_cli.supervisor import StartError, until_stdin_closes_flag
from pratique_cli.terminal import palette_for, printable

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_START_SECONDS = 300.0
"""How long the stack may take to become healthy; a slow laptop takes 5 s, a busy machine over a minute."""
_TELL_SECONDS = 15.0
"""How often a start that takes longer than that tells what it waits for."""

EPILOG = """\b
Examples:
  pratique up
  pratique up --config webhooks/ --cluster cluster/ --validators 4
  pratique up --port 0        picks a free port and prints it
  pratique up --record reviews.jsonl
  pratique up --enable-admission-plugins RequireTeam --reload

\b
Then:
  curl -H 'Content-Type: application/json' -d @review.json http://127.0.0.1:8080/admit
"""


@click.command("up", epilog=EPILOG)
@flag(
    "--validators",
    type=WholeNumber(1, 64),
    default=2,
    show_default=True,
    help="Number of validators; the front door distributes its calls among them.",
)
@flag("--host", default="127.0.0.1", show_default=True, help="Address of the front door.")
@flag(
    "--port",
    type=PORT,
    default=8080,
    show_default=True,
    help="Port of the front door; 0 picks a free one.",
)
@flag(
    "--reload",
    is_flag=True,
    help="Restart the services when Python files of installed policies change.",
)
@front_door_flags
@until_stdin_closes_flag
@chain_flags
@live_flags
def command(
    chain: ChainSettings,
    *,
    validators: int,
    host: str,
    port: int,
    reload: bool,
    front_door: tuple[str, ...],
) -> int:
    """Run the local stack: front door, mutator and validators, each in its own process.

    Prints one line to standard output once every service is healthy, and runs until Ctrl-C. Then everything
    drains; a second Ctrl-C ends it at once. A service that exits is restarted. The services' output goes to
    standard error. With --reload, policies that cannot be loaded are reported, and the services from before
    keep running.
    """
    check_chain(chain)
    _check_address(host, port)
    tell = _line_printer()
    stack = Stack(chain, validators=validators, host=host, port=port, tell=tell, front_door=front_door)
    background = functools.partial(_reload_policies, stack, chain, tell) if reload else _nothing
    return asyncio.run(_run(stack, background, tell))


def _check_address(host: str, port: int) -> None:
    """Check that the front door can listen there, before anything starts."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
    except OSError as error:
        raise ListenError(error, {"host": host, "port": port}) from None


def _line_printer() -> Callable[[str, str], None]:
    palette = palette_for(sys.stderr, colour=None)

    def tell(name: str, line: str) -> None:
        label = palette.paint(f"[{name}]", "bold" if name == "pratique" else "dim")
        # If standard error is closed, the stack goes on.
        with contextlib.suppress(OSError):
            click.echo(f"{label} {line}", err=True, color=palette.colour)

    return tell


async def _nothing() -> None:
    """Without ``--reload`` nothing happens beside the stack."""


async def _reload_policies(stack: Stack, chain: ChainSettings, tell: Callable[[str, str], None]) -> None:
    """Replace the services whenever the files of policies change, unless something is wrong with the policies."""
    from pratique_cli.policy_reloads import PolicyFiles, find_policy_problem  # noqa: PLC0415 - only --reload

    origins = load_catalogue().origins
    if not origins:
        tell("pratique", "nothing to reload: no policies in Python are installed")
        return
    files = PolicyFiles(origins.values())
    tell("pratique", f"watches {' '.join(printable(str(folder)) for folder in files.folders())}")
    async for changed in files.changes():
        tell("pratique", f"{' '.join(printable(str(path)) for path in changed)} changed; restarting")
        problem = await asyncio.to_thread(find_policy_problem, chain, files.states())
        try:
            if problem is None:
                async with asyncio.timeout(_START_SECONDS):
                    await stack.replace()
        except StartError as error:
            problem = str(error)
        except TimeoutError:
            problem = f"not healthy after {_START_SECONDS:g} s: {stack.waits_for}"
        if problem is None:
            tell("pratique", f"ready again on {stack.url}")
        else:
            shown = printable("; ".join(problem.splitlines()))
            tell("pratique", f"{shown}; the services from before keep running")


async def _run(
    stack: Stack, background: Callable[[], Coroutine[Any, Any, None]], tell: Callable[[str, str], None]
) -> ExitCode:
    """Run the stack until a signal, with ``background`` beside it once it is healthy."""
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in _STOPPING:
        loop.add_signal_handler(number, signals.put_nowait, number)
    starting = asyncio.create_task(_start(stack, tell))
    signalled = asyncio.create_task(signals.get())
    await asyncio.wait({starting, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    code = _start_exit_code(starting, stack)
    try:
        if code is ExitCode.ADMITTED:
            await _until_signal(signalled, background)
    finally:
        signalled.cancel()
        await _stop(stack, signals)
    return code


async def _until_signal(
    signalled: asyncio.Task[signal.Signals], background: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    beside = asyncio.create_task(background())
    await asyncio.wait({beside, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if not signalled.done() and beside.exception() is None:
        await signalled
    beside.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await beside


async def _start(stack: Stack, tell: Callable[[str, str], None]) -> None:
    telling = asyncio.create_task(_tell_delays(stack, tell))
    try:
        async with asyncio.timeout(_START_SECONDS):
            url = await stack.start()
    finally:
        telling.cancel()
    click.echo(f"pratique: ready on {url}")


async def _tell_delays(stack: Stack, tell: Callable[[str, str], None]) -> None:
    while True:
        await asyncio.sleep(_TELL_SECONDS)
        tell("pratique", printable(f"not healthy yet: {stack.waits_for}"))


def _start_exit_code(starting: asyncio.Task[None], stack: Stack) -> ExitCode:
    error = None if starting.cancelled() else starting.exception()
    match error:
        case None:
            return ExitCode.ADMITTED
        case StartError():
            click.echo(f"pratique: {error}", err=True)
            return ExitCode.BAD_INPUT if error.code == ExitCode.BAD_INPUT else ExitCode.BROKEN
        case TimeoutError():
            problem = f"not healthy after {_START_SECONDS:g} s: {stack.waits_for}"
            click.echo(f"pratique: {printable(problem)}", err=True)
            return ExitCode.BROKEN
        case _:
            raise error


async def _stop(stack: Stack, signals: asyncio.Queue[signal.Signals]) -> None:
    """Drain everything; a second signal ends it at once."""
    stopping = asyncio.create_task(stack.stop())
    again = asyncio.create_task(signals.get())
    await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await asyncio.wait({stopping})
        await stack.kill()
        end_by(again.result())
    again.cancel()
    await stopping
