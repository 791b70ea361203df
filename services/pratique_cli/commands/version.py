"""``pratique version``."""

from __future__ import annotations

import importlib.metadata

import click


@click.command("version", epilog="\b\nExample:\n  pratique version")
def command() -> None:
    """Show the version."""
    click.echo(f"pratique {importlib.metadata.version('pratique')}")
