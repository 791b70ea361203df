"""What docs/blame.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "blame.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"(durationMs: )[0-9.]+")


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_each_command_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, command: str, shown: str
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    ran = pratique(*command.split())
    assert ran.stderr == ""
    assert MEASURED.sub(r"\1", ran.stdout) == MEASURED.sub(r"\1", shown)


def test_every_command_on_the_page_is_run() -> None:
    assert len(COMMANDS) == TEXT.count("```console")
