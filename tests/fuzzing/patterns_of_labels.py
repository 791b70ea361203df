"""Bytes to what chooses objects by their labels: selectors as JSON, and sets of labels in one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.selectors import LabelSelector, compile_selector, parse_label_set

OBJECTS: list[object] = [
    None,
    {},
    {"metadata": {}},
    {"metadata": {"labels": {}}},
    {"metadata": {"labels": {"a": "b", "": "", "x/y": "1"}}},
]
"""What is asked of every selector."""


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Read bytes as both."""
    understood = [_is_selector(data), _is_label_set(data)]
    return any(understood)


def _is_selector(data: bytes) -> bool:
    try:
        written = msgspec.json.decode(data, type=LabelSelector)
        selector = compile_selector(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InputError):
        return False
    answers = [selector.matches_object(one) for one in OBJECTS]
    assert all(answers) or not written.is_empty
    return True


def _is_label_set(data: bytes) -> bool:
    try:
        parse_label_set(data.decode("utf-8", "replace"))
    except InputError:
        return False
    return True


def seeds() -> Iterator[bytes]:
    """One of each operator, right and wrong."""
    for operator in ("In", "NotIn", "Exists", "DoesNotExist", "in"):
        for values in ([], ["b"], ["b", "-"]):
            expression = {"key": "a", "operator": operator, "values": values}
            yield json.dumps({"matchLabels": {"x/y": "1"}, "matchExpressions": [expression]}).encode()
    yield from (b"env=test, region=eu", b"a/b=", b"=", b"a=b=c", b"")
