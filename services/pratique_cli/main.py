"""The ``pratique`` program: its commands, and the handler that turns every error into one message."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from pratique_cli.exit_codes import ExitCode, end_by, handling_interrupts
from pratique_cli.extras import missing_extra

HELP_FLAGS = ("-h", "--help")
COMPLETION_VARIABLE = "_PRATIQUE_COMPLETE"
"""In the environment if a shell asks for completions."""


class LazyGroup(click.Group):
    """A group that lists its commands by name and summary, and imports only the command that runs.

    This saves start-up time: ``pratique version`` does not import gRPC and the engine.
    """

    def __init__(self, *args: Any, folder: str, summaries: Mapping[str, str], **kwargs: Any) -> None:
        """Load the command ``name`` from ``command`` in the module ``folder.name``."""
        super().__init__(*args, **kwargs)
        self._folder = folder
        for name, text in summaries.items():
            self.add_command(click.Command(name, short_help=text))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands in the order of ``summaries``."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command to run, and import its module."""
        name, found, rest = super().resolve_command(ctx, args)
        if found is None or name is None:
            return name, found, rest
        _collect_less_often()
        module = importlib.import_module(f"{self._folder}.{name.replace('-', '_')}")
        _print_log_records()
        command: click.Command = module.command
        return name, command, rest


def _collect_less_often() -> None:
    from pratique.processes.garbage_collection import collect_less_often  # noqa: PLC0415 - help and completion need none

    collect_less_often()


def _print_log_records() -> None:
    """Print what is logged where no service logs; a command that prints no problems saves the import."""
    if (terminal := sys.modules.get("pratique_cli.terminal")) is not None:
        terminal.print_log_records()


SUMMARIES = {
    "review": "Review manifests and AdmissionReviews offline, and explain the decisions.",
    "up": "Run the local stack: front door, mutator and validators.",
    "record": "Run the local stack, and record its reviews and decisions.",
    "replay": "Replay recorded reviews with another configuration, and show the differences.",
    "rollout": "Show what policies in shadow would have denied and changed.",
    "decision-log": "Check whether a decision log was changed.",
    "console": "Try manifests and policies in a browser, on this machine alone.",
    "serve": "Run one service in the foreground.",
    "check": "Validate configurations and policies.",
    "test": "Run test suites for policies.",
    "new": "Make a package with a policy in Python and its tests.",
    "prove": "Check that mutators can run again, and in any order.",
    "rules": "Write the webhook configurations that an API server needs.",
    "export": "Write Python policies as native ones where they can be said so, and tell what cannot.",
    "verify": "Check whether a service in any language keeps the gRPC contract.",
    "verify-images": "Verify the signatures of images with public keys.",
    "doctor": "Hold a live installation against good practice.",
    "snapshot": "Write what the chain needs of a live cluster, for --cluster and --config.",
    "bench": "Measure how fast your policies decide your manifests.",
    "budget": "Show how long each kind of request may take in admission.",
    "certs": "Make certificates for the services and their clients.",
    "quotas": "Show the usage of each ResourceQuota.",
    "plugins": "List the admission controllers, in chain order.",
    "completion": "Write the script that completes commands in your shell.",
    "version": "Show the version.",
}

EPILOG = """\b
Examples:
  pratique review deployment.yaml        what would a cluster decide, and why?
  pratique review --pod-security restricted deployment.yaml
                                         would its Pods run at that level?
  pratique up --config webhooks/         the whole chain on http://127.0.0.1:8080
  pratique plugins                       which controllers are on by default

\b
Every flag can be set by an environment variable: PRATIQUE_ and the flag in
capitals, such as PRATIQUE_CONFIG for --config; several paths are separated as
in PATH.

\b
Exit codes: 0 every request admitted, 1 at least one denied, 2 wrong usage or
unreadable input, 3 the program itself failed.
"""


@click.group(
    cls=LazyGroup,
    folder="pratique_cli.commands",
    summaries=SUMMARIES,
    context_settings={"help_option_names": HELP_FLAGS, "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(package_name="pratique", message="pratique %(version)s")
def root() -> None:
    """Kubernetes admission control: decides as kube-apiserver would, and says why."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and end the process."""
    with handling_interrupts():
        try:
            code = _run(arguments)
            _flush(sys.stdout)
        except KeyboardInterrupt:
            end_by(signal.SIGINT)
        except BrokenPipeError:
            end_by(signal.SIGPIPE)
        except OSError as error:
            _abandon_output()
            code = _report_error(f"standard output cannot be written: {error.strerror}", ExitCode.BROKEN)
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        # Names and messages may hold any character; a terminal or a pipe may not support it.
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # text streams of the process
    try:
        result = _invoke(arguments)
    except (click.Abort, KeyboardInterrupt):
        end_by(signal.SIGINT)
    except click.ClickException as error:
        return _report_usage_error(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the outermost handler: every error becomes a message
        return _report_exception(error)
    return result if isinstance(result, int) else ExitCode.ADMITTED


def _invoke(arguments: Sequence[str] | None) -> object:
    if COMPLETION_VARIABLE in os.environ:
        return root.main(arguments, prog_name="pratique")
    # click's main() exits with 1 if a pipe is closed, which would mean "denied".
    try:
        with root.make_context("pratique", list(sys.argv[1:] if arguments is None else arguments)) as context:
            return root.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def _report_usage_error(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return ExitCode.BAD_INPUT
    context = getattr(error, "ctx", None)
    hint = f"\nTry '{context.command_path} --help'." if context else ""
    return _report_error(error.format_message() + hint, ExitCode.BAD_INPUT)


def _report_exception(error: Exception) -> int:
    # Imported here, because commands that cannot fail this way do not need it.
    from pratique.apimachinery.errors import InputError  # noqa: PLC0415

    if os.environ.get("PRATIQUE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, InputError):
        return _report_error("\npratique: ".join(error.problems), ExitCode.BAD_INPUT)
    if isinstance(error, ModuleNotFoundError) and (problem := missing_extra(error)):
        return _report_error(problem, ExitCode.BAD_INPUT)
    if isinstance(error, OSError):
        return _report_error(
            f"the operating system refused: {error.strerror}{_file_of(error)}", ExitCode.BROKEN
        )
    advice = "please report it, with what PRATIQUE_DEBUG=1 shows"
    return _report_error(f"internal error: {_describe(error)}; {advice}", ExitCode.BROKEN)


def _file_of(error: OSError) -> str:
    return f": {error.filename}" if error.filename is not None else ""


def _describe(error: Exception) -> str:
    """Describe an unexpected error without its text, which may hold parts of a reviewed object."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + where


def _report_error(message: str, code: ExitCode) -> int:
    _flush(sys.stdout)
    click.echo(f"pratique: {message}", err=True)
    return code


def _flush(stream: object) -> None:
    if hasattr(stream, "flush"):
        stream.flush()


def _abandon_output() -> None:
    # Python flushes standard output again at exit, and would report the error again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
