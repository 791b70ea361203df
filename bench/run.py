"""Measure Pratique against its floors, its goals and its peers: ``make bench``.

Prints tables, and at the end which goals are missed and by how much; writes all into ``bench/results``.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import checks
import consoles
import curves
import fanouts
import msgspec
import offline_figures
import pages
import paths
import plots
import sidecars
import soaks
import startups
import tables
import tails
import waits
from contests import measure_contests
from deployments import Certificate
from goals import judge
from matching import measure_matching
from measures import Effort, Section
from mutators import measure_mutators
from peer_servers import SERVERS
from results import COMMITTED, FOLDER, Results, circumstances, merged, read, write

import policies


def parts(effort: Effort, folder: Path, certificate: Certificate) -> dict[str, Callable[[], Section]]:
    """All that is measured but for the peers, by the names of the sections."""
    return {
        "paths": lambda: paths.measure_paths(effort),
        "paths, TLS": lambda: paths.measure_paths(effort, certificate),
        "payloads": lambda: paths.measure_payloads(effort, folder),
        "policies": lambda: paths.measure_policies(effort, folder),
        "fan-out": lambda: fanouts.measure_fanouts(effort, folder),
        "mutating policies": lambda: sidecars.measure_mutating_policies(effort, folder),
        "webhooks": lambda: paths.measure_webhooks(effort, folder),
        "validators": lambda: paths.measure_validators(effort),
        "decision log": lambda: paths.measure_decision_logs(effort, folder),
        "waits": lambda: waits.measure_waits(effort, folder),
        "tails": lambda: tails.measure_tails(effort),
        "memory": lambda: soaks.measure_soak(effort),
        "start-up": lambda: startups.measure_startups(effort),
        "expression": policies.measure_expression,
        "beside": lambda: policies.measure_beside_a_slow_one(effort, folder),
        "matching": measure_matching,
        "mutators": measure_mutators,
        "offline": lambda: offline_figures.measure_offline(effort),
        "console": lambda: consoles.measure_consoles(effort),
    }


def measure(options: argparse.Namespace) -> tuple[Results, list[str]]:
    """Measure what was asked for; gives the sections that failed, too, without which the others stand."""
    effort = Effort(options.rounds, options.seconds, min(0.5, options.seconds), options.long)
    measured = circumstances(effort)
    found: dict[str, Section] = {}
    left_out: dict[str, str] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate = make_certificate(folder / "certificates")
        wanted = parts(effort, folder, certificate)
        if options.only:
            wanted = {title: part for title, part in wanted.items() if title in options.only}
        if options.peers:
            wanted["peers"] = lambda: measure_contests(effort, folder, certificate, options.peers, left_out)
        for title, part in wanted.items():
            try:
                found[title] = part()
            except fanouts.NotMeasurableError as error:
                left_out[title] = str(error)
            except (OSError, RuntimeError, subprocess.SubprocessError):
                failed.append(title)
                left_out[title] = "measuring it failed"
                traceback.print_exc()
    results = Results(measured=dict.fromkeys(found, measured), sections=found, left_out=left_out)
    return judged(results), failed


def judged(results: Results) -> Results:
    """Results with their goals."""
    return msgspec.structs.replace(results, goals=judge(results))


def make_certificate(folder: Path) -> Certificate:
    """What ``pratique certs`` makes for a front door."""
    command = [sys.executable, "-m", "pratique_cli", "certs", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Certificate(folder / "frontdoor" / "tls.crt", folder / "frontdoor" / "tls.key")


def show(results: Results) -> None:
    """Print all tables, the goals last, and then what is missed."""
    for name, rows in tables.sections(results):
        print(f"{tables.TITLES[name]}\n{tables.as_text(rows)}\n")
    for name, why in results.left_out.items():
        print(f"{name} was left out: {why}\n")
    print(tables.as_text(tables.goals(results)))
    print("", *tables.missed(results), sep="\n")


def keep(results: Results) -> None:
    """Write results and their plot."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    write(results, FOLDER / f"{stamp}.json")
    (FOLDER / f"{stamp}.svg").write_text(plots.plot(results))


def commit(results: Results) -> None:
    """Put what was measured in place of the same sections among those that docs/performance.md shows, and draw them."""
    write_page(judged(merged(read(COMMITTED), results, list(tables.TITLES), list(SERVERS))))


def write_page(results: Results) -> None:
    """Write what docs/performance.md shows."""
    write(results, COMMITTED)
    pages.PAGE.write_text(pages.with_figures(pages.PAGE.read_text("utf-8"), results), "utf-8")
    COMMITTED.with_suffix(".svg").write_text(plots.plot(results), "utf-8")
    curves.write(results)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write, and compare where that is asked for; 1 where something failed or became worse."""
    options = read_options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that it ends what it has started
    results, failed = measure(options)
    show(results)
    keep(results)
    for title in failed:
        print(f"failed: {title}", file=sys.stderr)
        del results.left_out[title]  # what was measured of it before stays
    if options.commit:
        commit(results)
    worse = check(results, read(COMMITTED)) if options.check else 0
    return 1 if failed else worse


def check(results: Results, committed: Results) -> int:
    """Tell what became worse; 1 where something did, or where there was nothing to compare."""
    if not checks.compared(results, committed):
        print("nothing to compare: the committed results have none of these ratios", file=sys.stderr)
        return 1
    worse = list(checks.regressions(results, committed))
    for each in worse:
        print(f"worse: {each}", file=sys.stderr)
    return 1 if worse else 0


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default 2)")
    parser.add_argument("--long", action="store_true", help="memory after 100,000 reviews instead of 5,000")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(tables.TITLES),
        help="this section; repeatable; `peers` are all of them, where --peers names none",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=list(SERVERS),
        help="compare with peers too, or with these alone; they are installed into bench/.peers first",
    )
    parser.add_argument(
        "--commit",
        action="store_true",
        help="write what was measured into docs/performance.md, and leave the rest",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 where ratios have become worse")
    options = parser.parse_args(arguments)
    if options.peers == [] or (options.peers is None and "peers" in (options.only or ())):
        options.peers = list(SERVERS)
    return options


if __name__ == "__main__":
    sys.exit(main())
