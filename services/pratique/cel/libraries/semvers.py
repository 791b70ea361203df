"""Semantic versions: ``semver(text)`` and comparisons.

Source: ``k8s.io/apiserver/pkg/cel/library/semverlib.go`` and ``github.com/blang/semver/v4``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

import msgspec

from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.quantities import QuantityValue
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value

_NUMBER = pattern(r"[0-9]+", re.ASCII)
_IDENTIFIER = pattern(r"[0-9A-Za-z-]+", re.ASCII)
_MAXIMUM = 2**64 - 1
_PARTS = ("Major", "Minor", "Patch")


class SemverValue(msgspec.Struct, frozen=True):
    """A version as a CEL value. Versions that differ only in build metadata are equal."""

    cel_type: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    """Major, minor and patch."""
    prerelease: tuple[int | str, ...] = ()

    def compare(self, other: SemverValue) -> int:
        """Compare two versions: -1, 0 or 1."""
        mine, others = self._rank(), other._rank()
        return (mine > others) - (mine < others)

    def _rank(self) -> tuple[tuple[int, int, int], bool, list[tuple[bool, int, str]]]:
        """The sort key: a release comes after its prereleases, a number before a word."""
        parts = [(False, part, "") if isinstance(part, int) else (True, 0, part) for part in self.prerelease]
        return self.numbers, not self.prerelease, parts


def parse_semver(text: str) -> SemverValue:
    """Parse a version. Raises EvaluationError with the message of ``semver.Parse``."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], 0), _number(parts[1], 1)
    rest, plus, build = parts[2].partition("+")
    patch, hyphen, prerelease = rest.partition("-")
    version = SemverValue(
        (major, minor, _number(patch, 2)),
        tuple(_prerelease(part) for part in prerelease.split(".")) if hyphen else (),
    )
    for part in build.split(".") if plus else ():
        _check_build(part)
    return version


def _number(text: str, place: int) -> int:
    name = _PARTS[place]
    if text and not _NUMBER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {name.lower()} number {go_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name} number must not contain leading zeroes {go_quoted(text)}")
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAXIMUM:
        raise EvaluationError(f"strconv.ParseUint: parsing {go_quoted(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {go_quoted(text)}")
    if not _NUMBER.fullmatch(text):
        return text
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {go_quoted(text)}")
    if len(text) > 20 or int(text) > _MAXIMUM:
        raise EvaluationError(f"strconv.ParseUint: parsing {go_quoted(text)}: value out of range")
    return int(text)


def _check_build(text: str) -> None:
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in build meta data {go_quoted(text)}")


def normalize_version(text: str) -> str:
    """Complete a version such as ``v1.02`` to ``1.2.0``. Raises EvaluationError if that is impossible."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isascii() and stripped[:1].isdigit() else f"0{stripped}"


def _semver(_: Frame, text: Value, normalize: Value = False) -> SemverValue:  # noqa: FBT002 - as CEL calls it
    require_types((str, bool), text, normalize)
    return parse_semver(normalize_version(text) if normalize else text)


def _is_semver(frame: Frame, text: Value, normalize: Value = False) -> bool:  # noqa: FBT002 - likewise
    require_types((str, bool), text, normalize)
    try:
        _semver(frame, text, normalize)
    except EvaluationError:
        return False
    return True


def _version_number(place: int) -> Callable[[Frame, Value], int]:
    def run(_: Frame, version: Value) -> int:
        require_types((SemverValue,), version)
        return int(version.numbers[place])

    return run


def _comparison(read: Callable[[int], Value]) -> Callable[[Frame, Value, Value], Value]:
    def run(_: Frame, left: Value, right: Value) -> Value:
        if type(left) is not type(right) or type(left) not in (SemverValue, QuantityValue):
            raise NoSuchOverloadError
        return read(left.compare(right))

    return run


_SEMVER = "kubernetes.Semver"
LIBRARY = Library(
    overloads=(
        Overload("string_to_semver", "semver(string)", _SEMVER),
        Overload("string_bool_to_semver", "semver(string,bool)", _SEMVER),
        Overload("is_semver_string", "isSemver(string)", "bool"),
        Overload("is_semver_string_bool", "isSemver(string,bool)", "bool"),
        Overload("semver_is_greater_than", f"{_SEMVER}.isGreaterThan({_SEMVER})", "bool"),
        Overload("semver_is_less_than", f"{_SEMVER}.isLessThan({_SEMVER})", "bool"),
        Overload("semver_compare_to", f"{_SEMVER}.compareTo({_SEMVER})", "int"),
        Overload("semver_major", f"{_SEMVER}.major()", "int"),
        Overload("semver_minor", f"{_SEMVER}.minor()", "int"),
        Overload("semver_patch", f"{_SEMVER}.patch()", "int"),
    ),
    functions={
        "semver": _semver,
        "isSemver": _is_semver,
        "major": _version_number(0),
        "minor": _version_number(1),
        "patch": _version_number(2),
        "isGreaterThan": _comparison(lambda order: order == 1),
        "isLessThan": _comparison(lambda order: order == -1),
        "compareTo": _comparison(lambda order: order),
    },
)
