"""Flag values: the ``flags`` of a suite, read as the command line reads them, but never from the environment."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import click

from pratique_cli.chain_flags import chain_flags
from pratique_cli.flags import ExistingPath
from pratique_cli.suites.decoding import meant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pratique.json_values import JSON
    from pratique.settings import ChainSettings

_MEMBERS = ("config", "cluster")
"""Flags that are members of a suite instead."""


class FlagError(ValueError):
    """A flag cannot be used; ``name`` is which."""

    def __init__(self, name: str, problem: str) -> None:
        """Say what is wrong with a flag."""
        super().__init__(problem)
        self.name = name


def read_flags(flags: Mapping[str, JSON], folder: Path) -> ChainSettings:
    """Make the settings of a chain from flags by their names, such as ``enable-admission-plugins``.

    Lists are given as lists or with commas; paths are relative to ``folder``.

    Raises:
        FlagError: a flag is unknown, or has no such value.
    """
    command = _command()
    by_name = {option.opts[-1].removeprefix("--"): option for option in command.params}
    options = {name: option for name, option in by_name.items() if name not in _MEMBERS}
    context = click.Context(command)
    values = {option.name or "": _unset(option) for option in command.params}
    for name, value in flags.items():
        if name not in options:
            raise FlagError(name, f'unknown flag "{name}"; {_hint(name, options)}')
        option = options[name]
        try:
            values[option.name or ""] = option.type_cast_value(context, _given(value, option, folder))
        except click.BadParameter as error:
            raise FlagError(name, f"{name}: {error.message}") from None
    callback: Any = command.callback
    settings: ChainSettings = callback(**values)
    return settings


@functools.cache
def _command() -> click.Command:
    @click.command
    @chain_flags
    def command(chain: ChainSettings) -> ChainSettings:
        """Take the flags."""
        return chain

    return command


def _hint(name: str, options: Mapping[str, click.Parameter]) -> str:
    plain = name.lstrip("-")
    if plain in _MEMBERS:
        return f"{plain} is a member of the suite itself"
    return meant(plain, options)


def _given(value: JSON, option: click.Parameter, folder: Path) -> JSON:
    """Write a value as the command line would have it."""
    if isinstance(value, dict) or value is None:
        raise click.BadParameter("write a text, a number, a boolean or a list")
    texts = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    if isinstance(option.type, ExistingPath):
        texts = [os.path.normpath(folder / each) for each in texts]
    return ",".join(texts) if not option.multiple else [",".join(texts)]


def _unset(option: click.Parameter) -> Any:
    """What a flag has that nobody gives."""
    if option.multiple:
        return ()
    return False if getattr(option, "is_flag", False) else None
