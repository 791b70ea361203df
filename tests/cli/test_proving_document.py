"""What docs/proving.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from pratique_cli.mutator_checks.reports import HEADS

TEXT = (Path(__file__).parents[2] / "docs" / "proving.md").read_text("utf-8")
((NAME, POLICIES),) = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
((COMMAND, SHOWN),) = re.findall(
    r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)
(CONDITION,) = re.findall(r"With `(matchConditions: .*?)` it holds", TEXT)


def test_the_example_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / NAME).write_text(POLICIES)
    ran = pratique(*COMMAND.split())
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == SHOWN


def test_the_fixed_example_passes(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / NAME).write_text(POLICIES.replace("  failurePolicy", f"  {CONDITION}\n  failurePolicy"))
    ran = pratique(*COMMAND.split())
    assert ran.returncode == 0, ran.stdout
    assert "held for 20 objects (0 given, 20 generated: 20 v1/Pod); seed 0" in ran.stdout


def test_every_column_is_explained() -> None:
    explained = {name.upper() for name in re.findall(r"^- \*\*(.+?)\*\*:", TEXT, re.MULTILINE)}
    assert explained == set(HEADS) - {"ACTED"}
