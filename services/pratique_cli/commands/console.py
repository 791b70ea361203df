"""``pratique console``."""

from __future__ import annotations

from pathlib import Path

import click

from pratique.apimachinery.errors import ConfigurationError, InputError, ListenError
from pratique.configuration.settings import ChainSettings
from pratique_cli.exit_codes import ExitCode
from pratique_cli.extras import install_advice
from pratique_cli.loading import check_chain
from pratique_cli.options import ExistingPath, WholeNumber, flag, timeout_flag
from pratique_cli.replays.recording_replays import RecordingReplayer
from pratique_cli.reviews.playground import OfflinePlayground
from pratique_frontdoor.console.recording import Recording

DEFAULT_PORT = 8081
MAX_PORT = 65535

EPILOG = """\b
The playground decides what you type as pratique review would, and shows the
chain, the object before and after, and who set each field. It listens on
127.0.0.1, so nobody else can reach it. It charges no quota, and names the
webhooks of your configuration without calling them. With --call-webhooks, a
box on the page lets it call them, as dry runs.

\b
Examples:
  pratique console
  pratique console --port 0 --config policies/ --cluster cluster/
  pratique console --record reviews.jsonl
"""


@click.command("console", epilog=EPILOG)
@flag(
    "--port",
    type=WholeNumber(0, MAX_PORT),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port on 127.0.0.1; 0 picks a free one.",
)
@flag(
    "--config",
    type=ExistingPath(),
    multiple=True,
    help="Policies that apply besides those of the page: a file or a folder. Repeatable.",
)
@flag(
    "--cluster",
    type=ExistingPath(),
    multiple=True,
    help="Objects that exist besides those of the page: a file or a folder. Repeatable.",
)
@flag(
    "--record",
    type=ExistingPath(folders=False),
    help="A recording (pratique record) whose decisions to show. It may still be written to.",
)
@flag(
    "--call-webhooks",
    is_flag=True,
    help="Let the playground call webhooks while its box `Call webhooks` is ticked: those of --config and of the page.",
)
@timeout_flag("each review")
def command(
    port: int,
    config: tuple[Path, ...],
    cluster: tuple[Path, ...],
    record: Path | None,
    *,
    call_webhooks: bool,
    timeout: float,
) -> int:
    """Try manifests and policies in a browser, and look at recorded decisions, on this machine alone."""
    try:
        from pratique_frontdoor.console.app import serve_console  # noqa: PLC0415 - needs the extra `console`
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        problem = f"the console needs jinja2, which is not installed: {install_advice('console')}"
        raise ConfigurationError(problem) from None
    chain = ChainSettings(config=config, cluster=cluster or None)
    check_chain(chain)
    playground = OfflinePlayground(chain, timeout, may_call_webhooks=call_webhooks)
    recording = None if record is None else _open_recording(record)
    replayer = None
    if recording is not None and record is not None:
        replayer = RecordingReplayer(record, chain, timeout, recording.number_of)
    try:
        serve_console(
            playground, recording, replayer, port, lambda url: click.echo(f"pratique: console on {url}")
        )
    except OSError as error:
        raise ListenError(error, {"port": port}) from None
    finally:
        if replayer is not None:
            replayer.stop()
    return ExitCode.ADMITTED


def _open_recording(path: Path) -> Recording:
    if not path.is_file():
        raise ConfigurationError(f"--record {path}: give a file, not a pipe or a device")
    try:
        return Recording(path)
    except InputError as error:
        raise ConfigurationError(f"--record {error}") from None
    except OSError as error:
        raise ConfigurationError(f"--record {path}: cannot be read: {error.strerror}") from None
