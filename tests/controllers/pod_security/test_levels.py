"""Levels and versions."""

from __future__ import annotations

import itertools

import pytest

from pratique.apimachinery.errors import InputError
from pratique.controllers.pod_security.standards import (
    LATEST,
    LevelVersion,
    PodSecurityLevel,
    Version,
    parse_level,
    parse_version,
)

ALL = [
    LevelVersion(*pair) for pair in itertools.product(PodSecurityLevel, [LATEST, Version(18), Version(30)])
]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("latest", LATEST),
        ("v1.0", Version(0)),
        ("v1.1", Version(1)),
        ("v1.20", Version(20)),
        ("v1.10000", Version(10000)),
        ("v1.9223372036854775807", Version(2**63 - 1)),
    ],
)
def test_a_version_prints_as_it_was_written(text: str, version: Version) -> None:
    assert parse_version(text) == version
    assert str(version) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "foo",
            "",
            "v2.0",
            "v1",
            "1.1",
            "v1.",
            "v1.01",
            "v1.-1",
            "v1.1 ",
            "v1.1\n",
            "Latest",
            "v1.1.1",
            "v1.\u0661",
        ),
        "v1.9223372036854775808",
        f"v1.{'9' * 5000}",
    ],
)
def test_other_texts_are_not_versions(text: str) -> None:
    with pytest.raises(InputError, match=r'^must be "latest" or "v1\.x"$'):
        parse_version(text)


@pytest.mark.parametrize("text", ["", "Baseline", "restricted ", "default"])
def test_other_texts_are_not_levels(text: str) -> None:
    with pytest.raises(InputError, match=r"^must be one of privileged, baseline, restricted$"):
        parse_level(text)


def test_levels_are_ordered_by_strictness() -> None:
    assert [parse_level(text).strictness for text in ("privileged", "baseline", "restricted")] == [0, 1, 2]


@pytest.mark.parametrize("second", ALL, ids=str)
@pytest.mark.parametrize("first", ALL, ids=str)
def test_versions_matter_except_for_privileged(first: LevelVersion, second: LevelVersion) -> None:
    both_privileged = first.level is second.level is PodSecurityLevel.PRIVILEGED
    assert first.is_equivalent(second) is (both_privileged or str(first) == str(second))
