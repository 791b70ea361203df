"""What docs/review.md promises, executed."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

PAGE = (Path(__file__).parents[2] / "docs" / "review.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RUNS = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), RUNS)
def test_each_command_prints_what_the_page_shows(
    pratique: Program, tmp_path: Path, command: str, shown: str
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text, "utf-8")
    ran = pratique(*shlex.split(command), PYTHONIOENCODING="utf-8")
    assert set(shown.splitlines()) <= {*ran.stdout.splitlines(), *ran.stderr.splitlines()}


def test_the_page_names_every_request_flag(pratique: Program) -> None:
    assert len(RUNS) == PAGE.count("```console")
    help_text = pratique("review", "--help").stdout
    section = help_text.partition("Request of a manifest")[2].partition("\n\n")[0]
    flags = re.findall(r"^  (--[a-z-]+)", section, re.MULTILINE)
    assert len(flags) == 8
    assert all(f"`{item}" in PAGE for item in [*flags, "--warn-exit-code"])
