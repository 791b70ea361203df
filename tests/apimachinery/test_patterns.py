"""Patterns are compiled on their first use, and are then what ``re.compile`` makes."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
from collections.abc import Callable

import pytest

import pratique
import pratique_cli
import pratique_frontdoor
import pratique_mutator
import pratique_validator
from pratique.apimachinery.patterns import pattern

PACKAGES = [pratique, pratique_cli, pratique_frontdoor, pratique_mutator, pratique_validator]

USES: list[Callable[[re.Pattern[str]], object]] = [
    lambda found: found.findall("a1 b2"),
    lambda found: [match.span() for match in found.finditer("a1 b2")],
    lambda found: str(found.fullmatch("A1")),
    lambda found: found.groups,
    lambda found: found.groupindex,
    lambda found: str(found.match("xa1", 1)),
    lambda found: found.pattern,
    lambda found: str(found.search("- a1")),
    lambda found: found.split("a1-b2"),
    lambda found: found.sub(r"\2\1", "a1 b2"),
]


@pytest.mark.parametrize("use", USES)
def test_a_pattern_does_what_a_compiled_one_does(use: Callable[[re.Pattern[str]], object]) -> None:
    text = "([a-z])(?P<digit>[0-9])"
    lazy = pattern(text, re.IGNORECASE)
    expected = use(re.compile(text, re.IGNORECASE))
    assert [use(lazy), use(lazy)] == [expected, expected]


def test_a_pattern_of_bytes_matches_bytes() -> None:
    assert pattern(b"[0-9]+").sub(b"#", b"port 80") == b"port #"


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    faulty = pattern("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        faulty.match("")


def test_every_pattern_of_the_services_compiles() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    lazy = [found for found in gc.get_objects() if type(found) is type(pattern(""))]
    assert len(lazy) > 200
    for found in lazy:
        assert re.compile(found.pattern).groups == found.groups
