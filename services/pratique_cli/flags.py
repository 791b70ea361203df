"""Flags: options that an environment variable can set, and the types of their values."""

from __future__ import annotations

import enum
import functools
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pratique.errors import InputError
from pratique.releases import Release, read_release

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")

_BYTES = re.compile(r"([0-9]{1,15})(?:([KMG]i)B?)?")
_UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def variable_of(name: str) -> str:
    """Name the environment variable of a flag: ``--admission-control`` is ``PRATIQUE_ADMISSION_CONTROL``."""
    return "PRATIQUE_" + name.lstrip("-").replace("-", "_").upper()


class Flag(click.Option):
    """An option that can also be set by the environment: ``PRATIQUE_`` + its name in capitals."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what ``click.Option`` takes."""
        super().__init__(*args, **kwargs)
        self.variable = variable_of(max(self.opts, key=len))
        self.envvar = self.variable

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the flag, or the variable where that is what gave the value."""
        if ctx is not None and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT:
            return f"environment variable {self.variable}"
        return super().get_error_hint(ctx)

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Leave the range of numbers out of the help: whoever leaves it is told."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


flag = functools.partial(click.option, cls=Flag)
"""Declare a flag, as ``click.option`` declares an option."""


class NameList(click.ParamType[tuple[str, ...]]):
    """Names with commas between them, in a flag that may be given several times.

    An environment variable gives it once, whole.
    """

    name = "A,B"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas; blanks around a name are no part of it."""
        if not isinstance(value, str):
            return tuple(value)
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name; write A,B", param, ctx)
        return names

    def split_envvar_value(self, rv: str) -> list[str]:
        """Take the variable as one list, blanks and all."""
        return [rv]


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number {_span(self)}", param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number; infinity and NaN are none."""
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number {_span(self)}", param, ctx)
        return number


def _span(bounds: click.IntRange | click.FloatRange) -> str:
    return f"from {bounds.min} up" if bounds.max is None else f"from {bounds.min} to {bounds.max}"


PORT = WholeNumber(0, 65535)


class Member(click.ParamType[enum.StrEnum]):
    """A member of an enumeration, by its value."""

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        """Take the members of ``kind``."""
        self._kind = kind
        self.name = "|".join(kind)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the values as they are written."""
        del param, ctx
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> enum.StrEnum:
        """Find the member."""
        try:
            return self._kind(value)
        except ValueError:
            self.fail(f"{value!r} is not one of {', '.join(self._kind)}", param, ctx)


class Seconds(click.ParamType[float]):
    """A span of time, written as Go does: ``500ms``, ``10s``, ``1m30s``; a bare number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the span; it must be longer than nothing."""
        from pratique.durations import parse  # noqa: PLC0415 - most commands have no such flag

        try:
            seconds = parse(f"{value}s" if _NUMBER.fullmatch(str(value)) else value).seconds
        except InputError as error:
            self.fail(f"{error}; write 500ms, 10s or 1m30s", param, ctx)
        if seconds <= 0:
            self.fail(f"{value!r} leaves no time; write 500ms, 10s or 1m30s", param, ctx)
        return seconds


class ReleaseName(click.ParamType[Release]):
    """A release of Kubernetes, such as ``1.10``."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Release:
        """Read the release."""
        try:
            return value if isinstance(value, Release) else read_release(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


class ByteCount(click.ParamType[int]):
    """A number of bytes, bare or in the units of Kubernetes' quantities: ``65536``, ``64Ki``, ``64MiB``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number; it is one at least."""
        found = _BYTES.fullmatch(str(value))
        if found is None or not (count := int(found[1]) * _UNITS[found[2] or ""]):
            self.fail(f"{value!r} is not a number of bytes; write 65536, 64KiB or 64MiB", param, ctx)
        return count


class ExistingPath(click.Path):
    """A file or folder that is there and may be read."""

    def __init__(self, *, folders: bool = True, dash: bool = False) -> None:
        """Take ``-`` as standard input where ``dash`` is true; refuse folders where ``folders`` is false."""
        super().__init__(exists=True, readable=True, dir_okay=folders, allow_dash=dash, path_type=Path)
        self.name = "path" if folders else "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what is not there, and the empty path, which Python would read as the current folder."""
        if os.fspath(value) == "":
            self.fail("an empty path names nothing; name a file or a folder", param, ctx)
        return super().convert(value, param, ctx)
