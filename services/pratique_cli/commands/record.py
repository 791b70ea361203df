"""``pratique record``: ``pratique up`` with a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pratique_cli.commands import up

EPILOG = """\b
Examples:
  pratique record reviews.jsonl
  pratique record reviews.jsonl --config webhooks/ --cluster cluster/
  pratique replay reviews.jsonl --config new-webhooks/

\b
`pratique serve frontdoor --record FILE` records what one front door decides.
"""


_FLAGS = [param for param in up.command.params if param.name != "record"]


@click.command("record", epilog=EPILOG, params=_FLAGS)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def command(file: Path, **values: Any) -> Any:
    """Run the local stack as `pratique up` does, and record reviews and decisions in FILE, with secrets redacted."""
    callback = up.command.callback
    return None if callback is None else callback(record=file, **values)
