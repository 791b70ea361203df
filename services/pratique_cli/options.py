"""Command-line options that environment variables can set, and the types of their values."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.configuration.settings import Release, read_release

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from click.types import OptionHelpExtra

_NUMBER = pattern(r"[0-9]+(\.[0-9]*)?")

_BYTES = pattern(r"([0-9]{1,15})(?:([KMG]i)B?)?")
_UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def environment_variable(name: str) -> str:
    """Name the environment variable of a flag: ``--admission-control`` is ``PRATIQUE_ADMISSION_CONTROL``."""
    return "PRATIQUE_" + name.lstrip("-").replace("-", "_").upper()


class Flag(click.Option):
    """An option that an environment variable can set: ``PRATIQUE_`` and its name in capitals."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments of ``click.Option``."""
        super().__init__(*args, **kwargs)
        self.variable = environment_variable(max(self.opts, key=len))
        self.envvar = self.variable

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the flag, or the environment variable if the value came from it."""
        if ctx is not None and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT:
            return f"environment variable {self.variable}"
        return super().get_error_hint(ctx)

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Leave the range of numbers out of the help; the error message gives it."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


flag = functools.partial(click.option, cls=Flag)
"""Declare a flag, as ``click.option`` declares an option."""


class NameList(click.ParamType[tuple[str, ...]]):
    """Comma-separated names, in a flag that can be repeated.

    An environment variable holds the whole list.
    """

    name = "A,B"

    def __init__(self, known: Callable[[], Iterable[str]] | None = None) -> None:
        """Take what lists the known names, which shells offer; None offers nothing."""
        self._known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas, and strip blanks around names."""
        if not isinstance(value, str):
            return tuple(value)
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name; write A,B", param, ctx)
        return names

    def split_envvar_value(self, rv: str) -> list[str]:
        """Keep the variable whole; click would split it at blanks."""
        return [rv]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Complete the last name of the list with the known names that it does not have yet."""
        del ctx, param
        given, comma, begun = incomplete.rpartition(",")
        names = () if self._known is None else self._known()
        left = (name for name in names if name not in given.split(","))
        return _completions(given + comma + name for name in left if name.lower().startswith(begun.lower()))


def _completions(texts: Iterable[str]) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask for it

    return [CompletionItem(text) for text in texts]


class WholeNumber(click.IntRange):
    """An integer within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number {_range_text(self)}", param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number; infinity and NaN are rejected."""
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number {_range_text(self)}", param, ctx)
        return number


def _range_text(bounds: click.IntRange | click.FloatRange) -> str:
    return f"from {bounds.min} up" if bounds.max is None else f"from {bounds.min} to {bounds.max}"


PORT = WholeNumber(0, 65535)


class EnumValue(click.ParamType[enum.StrEnum]):
    """A member of an enumeration, given by its value."""

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        """Take the members of ``kind``."""
        self._kind = kind
        self.name = "|".join(kind)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the values as they are typed."""
        del param, ctx
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> enum.StrEnum:
        """Find the member."""
        try:
            return self._kind(value)
        except ValueError:
            self.fail(f"{value!r} is not one of {', '.join(self._kind)}", param, ctx)


class Seconds(click.ParamType[float]):
    """A duration in seconds, written as in Go: ``500ms``, ``10s``, ``1m30s``; a bare number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the duration, which must be positive."""
        from pratique.apimachinery.durations import parse  # noqa: PLC0415 - most commands have no such flag

        try:
            seconds = parse(f"{value}s" if _NUMBER.fullmatch(str(value)) else value).seconds
        except InputError as error:
            self.fail(f"{error}; write 500ms, 10s or 1m30s", param, ctx)
        if seconds <= 0:
            self.fail(f"{value!r} is not a positive duration; write 500ms, 10s or 1m30s", param, ctx)
        return seconds


class ReleaseName(click.ParamType[Release]):
    """A release of Kubernetes, such as ``1.10``."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Release:
        """Parse the release."""
        try:
            return value if isinstance(value, Release) else read_release(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


class ByteCount(click.ParamType[int]):
    """A number of bytes, bare or in the units of Kubernetes' quantities: ``65536``, ``64Ki``, ``64MiB``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number, which must be positive."""
        found = _BYTES.fullmatch(str(value))
        if found is None or not (count := int(found[1]) * _UNITS[found[2] or ""]):
            self.fail(f"{value!r} is not a number of bytes; write 65536, 64KiB or 64MiB", param, ctx)
        return count


class ExistingPath(click.Path):
    """An existing, readable file or folder."""

    def __init__(self, *, folders: bool = True, dash: bool = False) -> None:
        """Accept ``-`` as standard input if ``dash`` is true; refuse folders if ``folders`` is false."""
        super().__init__(exists=True, readable=True, dir_okay=folders, allow_dash=dash, path_type=Path)
        self.name = "path" if folders else "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse missing files, and the empty path, which Python would read as the current folder."""
        if os.fspath(value) == "":
            self.fail("the path is empty; name a file or a folder", param, ctx)
        path = Path(os.fspath(value))
        if not (self.allow_dash and str(path) == "-") and not os.path.lexists(path):
            what = "Path" if self.dir_okay else "File"
            self.fail(f"{what} {str(path)!r} does not exist{_nearest_hint(path)}", param, ctx)
        return super().convert(value, param, ctx)


def _nearest_hint(path: Path) -> str:
    """Ask whether the file with the nearest name in the same folder was meant."""
    import difflib  # noqa: PLC0415 - only for this error

    try:
        names = [entry.name for entry in itertools.islice(path.parent.iterdir(), _MOST_NAMES)]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=_SIMILAR_NAMES)
    return f"; did you mean {str(path.parent / close[0])!r}?" if close else ""


_MOST_NAMES = 1000
"""Names in a folder that are compared."""
_SIMILAR_NAMES = 0.75
"""difflib's ratio: pod.yml is similar enough to pod.yaml; by the ending alone, every file would be."""


class SectionedCommand(click.Command):
    """A command whose help groups its flags under headings."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        """Take the names of parameters by heading; all others come first, as ``Options``."""
        super().__init__(*args, **kwargs)
        self._headings = {name: heading for heading, names in sections.items() for name in names}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags under their headings, in the order of declaration."""
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


FORMATS = ("text", "json", "jsonl", "yaml")
"""The output formats of every command that has ``-o``."""

REVIEW_FORMATS = (*FORMATS, "junit", "sarif", "github")
"""The output formats of reviews, which include those that CI systems read."""

LIST_FORMATS = ("text", "table", *REVIEW_FORMATS[1:])
"""The output formats of ``pratique plugins``."""

DECISION_FORMATS = (*LIST_FORMATS, "policyreport", "openreports")
"""The output formats of ``pratique review``."""


class OutputTarget(NamedTuple):
    """A format, and where to write it."""

    format: str
    file: Path | None = None
    """None means standard output."""


class _Target(click.ParamType[OutputTarget]):
    """``FORMAT`` or ``FORMAT=FILE``."""

    name = "FORMAT[=FILE]"

    def __init__(self, formats: Sequence[str]) -> None:
        self._format = _Format(formats, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OutputTarget:
        if isinstance(value, OutputTarget):
            return value
        name, equals, file = str(value).partition("=")
        chosen = self._format.convert(name, param, ctx)
        if equals and not file:
            self.fail(f"{value!r} names no file; write {chosen}=FILE", param, ctx)
        return OutputTarget(chosen, Path(file) if file not in {"", "-"} else None)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        return self._format.shell_complete(ctx, param, incomplete)


def outputs_flag(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o``, which can be repeated; the command gets the targets as ``outputs``, standard output first."""

    def one_to_stdout(
        ctx: click.Context, param: click.Parameter, value: tuple[OutputTarget, ...]
    ) -> tuple[OutputTarget, ...]:
        shown = [target for target in value if target.file is None]
        if len(shown) > 1:
            names = ", ".join(target.format for target in shown)
            raise click.BadParameter(
                f"{names} would all go to standard output; write FORMAT=FILE for all but one", ctx, param
            )
        return (*(shown or [OutputTarget("text")]), *(target for target in value if target.file))

    return flag(
        "-o",
        "--output",
        "outputs",
        type=_Target(DECISION_FORMATS),
        multiple=True,
        callback=one_to_stdout,
        metavar=_Target.name,
        help=f"The format: {', '.join(DECISION_FORMATS)}; text by default. FORMAT=FILE writes to a file besides."
        " Repeatable.",
    )(callback)


class _Format(click.Choice[str]):
    name = "format"

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's
        return f"{value!r} is not a format; there are {', '.join(self.choices)}."


def format_flag(*formats: str, default: str = "text") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``-o`` with the given formats; the command gets it as ``output``."""
    return flag(
        "-o",
        "--output",
        type=_Format(formats, case_sensitive=False),
        default=default,
        show_default=True,
        help="The output format.",
    )


color_flag = flag(
    "--color/--no-color",
    default=None,
    help="Turn colours on or off. By default: on a terminal, unless NO_COLOR is set.",
)
"""Add ``--color`` to a command, which gets it as ``color``."""

exclude_flag = flag(
    "--exclude",
    type=NameList(),
    multiple=True,
    metavar="A,B",
    help="Files and subfolders of folders to leave out, by name, or by path from the folder: values.yaml,"
    " 'charts/*/templates'. Repeatable.",
)
"""Add ``--exclude`` to a command, which gets it as ``exclude``: patterns for :func:`walk`."""


def timeout_flag(subject: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--timeout``, the time limit of ``subject``, to a command, which gets it in seconds."""
    return flag(
        "--timeout",
        type=Seconds(),
        default="10s",
        show_default=True,
        help=f"How long {subject} may take, such as 500ms or 30s.",
    )


def flattened(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Join the values of a repeated :class:`NameList`."""
    return tuple(itertools.chain.from_iterable(lists))
