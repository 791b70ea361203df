"""What docs/tls.md shows, executed."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique.rpc import probes
from pratique_cli.commands import certs
from pratique_cli.main import HELP_FLAGS

TEXT = (Path(__file__).parents[2] / "docs" / "tls.md").read_text("utf-8")
SHOWN = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SCRIPTS = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LINES = [line for script in SCRIPTS for line in script.replace("\\\n", " ").splitlines()]


def undated(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)


def test_certificates_are_made_and_renewed_as_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert len(SHOWN) == 3
    for command, shown in SHOWN:
        ran = pratique(*command.split())
        assert (ran.returncode, ran.stderr) == (0, "")
        assert undated(ran.stdout) == undated(shown)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("pratique ")])
def test_the_page_starts_services_with_existing_flags(line: str, tmp_path: Path) -> None:
    _, serve, service, *flags = shlex.split(line)
    assert serve == "serve"
    command = importlib.import_module(f"pratique_cli.commands.services.{service}").command
    for flag in flags:
        if flag.startswith("certs/"):
            flags[flags.index(flag)] = str(tmp_path / "file")
    (tmp_path / "file").touch()
    context = command.make_context(service, flags, help_option_names=list(HELP_FLAGS))
    assert context.params["client_allowed_names"]


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("python ")])
def test_the_page_probes_services_with_existing_flags(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shlex.split(line)[1:3] == ["-m", "pratique.rpc.probes"]
    assert probes.main(shlex.split(line)[3:]) == 1
    assert capsys.readouterr().err == "certs/ca.crt: No such file or directory\n"


def test_every_flag_on_the_page_exists() -> None:
    known = {"--ca-file", "--cert-file", "--private-key-file", "--server-name"}  # of the probe
    modules = ["certs", *(f"services.{name}" for name in ("frontdoor", "mutator", "validator"))]
    commands = [importlib.import_module(f"pratique_cli.commands.{module}").command for module in modules]
    commands.append(certs.renew)
    known |= {option for command in commands for param in command.params for option in param.opts}
    assert set(re.findall(r"--[a-z][a-z-]*[a-z]", TEXT)) <= known
