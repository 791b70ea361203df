from __future__ import annotations

import io
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique_cli.outputs import ReviewCounts
from pratique_cli.outputs.github import GitHubOutput
from support.hostile_reviews import HOSTILE, denied_hostilely, hostile_manifest, missed_hostilely

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

COMMAND = re.compile(r"::(error|warning) ([^:\r\n]*)::([^\r\n]*)")
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
DENY = ("--admission-control", "AlwaysDeny", "-o", "github")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as the runner does: properties end at the first ``::``, and are split at commas."""
    found = COMMAND.fullmatch(line)
    assert found, line
    pairs = (pair.split("=", 1) for pair in found[2].split(","))
    return found[1], {name: unescaped(value, ":,") for name, value in pairs}, unescaped(found[3])


def unescaped(text: str, more: str = "") -> str:
    for character in f"\r\n{more}%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text


def test_a_denial_is_an_error_beside_its_document(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# first\n---\n" + CONFIG_MAP)
    ran = pratique("review", *DENY, "a.yaml")
    command, properties, message = read(ran.stdout.removesuffix("\n"))
    assert (ran.returncode, command) == (1, "error")
    assert properties == {
        "file": "a.yaml",
        "line": "3",
        "col": "1",
        "title": "AlwaysDeny: ConfigMap default/conf",
    }
    assert message == 'configmaps "conf" is forbidden: admission control is denying all modifications'


def test_documents_admitted_without_warnings_are_not_annotated(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    ran = pratique("review", "-o", "github", "a.yaml")
    assert (ran.returncode, ran.stdout) == (0, "")


def test_an_unreadable_document_is_an_error(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Podd\napiVersion: v1\n")
    ran = pratique("review", "-o", "github", "a.yaml")
    command, properties, message = read(ran.stdout.removesuffix("\n"))
    assert (ran.returncode, command) == (2, "error")
    assert properties == {"file": "a.yaml", "line": "1", "col": "1", "title": "unreadable"}
    assert f"pratique: {message}\n" == ran.stderr


def test_standard_input_is_named_in_the_message(pratique: Program) -> None:
    ran = pratique("review", *DENY, "-", stdin=CONFIG_MAP)
    _, properties, message = read(ran.stdout.removesuffix("\n"))
    assert set(properties) == {"title"}
    assert message.startswith("standard input:1: configmaps")


def test_hostile_names_cannot_break_out_of_a_workflow_command(pratique: Program, tmp_path: Path) -> None:
    file = "a,b::c%25 \U0001f6a2.json"
    (tmp_path / file).write_text(hostile_manifest())
    ran = pratique("review", *DENY, file)
    _, properties, _ = read(ran.stdout.removesuffix("\n"))
    assert properties["file"] == file
    assert "\r\n::error file=x::" in properties["title"]
    assert "\\x00" in properties["title"]


@pytest.mark.parametrize("file", ["a.json", "-"])
def test_hostile_texts_cannot_break_out_of_a_workflow_command(file: str) -> None:
    stream = io.BytesIO()
    output = GitHubOutput(stream)
    output.write(denied_hostilely(file))
    output.write_problem(missed_hostilely(file))
    output.finish(ReviewCounts())
    lines = stream.getvalue().decode().removesuffix("\n").split("\n")
    reported = [read(line) for line in lines]
    assert [command for command, _, _ in reported] == ["error", "warning", "error"]
    visible = HOSTILE.translate(
        {ord(c): c.encode("unicode_escape").decode() for c in "\0\x1b\x85\ufffe\udcff\t"}
    )
    assert all(message.endswith(visible) for _, _, message in reported)
