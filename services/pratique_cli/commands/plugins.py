"""``pratique plugins``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pratique.admission.controllers import Controller
from pratique.apimachinery.json_values import JSONObject
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.encoding import encode_list
from pratique_cli.options import LIST_FORMATS, format_flag
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.terminal import Palette, palette_for

EPILOG = """\b
Examples:
  pratique plugins
  pratique plugins -o jsonl | grep '"default":true'
"""

_COLUMNS = (Column("NAME"), Column("PHASES"), Column("DEFAULT"), Column("DOES", keep=False))


@click.command("plugins", epilog=EPILOG)
@format_flag(*LIST_FORMATS)
def command(output: str) -> None:
    """List the admission controllers, in chain order.

    --enable-admission-plugins turns on those that are off.
    """
    controllers = tuple(load_catalogue())
    if output in {"text", "table"}:
        palette = palette_for(sys.stdout, colour=None)
        click.echo(_table(controllers, palette), nl=False, color=palette.colour)
    else:
        click.echo(_encode([_document(controller) for controller in controllers], output), nl=False)


def _encode(documents: list[JSONObject], output: str) -> bytes:
    # Each format imports only what it needs.
    match output:
        case "junit":
            from pratique_cli.outputs.junit import catalogue_junit  # noqa: PLC0415

            return catalogue_junit(documents)
        case "sarif":
            from pratique_cli.outputs.sarif import catalogue_sarif  # noqa: PLC0415

            return catalogue_sarif(documents)
        case "github":
            from pratique_cli.outputs.github import catalogue_github  # noqa: PLC0415

            return catalogue_github(documents)
        case _:
            return encode_list(documents, output)


def _document(controller: Controller) -> JSONObject:
    return {
        "name": controller.name,
        "phases": _phases(controller),
        "default": controller.default,
        "summary": controller.summary,
        "looksUp": list(controller.looks_up),
        "mayLookUp": list(controller.may_look_up),
        "deprecatedIn": controller.deprecated_in,
        "removedIn": controller.removed_in,
        "replacedBy": controller.replaced_by,
    }


def _phases(controller: Controller) -> list[str]:
    return sorted(phase.value for phase in controller.phases)  # their order, too: mutate, validate


def _table(controllers: Sequence[Controller], palette: Palette) -> str:
    rows = [
        Row(
            (c.name, ", ".join(_phases(c)), "on" if c.default else "off", _description(c)),
            ("green",) if c.default else (),
        )
        for c in controllers
    ]
    return table_text(_COLUMNS, rows, palette)


def _is_deprecated(controller: Controller) -> bool:
    """Whether Kubernetes still has a controller but has deprecated it."""
    return controller.deprecated_in is not None and controller.removed_in is None


def _description(controller: Controller) -> str:
    """Describe a controller: what it does, what it looks up, and its fate in Kubernetes."""
    facts = [f"looks up {', '.join(controller.looks_up)}"] if controller.looks_up else []
    facts += [f"deprecated in Kubernetes {controller.deprecated_in}"] if _is_deprecated(controller) else []
    facts += [f"removed in Kubernetes {controller.removed_in}"] if controller.removed_in else []
    facts += [f"replaced by {controller.replaced_by}"] if controller.replaced_by else []
    return controller.summary + (f" ({'; '.join(facts)})" if facts else "")
