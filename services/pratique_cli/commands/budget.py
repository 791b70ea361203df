"""``pratique budget``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pratique.apimachinery.documents import read_documents
from pratique.apimachinery.json_values import JSONObject
from pratique_cli.encoding import encode_list
from pratique_cli.exit_codes import ExitCode
from pratique_cli.loading import left_out_notes, load_found
from pratique_cli.options import ExistingPath, Seconds, flag, format_flag
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.request_latencies import (
    RequestKind,
    RequestLatency,
    ServiceLimits,
    recorded_times,
    request_latencies,
)
from pratique_cli.terminal import Palette, palette_for, print_problem, printable

EPILOG = """\b
The worst latency is what calls may take by their timeouts: mutating webhooks
one after another, and again where reinvocationPolicy is IfNeeded; validating
webhooks side by side. "*" is every resource that no other line names.

\b
Examples:
  pratique budget webhooks/
  pratique budget webhooks/ --within 30s --record reviews.jsonl
  pratique budget webhooks/ -o json | jq '.[] | select(.fits | not)'

\b
Exit codes: 0 every kind of request fits, 1 at least one does not, 2 wrong
usage or unreadable input, 3 the program itself failed.
"""

_MAX_WITHIN_SECONDS = 30.0
"""The maximum of ``timeoutSeconds``."""
_NUMBERS = ("WORST", "MUTATE", "AGAIN", "VALIDATE", "MEDIAN", "P99", "REVIEWS")
_COLUMNS = (Column("REQUEST", keep=False), *(Column(title, right=True) for title in _NUMBERS))


def _at_most_30_seconds(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if value > _MAX_WITHIN_SECONDS:
        text = "an API server waits at most 30s for a webhook; write 30s or less"
        raise click.BadParameter(text, ctx, param)
    return value


@click.command("budget", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--within",
    type=Seconds(),
    default="10s",
    show_default=True,
    callback=_at_most_30_seconds,
    help="The time that the API server gives: timeoutSeconds of its webhook, at most 30s.",
)
@flag("--mutator-timeout", type=Seconds(), help="The front door's limit of a call to the mutator.")
@flag("--validator-timeout", type=Seconds(), help="The front door's limit of a call to a validator.")
@flag(
    "--record",
    "recordings",
    type=ExistingPath(folders=False),
    multiple=True,
    help="A recording: adds how long such requests took. Repeatable.",
)
@format_flag("text", "table", "json")
def command(
    paths: Sequence[Path],
    *,
    within: float,
    mutator_timeout: float | None,
    validator_timeout: float | None,
    recordings: Sequence[Path],
    output: str,
) -> ExitCode:
    """Show how long each kind of request may take in admission, and refuse what takes longer than an API server waits.

    PATH holds webhook configurations and policies; what else lies beside them is left out. Policies have no timeouts,
    and count by recorded times alone.
    """
    recorded = recorded_times(itertools.chain.from_iterable(map(read_documents, recordings)))
    limits = ServiceLimits(mutator_timeout, validator_timeout)
    configurations, left_out = load_found(paths)
    for note in left_out_notes(left_out):
        print_problem(note)
    latencies = request_latencies(configurations, limits, recorded)
    beyond = [latency for latency in latencies if latency.worst > within]
    if output == "json":
        click.echo(encode_list([_document(latency, within) for latency in latencies], "json"), nl=False)
    else:
        palette = palette_for(sys.stdout, colour=None)
        lines = (
            _table(latencies, within, palette) if output == "table" else _texts(latencies, within, palette)
        )
        kinds = "kind" if len(latencies) == 1 else "kinds"
        summary = f"{len(latencies)} {kinds} of requests: {len(beyond)} may take longer than {within:g}s"
        if not latencies:
            summary = "nothing to add up: there is no webhook; policies count by the times of a --record"
        click.echo("\n".join([*lines, summary]), color=palette.colour)
    return ExitCode.DENIED if beyond else ExitCode.ADMITTED


def _document(latency: RequestLatency, within: float) -> JSONObject:
    kind: RequestKind = latency.kind
    recorded = latency.recorded
    return {
        **kind._asdict(),
        "worstSeconds": latency.worst,
        "mutateSeconds": latency.first_round,
        "reinvocationSeconds": latency.reinvocation,
        "validateSeconds": latency.validation,
        "mutatingWebhooks": list(latency.mutating),
        "validatingWebhooks": list(latency.validating),
        "recorded": None
        if recorded is None
        else {
            "reviews": recorded.reviews,
            "medianMs": round(recorded.median * 1000, 3),
            "p99Ms": round(recorded.p99 * 1000, 3),
        },
        "fits": latency.worst <= within,
    }


def _texts(latencies: Sequence[RequestLatency], within: float, palette: Palette) -> list[str]:
    """Write a line for each kind of request, and why those take long that do not fit."""
    lines = []
    for latency in latencies:
        fits = latency.worst <= within
        mark, colour = ("✓", "green") if fits else ("✗", "red")
        line = (
            f"{palette.paint(palette.mark(mark), colour)} {printable(str(latency.kind))}: "
            f"up to {latency.worst:g}s of {within:g}s"
        )
        if fits:
            lines.append(line + _recorded_text(latency))
            continue
        told = f"mutate {latency.first_round:g}s, again {latency.reinvocation:g}s"
        lines.append(f"{line} ({told}, validate {latency.validation:g}s){_recorded_text(latency)}")
        called = (*latency.mutating, *latency.validating)
        lines.append(f"    {', '.join(map(printable, called)) or 'no webhooks'}")
    return lines


def _recorded_text(latency: RequestLatency) -> str:
    if latency.recorded is None:
        return ""
    reviews, median, p99 = latency.recorded.reviews, latency.recorded.median, latency.recorded.p99
    return f"; recorded {reviews}: median {median * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms"


def _table(latencies: Sequence[RequestLatency], within: float, palette: Palette) -> list[str]:
    rows = [Row(_cells(one), ("red", "bold") if one.worst > within else ()) for one in latencies]
    return table_text(_COLUMNS, rows, palette).splitlines()


def _cells(latency: RequestLatency) -> list[str]:
    recorded = latency.recorded
    return [
        str(latency.kind),
        *(
            f"{seconds:g}s"
            for seconds in (latency.worst, latency.first_round, latency.reinvocation, latency.validation)
        ),
        *(
            ("-", "-", "0")
            if recorded is None
            else (f"{recorded.median * 1000:.1f}ms", f"{recorded.p99 * 1000:.1f}ms", str(recorded.reviews))
        ),
    ]
