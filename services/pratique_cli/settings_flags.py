"""Flags made of a service's settings, so that defaults are written once, where the settings are."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import click

from pratique_cli.chain_flags import chain_flags
from pratique_cli.flags import PORT, ExistingPath, NameList, Number, WholeNumber, flag
from pratique_cli.lifelines import lifeline_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pratique.settings import ChainSettings

_TYPES: Mapping[str, click.ParamType[Any]] = {
    "str": click.STRING,
    "int": WholeNumber(min=1),
    "float": Number(min=0),
    "Path | None": ExistingPath(folders=False),
    "tuple[str, ...]": NameList(),
}
"""By annotation, as the settings' files write it."""


def settings_flags(
    settings: type[Any], helps: Mapping[str, str], names: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the chain flags and one flag for each setting; the command gets them as one ``settings``.

    Args:
        settings: The service's settings: a dataclass with a ``chain``.
        helps: What each flag's help says, by field.
        names: Flags that are not spelled as their field, by field.
    """
    fields = {field.name: field for field in dataclasses.fields(settings)}

    def decorate(callback: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(callback)
        def gather(chain: ChainSettings, **values: Any) -> Any:
            return callback(settings(chain=chain, **values))

        flags = [_flag(fields[name], text, names.get(name)) for name, text in helps.items()]
        return functools.reduce(
            lambda command, add: add(command), reversed(flags), lifeline_flag(chain_flags(gather))
        )

    return decorate


def _flag(field: dataclasses.Field[Any], text: str, name: str | None) -> Callable[..., Any]:
    return flag(
        f"--{name or field.name.replace('_', '-')}",
        field.name,
        type=PORT if field.name == "port" else _TYPES[str(field.type)],
        default=field.default,
        show_default=_shown(field.default),
        help=text,
    )


def _shown(default: Any) -> str | bool:
    return ",".join(default) if isinstance(default, tuple) else default is not None
