"""``pratique verify``."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import grpc
import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique_cli.conformance.server_checks import (
    METHODS,
    CheckOutcome,
    CheckResult,
    all_check_names,
    count_checks,
    offered_methods,
    run_checks,
)
from pratique_cli.conformance.service_calls import (
    MESSAGE_LIMIT,
    InapplicableError,
    Method,
    TestedService,
    UnmetError,
)
from pratique_cli.encoding import encode_list
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import ExistingPath, NameList, flag, flattened, format_flag, timeout_flag
from pratique_cli.outputs.junit import HEAD, TAIL, JUnitSuite, Part, failure, system_out
from pratique_cli.progress import Progress, no_progress_flag, progress_for
from pratique_cli.terminal import Palette, palette_for, printable

EPILOG = """\b
Each check names what the contract asks for, what was seen, and where the
contract in proto/pratique/admission/v1 says so. "advised" is what front doors
can do without.

\b
Examples:
  pratique verify 127.0.0.1:9443
  pratique verify replicas.shop:9443 --ca-file ca.crt --controller replicas.example.com
  pratique verify 127.0.0.1:9443 --check dry-run -o junit > verify.xml

\b
Exit codes: 0 the service keeps the contract, 1 it does not, 2 wrong usage or
no service at HOST:PORT, 3 the program itself failed.
"""

_MARKS = {
    CheckOutcome.KEPT: ("✓", "green"),
    CheckOutcome.BROKEN: ("✗", "red"),
    CheckOutcome.ADVISED: ("!", "yellow"),
    CheckOutcome.SKIPPED: ("·", "dim"),
}


@click.command("verify", epilog=EPILOG)
@click.argument("target", metavar="HOST:PORT")
@flag(
    "--service",
    type=click.Choice(["auto", *METHODS, "both"]),
    default="auto",
    show_default=True,
    help="Which service to check; auto checks those that are implemented.",
)
@flag(
    "--controller",
    "controllers",
    type=NameList(),
    multiple=True,
    help="The controllers, or webhooks, to call. By default, those that the service lists.",
)
@flag(
    "--check",
    "checks",
    type=click.Choice(all_check_names()),
    metavar="NAME",
    multiple=True,
    help="Run this check alone. Repeatable.",
)
@flag("--strict", is_flag=True, help="What is advised is required.")
@flag("--ca-file", type=ExistingPath(folders=False), help="Use TLS: authorities of its certificate, in PEM.")
@flag("--cert-file", type=ExistingPath(folders=False), help="Use TLS: the certificate to show, in PEM.")
@flag("--private-key-file", type=ExistingPath(folders=False), help="The certificate's key, in PEM.")
@flag("--server-name", default="", help="The name in the service's certificate, if it is not HOST.")
@timeout_flag("each call")
@format_flag("text", "json", "junit")
@no_progress_flag
def command(
    target: str,
    service: str,
    controllers: Sequence[tuple[str, ...]],
    checks: Sequence[str],
    *,
    strict: bool,
    timeout: float,
    output: str,
    no_progress: bool,
    **tls: Any,
) -> ExitCode:
    """Check whether the gRPC service at HOST:PORT keeps Pratique's contract, whatever its language.

    The service gets about a hundred calls with made-up Pods; some are large, spoilt, cancelled or without a deadline.
    Do not point it at a service that has work to do.
    """
    with _connect(target, timeout, **tls) as channel:
        tested = TestedService(channel, timeout, flattened(controllers))
        methods = _methods(tested, service, target)
        _require_controllers(tested, methods)
        progress = progress_for(None if no_progress else sys.stderr, sys.stdout, streams=False)
        found = list(_with_progress(tested, methods, checks, progress))
    results = [_strictly(result) if strict else result for result in found]
    if not results:
        raise click.UsageError(f"no check of {', '.join(checks)} is one of the service's")
    click.echo(_written(results, output, target), nl=False)
    return ExitCode.DENIED if _counts(results)[CheckOutcome.BROKEN] else ExitCode.ADMITTED


def _with_progress(
    tested: TestedService, methods: Sequence[Method], checks: Sequence[str], progress: Progress
) -> Iterator[CheckResult]:
    progress.expect(count_checks(methods, checks))
    try:
        for number, result in enumerate(run_checks(tested, methods, checks), start=1):
            yield result
            progress.advance()
            progress.update(f"{number} checked")
    finally:
        progress.clear()


def _connect(
    target: str,
    seconds: float,
    *,
    ca_file: Path | None,
    cert_file: Path | None,
    private_key_file: Path | None,
    server_name: str,
) -> grpc.Channel:
    if (cert_file is None) is not (private_key_file is None):
        raise click.UsageError("--cert-file and --private-key-file go together")
    if server_name and ca_file is None and cert_file is None:
        raise click.UsageError("--server-name is for TLS; name the service's authorities with --ca-file")
    host, colon, port = target.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise click.BadParameter(f"{target!r} is not HOST:PORT", param_hint="HOST:PORT")
    options: list[tuple[str, str | int]] = [
        ("grpc.max_send_message_length", MESSAGE_LIMIT),
        ("grpc.max_receive_message_length", MESSAGE_LIMIT),
        ("grpc.enable_retries", 0),  # a retry would hide an answer
    ]
    if server_name:
        options.append(("grpc.ssl_target_name_override", server_name))
    files = (ca_file, private_key_file, cert_file)
    if any(files):
        contents = [None if file is None else file.read_bytes() for file in files]
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*contents), options)
    else:
        channel = grpc.insecure_channel(target, options)
    try:
        grpc.channel_ready_future(channel).result(timeout=seconds)
    except grpc.FutureTimeoutError:
        channel.close()
        kind = "TLS" if any(files) else "no TLS"
        raise ConfigurationError(f"{target}: no gRPC connection within {seconds:g} s, with {kind}") from None
    return channel


def _methods(tested: TestedService, service: str, target: str) -> tuple[Method, ...]:
    if service == "both":
        return tuple(METHODS.values())
    if service != "auto":
        return (METHODS[service],)
    methods = offered_methods(tested)
    if not methods:
        raise ConfigurationError(
            f"{target}: implements neither MutatorService nor ValidatorService of pratique.admission.v1"
        )
    return methods


def _require_controllers(tested: TestedService, methods: Iterable[Method]) -> None:
    """Refuse to run checks that would all be skipped."""
    for method in methods:
        try:
            tested.controllers(method)
        except UnmetError:
            return  # the check of the catalogue tells
        except InapplicableError as error:
            raise ConfigurationError(f"{error}; name one with --controller") from None


def _strictly(result: CheckResult) -> CheckResult:
    advised = result.outcome is CheckOutcome.ADVISED
    return msgspec.structs.replace(result, outcome=CheckOutcome.BROKEN) if advised else result


def _counts(results: Iterable[CheckResult]) -> Counter[CheckOutcome]:
    return Counter(result.outcome for result in results)


def _written(results: Sequence[CheckResult], output: str, target: str) -> str | bytes:
    if output == "json":
        return encode_list([msgspec.structs.asdict(result) for result in results], "json")
    if output == "junit":
        return _junit(results, target)
    palette = palette_for(sys.stdout, colour=None)
    lines = [line for result in results for line in _lines(result, palette)]
    counts = _counts(results)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in CheckOutcome if counts[outcome])
    return "\n".join([*lines, f"{len(results)} checks of {target}: {told}", ""])


def _lines(result: CheckResult, palette: Palette) -> list[str]:
    mark, colour = _MARKS[result.outcome]
    head = f"{palette.paint(palette.mark(mark), colour)} {result.service:<9} {result.check}"
    seen = printable(result.seen)
    if result.outcome is CheckOutcome.KEPT:
        return [head]
    if result.outcome is CheckOutcome.SKIPPED:
        return [f"{head}: skipped, {seen}"]
    return [head, f"    expected: {result.expected}", f"    seen: {seen}", f"    rule: {result.rule}"]


def _junit(results: Sequence[CheckResult], target: str) -> bytes:
    stream, suite = io.BytesIO(), JUnitSuite(f"verify {target}")
    for result in results:
        text = f"expected: {result.expected}\nseen: {result.seen}\nrule: {result.rule}"
        broken = result.outcome is CheckOutcome.BROKEN
        parts: list[Part] = [failure(result.rule, result.seen, text) if broken else system_out(text)]
        suite.add(f"{result.service} {result.check}", 0.0, parts)
    stream.write(HEAD)
    suite.write_to(stream)
    stream.write(TAIL)
    return stream.getvalue()
