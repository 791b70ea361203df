from __future__ import annotations

import asyncio
import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.telemetry.logs import FIELDS, MAX_TEXT_LENGTH, configure_logging, log_loop_error

OWN = logging.getLogger("pratique_frontdoor.somewhere")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged; afterwards logging is as it was."""
    root, raising = logging.getLogger(), logging.raiseExceptions
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("frontdoor", "DEBUG", stream)
    yield stream
    root.handlers[:], logging.raiseExceptions = handlers, raising
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def only_line(written: io.StringIO) -> JSON:
    (line,) = written.getvalue().splitlines()
    return json.loads(line)


def test_a_line_has_time_level_service_logger_and_message(written: io.StringIO) -> None:
    OWN.info("draining", extra={"count": 3, "path": "/validate"})
    line = only_line(written)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "service": "frontdoor",
        "logger": "pratique_frontdoor.somewhere",
        "message": "draining",
        "count": 3,
        "path": "/validate",
    }


def test_undeclared_fields_are_dropped(written: io.StringIO) -> None:
    OWN.info("reviewed", extra={"review": "secret", "object": {"a": "secret"}})
    assert "secret" not in written.getvalue()
    assert "review" not in only_line(written)


def test_objects_are_logged_by_type_only(written: io.StringIO) -> None:
    OWN.info("reviewed", extra={"uid": {"a": "secret"}, "path": b"secret", "reason": ValueError("secret")})
    line = only_line(written)
    assert (line["uid"], line["path"], line["reason"]) == ("<dict>", "<bytes>", "<ValueError>")
    assert "secret" not in written.getvalue()


def test_an_exception_is_logged_by_type_and_place_never_by_text(written: io.StringIO) -> None:
    try:
        int("secret")
    except ValueError:
        OWN.exception("it broke")
    line = only_line(written)
    assert line["error"].startswith("ValueError < test_an_exception_is_logged_by_type")
    assert "secret" not in written.getvalue()
    assert "exc_info" not in line


def test_stack_info_is_not_logged(written: io.StringIO) -> None:
    OWN.warning("here", stack_info=True)
    assert "test_stack_info_is_not_logged" not in written.getvalue()


def test_only_the_first_line_of_a_library_message_is_logged(written: io.StringIO) -> None:
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task secret>")
    assert only_line(written)["message"] == "Task exception was never retrieved"


def test_libraries_log_from_warning_upwards(written: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("Started server process")
    assert not written.getvalue()


def test_python_warnings_are_logged(written: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert only_line(written)["logger"] == "py.warnings"


def test_a_failed_write_prints_no_arguments(written: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    OWN.info("%d", "secret")
    assert not written.getvalue()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u2028b", r"a\u2028b"),
        ("a\u202eb", r"a\u202eb"),
        ("\ud800", r"\ud800"),
        ("\x9b31m", r"\u009b31m"),
        ("Grüße, 世界", "Grüße, 世界"),
        ("x" * 256, "x" * 256),
        ("x" * 257, "x" * 255 + "…"),
        ("\n" * 1_000_000, r"\n" * 127 + "\\…"),
    ],
)
def test_texts_are_escaped_and_truncated(written: io.StringIO, text: str, shown: str) -> None:
    OWN.info("reviewed", extra={"uid": text})
    assert only_line(written)["uid"] == shown


@given(text=st.text(st.characters(codec=None), max_size=400), field=st.sampled_from(sorted(FIELDS)))
def test_any_record_is_one_line_of_json_with_short_printable_texts(text: str, field: str) -> None:
    stream = io.StringIO()
    logger = logging.getLogger("hypothesis.logs")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter())
    logger.handlers[:], logger.propagate = [handler], False
    logger.error(text.replace("%", ""), extra={field: text})
    line = only_line(stream)
    assert stream.getvalue().isascii()
    assert all(len(value) <= MAX_TEXT_LENGTH for value in line.values() if isinstance(value, str))
    assert all(value.isprintable() for value in line.values() if isinstance(value, str))


def _formatter() -> logging.Formatter | None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging("frontdoor", stream=io.StringIO())
    formatter = root.handlers[0].formatter
    root.handlers[:], logging.raiseExceptions = handlers, True
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    return formatter


def test_an_unhandled_loop_error_is_logged_without_arguments(written: io.StringIO) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_loop_error)
        loop.call_soon(int, "secret")
        await asyncio.sleep(0)

    asyncio.run(run())
    line = only_line(written)
    assert (line["level"], line["message"]) == ("error", "unhandled error in the event loop")
    assert line["error"].startswith("ValueError")
    assert "secret" not in written.getvalue()


def test_every_declared_field_has_a_description() -> None:
    assert all(FIELDS.values())
