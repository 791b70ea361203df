"""docs/comparison.md: it counts 47 features, and every command that it names exists, with its flags."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from pratique_cli.commands.certs import renew
from pratique_cli.main import root

DOCUMENT = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"`pratique ([^`]+)`", DOCUMENT)))


def resolved(words: list[str]) -> click.Command:
    """The command that words name, with its flags loaded."""
    command: click.Command = root
    while words and isinstance(command, click.Group):
        _, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None
        command = found
    return renew if words == ["renew"] else command  # `certs` takes it for itself


@pytest.mark.parametrize("shown", COMMANDS)
def test_a_command_that_it_names_exists_with_its_flags(shown: str) -> None:
    words = shown.split()
    flags = {word for word in words if word.startswith("-")}
    command = resolved([word for word in words if word not in flags])
    known = {option for parameter in command.params for option in parameter.opts}
    assert flags <= known


def test_it_has_every_feature_once() -> None:
    numbers = re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 48)]
