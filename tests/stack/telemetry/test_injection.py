"""Injection: no name that a client chooses breaks a log line, or controls a terminal."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import msgspec
import pytest

from pratique.admission.reviews import Call
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.store import ANY_NAMESPACE
from pratique.hosting.running import MutatorHost
from pratique.telemetry.logs import MAX_TEXT_LENGTH, configure_logging
from pratique_cli.terminal import printable
from support.services import controllers
from support.services.reviews import review_of

HOSTILE = [
    "a\nb",
    "a\rb",
    "a\r\n\r\nb",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "a\u2028b\u2029c\x85d",
    "\u202egnp.exe",
    "\ud800\udfff\udc00",
    "\x00\x08\x7f",
    '"}\n{"level": "error"}',
    "n" * 10_240,
    "\n" * 10_240,
    "\x1b" * 10_240,
]


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """The logged records; afterwards logging is restored."""
    root, raising = logging.getLogger(), logging.raiseExceptions
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("mutator", "DEBUG", stream)
    yield stream
    root.handlers[:], logging.raiseExceptions = handlers, raising
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_failing_controller_logs_one_line_whatever_the_name_of_the_object(
    written: io.StringIO, text: str
) -> None:
    host = MutatorHost([controllers.hosted("c", controllers.raising(ValueError(text)))], ANY_NAMESPACE)
    user = UserInfo(text, text, (text,))
    review = msgspec.structs.replace(review_of(), uid=text, name=text, namespace=text, user=user)
    asyncio.run(host.mutate(review, [Call("c")]))
    (line,) = written.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    fields = json.loads(line)
    assert fields["message"] == "a controller failed"
    assert all(len(value) <= MAX_TEXT_LENGTH for value in fields.values() if isinstance(value, str))
    assert all(value.isprintable() for value in fields.values() if isinstance(value, str))


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_output_contains_no_terminal_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert "\x1b" not in shown
