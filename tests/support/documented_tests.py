"""The tests that a page of the documentation names, and those that there are."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_LIKE_ONE = re.compile(r"`[^`\n]*(?:::|\btest_\w+)[^`\n]*`")
_ENTRY = re.compile(r"^### ([^:\n]+)(?:: [^\n]+)?\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^- (\w+): ?(.*(?:\n  .+)*)", re.MULTILINE)


class NamedTest(NamedTuple):
    """A test function, or a whole file of tests where no function is named."""

    file: str
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}::{self.function}" if self.function else self.file


def named_in(text: str) -> list[NamedTest]:
    """All tests that a text names, written as ``tests/…/test_x.py::test_y`` between backticks."""
    return [NamedTest(*found) for found in _NAMED.findall(text)]


def badly_named_in(text: str) -> list[str]:
    """What looks like the name of a test, and is not written as one."""
    return [found for found in _LIKE_ONE.findall(text) if not _NAMED.fullmatch(found)]


def is_there(test: NamedTest) -> bool:
    """Whether there is such a test."""
    path = ROOT / test.file
    return path.is_file() and (not test.function or test.function in functions_of(path))


@functools.cache
def functions_of(path: Path) -> frozenset[str]:
    """The names of the test functions in a file, read from its text."""
    return frozenset(
        node.name
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def entries_of(text: str, title: str) -> dict[str, dict[str, str]]:
    """The entries of a section, by what stands before the colon in their headings; of each, its fields by name."""
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return {key: dict(_FIELD.findall(body)) for key, body in _ENTRY.findall(section)}
