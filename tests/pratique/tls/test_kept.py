"""What is made of files stays as long as what comes after it cannot be used."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import pytest

from pratique.errors import ConfigurationError
from pratique.tls.kept import WARNING_SECONDS, Kept, keep_fresh
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def number_in(file: Path) -> int:
    text = file.read_text()
    if text == "broken":
        raise ConfigurationError("it is broken")
    return int(text)


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "number"
    file.write_text("1")
    return file


def kept(file: Path) -> Kept[int]:
    return Kept("number", lambda: number_in(file), (file,))


def test_a_new_value_is_taken_up_and_told(file: Path) -> None:
    one, told = kept(file), []

    async def later(value: int) -> None:
        await asyncio.sleep(0)
        told.append(-value)

    one.tell(told.append)
    one.tell(later)
    file.write_text("2")
    asyncio.run(one.refresh())
    assert (one.value, told) == (2, [2, -2])
    asyncio.run(one.refresh())
    assert told == [2, -2]


@pytest.mark.parametrize("content", ["broken", "no number", None])
def test_what_cannot_be_used_leaves_what_was_there(
    file: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    one = kept(file)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    for _ in range(2):
        asyncio.run(one.refresh())
    assert one.value == 1
    assert one.failure
    assert one.warning() == "number kept, the new one cannot be used"
    assert caplog.messages == [
        "number kept, the new one cannot be used"
    ]  # once, however often it is looked at
    file.write_text("1")
    asyncio.run(one.refresh())
    assert (one.failure, one.warning()) == ("", "")


def test_a_listener_that_fails_leaves_what_was_there(file: Path) -> None:
    one = kept(file)

    def refuse(_: int) -> None:
        raise RuntimeError("secret")

    one.tell(refuse)
    file.write_text("2")
    asyncio.run(one.refresh())
    assert one.value == 1
    assert "RuntimeError" in one.failure
    assert "secret" not in one.failure


@pytest.mark.parametrize(
    ("left", "warned"),
    [(WARNING_SECONDS + 60, ""), (WARNING_SECONDS - 60, "number ends "), (-60, "number ended ")],
)
def test_what_ends_within_a_week_is_warned_of(file: Path, left: float, warned: str) -> None:
    end = time.time() + left
    one = Kept("number", lambda: number_in(file), (file,), ends_at=lambda _: end)
    assert one.ends_at == end
    assert one.warning().startswith(warned)
    assert bool(one.warning()) is bool(warned)


def test_a_change_before_the_watch_begins_is_taken_up_too(file: Path) -> None:
    one = kept(file)
    file.write_text("2")

    async def changed() -> bool:
        return one.value == 2

    async def run() -> None:
        watching = asyncio.ensure_future(keep_fresh([one]))
        await until(10, changed)
        watching.cancel()
        await asyncio.wait([watching])

    asyncio.run(run())


def test_without_files_there_is_nothing_to_watch() -> None:
    asyncio.run(keep_fresh([]))


def test_what_ends_soon_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = Kept("number", lambda: number_in(file), (file,), ends_at=lambda _: time.time() + 60)

    async def warned() -> bool:
        return "certificate to be renewed" in caplog.messages

    async def run() -> None:
        watching = asyncio.ensure_future(keep_fresh([one]))
        await until(10, warned)
        watching.cancel()
        await asyncio.wait([watching])

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
