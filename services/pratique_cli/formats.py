"""The ``-o`` flag: which format, and what holds without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pratique_cli.flags import flag

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("text", "json", "jsonl", "yaml")
"""The formats in which everything can be written."""

REVIEW_FORMATS = (*FORMATS, "junit", "sarif", "github")
"""The formats in which reviews can be written: also those that CI systems read."""


class _Format(click.Choice[str]):
    name = "format"

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's
        return f"{value!r} is not a format; there are {', '.join(self.choices)}."


def format_flag(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``-o`` with the formats given; the command gets it as ``output``."""
    return flag(
        "-o",
        "--output",
        type=_Format(formats, case_sensitive=False),
        default=_default,
        show_default="text on a terminal, jsonl elsewhere",
        help="How to write what was found.",
    )


def _default() -> str:
    return "text" if sys.stdout is not None and sys.stdout.isatty() else "jsonl"
