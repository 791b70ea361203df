"""What docs/proving.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.mutator_checks.reports import HEADS

TEXT = (Path(__file__).parents[2] / "docs" / "proving.md").read_text("utf-8")
FILES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = dict(re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
(CONDITION,) = re.findall(r"With `(matchConditions: .*?)` it holds", TEXT)


def write_files(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).write_text(content)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, command: str
) -> None:
    write_files(tmp_path)
    ran = pratique(*command.split())
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == COMMANDS[command]


def test_the_fixed_example_passes(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    policies = FILES["policies.yaml"].replace("  failurePolicy", f"  {CONDITION}\n  failurePolicy")
    (tmp_path / "policies.yaml").write_text(policies)
    [command] = [command for command in COMMANDS if command.startswith("prove policies.yaml ")]
    ran = pratique(*command.split())
    assert ran.returncode == 0, ran.stdout
    assert "held for 20 objects (0 given, 20 generated: 20 v1/Pod); seed 0" in ran.stdout


def test_every_column_is_explained() -> None:
    section = TEXT.partition("\n## What it checks\n")[2].partition("\n## ")[0]
    explained = {name.upper() for name in re.findall(r"^- \*\*(.+?)\*\*:", section, re.MULTILINE)}
    assert explained == set(HEADS) - {"ACTED"}
