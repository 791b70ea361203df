"""Levels and versions of the Pod Security Standards.

Source: ``k8s.io/pod-security-admission/api/{constants,helpers}.go``.
"""

from __future__ import annotations

import dataclasses
import enum
import re

from pratique.errors import InputError


class Level(enum.StrEnum):
    """How much Pods may do, from everything to hardly anything. The order of the members is that of strictness."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"

    @property
    def strictness(self) -> int:
        """0 for the level that forbids nothing; more is stricter."""
        return _STRICTNESS[self]


_STRICTNESS = {level: place for place, level in enumerate(Level)}


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """The Kubernetes release whose standards count: ``v1.<minor>``."""

    minor: int | None = None
    """None is ``latest``: whatever the newest standards say."""

    def __str__(self) -> str:
        return "latest" if self.minor is None else f"v1.{self.minor}"


LATEST = Version()


@dataclasses.dataclass(frozen=True, slots=True)
class LevelVersion:
    """A level as of one release. Prints as ``restricted:v1.37``."""

    level: Level
    version: Version = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def is_equivalent(self, other: LevelVersion) -> bool:
        """Tell whether both forbid the same; of ``privileged`` the version does not matter."""
        return self == other or self.level is other.level is Level.PRIVILEGED


PRIVILEGED = LevelVersion(Level.PRIVILEGED)
"""Forbids nothing."""

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LARGEST = 2**63 - 1  # Go's int


def parse_level(text: str) -> Level:
    """Read a level.

    Raises:
        InputError: there is none of that name.
    """
    try:
        return Level(text)
    except ValueError:
        raise InputError(f"must be one of {', '.join(Level)}") from None


def parse_version(text: str) -> Version:
    """Read a version, ``latest`` or ``v1.x``; one that is still to come counts as the newest.

    Raises:
        InputError: it is neither.
    """
    if text == "latest":
        return LATEST
    found = _VERSION.fullmatch(text)
    # Python refuses to read numbers of thousands of digits.
    if found is None or len(found[1]) > len(str(_LARGEST)) or int(found[1]) > _LARGEST:
        raise InputError('must be "latest" or "v1.x"')
    return Version(int(found[1]))
