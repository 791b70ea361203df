"""What docs/testing-policies.md shows, executed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.suites import forms

TEXT = (Path(__file__).parents[2] / "docs" / "testing-policies.md").read_text("utf-8")
FILES = re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (.*?)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FORMS = (forms.SuiteForm, forms.CaseForm, forms.RequestForm, forms.ExpectForm, forms.StepForm)


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_each_command_prints_what_the_page_shows(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, command: str, shown: str
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    ran = pratique(*command.split())
    assert ran.stdout == shown
    assert (ran.returncode, ran.stderr) == ("--list" not in command, "")


def test_the_page_describes_every_member() -> None:
    names = {name for form in FORMS for name in form.__struct_encode_fields__}
    assert {name for name in names if not re.search(rf"`(?:[\w.]*\.)?{name}[`:. ]", TEXT)} == set()
