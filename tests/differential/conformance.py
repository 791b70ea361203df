"""The table of ``docs/conformance.md``: how the last long run came out."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from differential.tallies import Tally
from support.kubernetes_programs import version

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
_VECTORS = ROOT / "tests" / "vectors"
_BEGIN = "<!-- The table: make differential ARGS=--write -->\n"
_END = "<!-- The end of the table -->\n"


def write(tallies: Mapping[str, Tally], seeds: Sequence[str]) -> None:
    """Put the table of a run in the place of the one before."""
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}{table(tallies, seeds)}{_END}{after}")


def table(tallies: Mapping[str, Tally], seeds: Sequence[str]) -> str:
    """The table of a run, and what it is of."""
    named = ", ".join(f"`{seed}`" for seed in seeds)
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    lines = [
        f"Kubernetes {version()}, {day}, from the {'seeds' if len(seeds) > 1 else 'seed'} {named}:",
        "",
        "| family | pairs | refused by both | same | different, and argued | different | left out |",
        "|---|---|---|---|---|---|---|",
    ]
    total = Tally()
    for name, tally in tallies.items():
        lines.append(_row(name, tally))
        total.add(tally)
    lines.append(_row("**all**", total))
    cases = ", ".join(f"{count} in `{name}`" for name, count in _cases().items())
    lines += ["", f"Kubernetes' own cases that the tests run ([vectors.md](vectors.md)): {cases}."]
    return "\n".join(lines) + "\n"


def _row(name: str, tally: Tally) -> str:
    numbers = (tally.pairs, tally.refused, tally.same, tally.listed, tally.different, tally.left_out)
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def _cases() -> dict[str, int]:
    return {
        path.name: sum(1 for line in path.read_text().splitlines() if json.loads(line))
        for path in sorted(_VECTORS.glob("*.jsonl"))
    }
