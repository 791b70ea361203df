"""``pratique decision-log``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import encode
from pratique.apimachinery.prepared_types import prepared
from pratique.configuration.key_files import read_key
from pratique_cli.exit_codes import ExitCode
from pratique_cli.main import HELP_FLAGS
from pratique_cli.options import ExistingPath, flag
from pratique_cli.terminal import printable
from pratique_frontdoor.decision_logs.hash_chains import ChainReport, Verifier

_MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line to read, in bytes: many times what a front door writes."""
_MAX_FAULTS = 100
"""The most faults to print: a log with more is not worth reading further."""

EPILOG = """\b
Examples:
  pratique decision-log verify decisions.jsonl
  pratique decision-log verify decisions.jsonl.2 decisions.jsonl.1 decisions.jsonl
  pratique decision-log verify --key chain.key --expect 6c1f…0b decisions.jsonl

\b
Exit codes: 0 intact, 1 changed, 2 wrong usage or unreadable input.
"""


@click.group("decision-log", context_settings={"help_option_names": HELP_FLAGS}, epilog=EPILOG)
def command() -> None:
    """Verify decision logs: docs/decision-log.md."""


@command.command("verify", epilog=EPILOG)
@flag("--key", type=ExistingPath(folders=False), help="The key of the hash chain, if the log has one.")
@flag(
    "--expect",
    metavar="HASH",
    help="A hash that the log must hold, such as the last one that the front door reported: detects truncation.",
)
@flag(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
)
@click.argument("files", nargs=-1, required=True, type=ExistingPath(folders=False))
def verify(files: Sequence[Path], key: Path | None, expect: str | None, output: str) -> int:
    """Check that the files of one log are unchanged, and name the entries that are not.

    You can give the files in any order.
    """
    verifier = Verifier(None if key is None else read_key(key, "--key"))
    ordered = sorted(files, key=_first_sequence)
    for file in ordered:
        try:
            verifier.verify(str(file), _lines(file), is_last=file == ordered[-1])
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    if verifier.report.foreign_lines and not verifier.report.entries:
        named = ", ".join(map(str, files))
        raise InputError(
            f"{named}: no decision log: no line is an entry of one, as --decision-log writes them"
        )
    missing = expect is not None and expect.strip().lower() not in verifier.hashes
    whole = not verifier.report.faults and not missing
    if output == "json":
        click.echo(encode(_document(verifier.report, whole=whole, expect=expect, missing=missing)))
    else:
        click.echo("\n".join(map(printable, _report_lines(verifier.report, whole=whole, missing=missing))))
    return ExitCode.ADMITTED if whole else ExitCode.DENIED


class _NumberedEntry(msgspec.Struct):
    sequence: int


def _first_sequence(file: Path) -> int:
    """The sequence number of a file's first entry, which orders the files; 0 if it has none."""
    try:
        return msgspec.json.decode(next(_lines(file), b""), type=prepared(_NumberedEntry)).sequence
    except (msgspec.DecodeError, ValueError, OSError):
        return 0


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while line := opened.readline(_MAX_LINE_BYTES):
            yield line


def _document(report: ChainReport, *, whole: bool, expect: str | None, missing: bool) -> dict[str, Any]:
    return {
        "whole": whole,
        "keyed": report.is_keyed,
        "entries": report.entries,
        "decisions": report.decisions,
        "first": report.first,
        "last": report.last,
        "lastHash": report.last_hash,
        "sealed": report.is_sealed,
        "lost": report.lost,
        "repairs": report.repairs,
        **({} if expect is None else {"expected": expect, "expectedFound": not missing}),
        "faults": [msgspec.structs.asdict(fault) for fault in report.faults],
    }


def _report_lines(report: ChainReport, *, whole: bool, missing: bool) -> Iterator[str]:
    for fault in report.faults[:_MAX_FAULTS]:
        yield f"{fault.file}:{fault.line}: {fault.text}"
    if len(report.faults) > _MAX_FAULTS:
        yield f"… and {len(report.faults) - _MAX_FAULTS} more"
    if missing:
        yield "the expected hash is not in the log: entries were cut off its end, or replaced"
    found = f"{report.entries} entries, {report.decisions} of them decisions"
    if not whole:
        yield f"not whole: {found}"
        return
    yield f"whole: {found}; the last is entry {report.last}, hash {report.last_hash}"
    if report.first > 1:
        yield f"note: begins with entry {report.first}; earlier entries are not in these files"
    if report.lost:
        yield f"note: the writer lost {report.lost} entries, and says so: the disk was full or too slow"
    if report.repairs:
        yield f"note: the writer was killed within a line {report.repairs} times, and went on after it"
    if not report.is_sealed:
        yield "note: has no final seal: the writer runs, or was killed"
    if not report.is_keyed:
        yield "note: written without a key: anyone who can write the file can forge a valid chain"
