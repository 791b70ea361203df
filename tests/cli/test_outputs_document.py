"""What docs/outputs.md shows, executed."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.options import DECISION_FORMATS

TEXT = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
DEPRECATED = "is deprecated. Please remove this controller from your configuration files and scripts."
MEASURED = re.compile(r'((?:time="|durationMs"?: ?|seconds: ))[0-9.]+')


def lasting(text: str) -> str:
    """Remove what differs between runs and releases."""
    version = importlib.metadata.version("pratique")
    return MEASURED.sub(r"\1", text).replace(f'"version": "{version}"', '"version": "0.2.0"').strip()


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_each_command_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, command: str, shown: str
) -> None:
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    ran = pratique(*command.split())
    assert lasting(ran.stdout) == lasting(shown)
    # The example denies everything by a controller that Kubernetes has deprecated.
    assert [line for line in ran.stderr.splitlines() if not line.endswith(DEPRECATED)] == []
    assert ran.returncode == 1


def test_the_page_describes_every_format() -> None:
    assert all(f"`{name}`" in TEXT for name in DECISION_FORMATS)
    shown = {command.split(" -o ")[1].split()[0] for command, _ in COMMANDS if " -o " in command}
    assert shown == set(DECISION_FORMATS) - {"json", "text", "openreports"}


@pytest.mark.parametrize("name", DECISION_FORMATS)
def test_a_run_that_does_not_start_writes_nothing(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\napiVersion: v1\n")
    ran = pratique("review", "-o", name, "--config", "a.yaml", "a.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
