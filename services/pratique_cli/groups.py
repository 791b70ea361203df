"""Groups of commands whose files are imported when a command is run, and not before."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

HELP_FLAGS = ("-h", "--help")


class LazyGroup(click.Group):
    """A group that knows its commands by name and summary, and imports the file of the one that is run.

    Start-up time is why: ``pratique version`` is not to wait for gRPC and the engine.
    """

    def __init__(self, *args: Any, folder: str, summaries: Mapping[str, str], **kwargs: Any) -> None:
        """Find the command ``name`` as ``command`` in the module ``folder.name``."""
        super().__init__(*args, **kwargs)
        self._folder = folder
        for name, text in summaries.items():
            self.add_command(click.Command(name, short_help=text))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands in the order in which they were given."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is to run, and import its file."""
        name, found, rest = super().resolve_command(ctx, args)
        if found is None or name is None:
            return name, found, rest
        module = importlib.import_module(f"{self._folder}.{name.replace('-', '_')}")
        command: click.Command = module.command
        return name, command, rest
