"""What docs/expansion.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "expansion.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    ((command, shown),) = COMMANDS
    ran = pratique(*command.split())
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == shown


def test_without_expansion_the_example_is_admitted(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    ran = pratique(*COMMANDS[0][0].split(), "--no-expand")
    assert ran.returncode == 0
