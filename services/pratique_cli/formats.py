"""The ``-o`` flag: which format, and what holds without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pratique_cli.flags import flag

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("text", "json", "jsonl", "yaml")
"""The formats that there are."""


class _Format(click.Choice[str]):
    name = "format"

    def __init__(self) -> None:
        super().__init__(FORMATS, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's
        return f"{value!r} is not a format; there are {', '.join(FORMATS)}."


def format_flag(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o``; the command gets it as ``output``."""
    return flag(
        "-o",
        "--output",
        type=_Format(),
        default=_default,
        show_default="text on a terminal, jsonl elsewhere",
        help="How to write what was found.",
    )(callback)


def _default() -> str:
    return "text" if sys.stdout is not None and sys.stdout.isatty() else "jsonl"
