"""Sections: the help of a command that has more flags than one list of them can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SectionedCommand(click.Command):
    """A command whose help lists its flags under headings."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        """Take the names of parameters by heading; those that are under none come first, as ``Options``."""
        super().__init__(*args, **kwargs)
        self._headings = {name: heading for heading, names in sections.items() for name in names}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, those of each heading in their own order."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for heading in self._headings.values():
            sections.setdefault(heading, [])
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections[self._headings.get(parameter.name or "", "Options")].append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
