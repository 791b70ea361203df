from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click
import pytest

from pratique_cli.commands import serve
from pratique_cli.exit_codes import ExitCode
from pratique_cli.main import SUMMARIES, main
from pratique_cli.options import Flag

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

FULL = Path("/dev/full")

COMMANDS = [
    *(("pratique_cli.commands", name, text) for name, text in SUMMARIES.items()),
    *(("pratique_cli.commands.services", name, text) for name, text in serve.SUMMARIES.items()),
]


def command_of(folder: str, name: str) -> click.Command:
    command = importlib.import_module(f"{folder}.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    return command


def test_the_version_is_that_of_the_distribution(pratique: Program) -> None:
    version = importlib.metadata.version("pratique")
    for arguments in (["version"], ["--version"]):
        ran = pratique(*arguments)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"pratique {version}\n", "")


@pytest.mark.parametrize(("folder", "name", "summary"), COMMANDS)
def test_every_command_has_help_with_examples(folder: str, name: str, summary: str) -> None:
    command = command_of(folder, name)
    assert command.name == name
    assert summary
    assert command.help
    assert "Example" in (command.epilog or "")


@pytest.mark.parametrize("help_flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", *SUMMARIES, *(f"serve {name}" for name in serve.SUMMARIES)])
def test_help_is_shown_on_standard_output(
    capsys: pytest.CaptureFixture[str], command: str, help_flag: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), help_flag])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.err) == (ExitCode.ADMITTED, "")
    assert shown.out.startswith(f"Usage: {' '.join(['pratique', *command.split()])} ")


@pytest.mark.parametrize(("folder", "name", "summary"), COMMANDS)
def test_every_flag_has_help_and_a_variable(folder: str, name: str, summary: str) -> None:
    assert summary
    for option in command_of(folder, name).params:
        if isinstance(option, click.Option):
            assert isinstance(option, Flag)
            assert option.help
            longest = max(option.opts, key=len)
            assert option.envvar == "PRATIQUE_" + longest.removeprefix("--").replace("-", "_").upper()


def test_the_help_lists_commands_in_order_of_use(pratique: Program) -> None:
    out = pratique("--help").stdout
    places = [out.index(f"\n  {name} ") for name in SUMMARIES]
    assert places == sorted(places)


def test_the_version_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\nfrom pratique_cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['version'])\n"
        "print(*sorted({'grpc', 'msgspec', 'yaml', 'asyncio', 'aiohttp', 'uvloop'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[1:] == [""]


def test_reviewing_a_manifest_imports_no_network_library(pratique: Program) -> None:
    manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    ran = pratique("review", "-", stdin=manifest, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rsplit("|", 1)[-1].strip() for line in ran.stderr.splitlines() if "|" in line}
    assert "pratique_frontdoor.engines.local" in imported
    heavy = {"grpc", "uvloop", "starlette", "uvicorn", "prometheus_client", "watchfiles", "junitparser"}
    assert not imported & heavy


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_a_full_disk_is_reported(unbuffered: str) -> None:
    with FULL.open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "pratique_cli", "version"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == ExitCode.BROKEN
    assert re.fullmatch("pratique: .*: No space left on device\n", ran.stderr)
