"""Reloading values when their files change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.telemetry.reloading_files import Reloaded, keep_reloading
from support.waiting import until

PATIENCE_SECONDS = 120  # far more than a change takes to be noticed, so that a busy machine fails nothing
KEPT = "number kept, the new one cannot be used"


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


def write(file: Path, text: object) -> None:
    file.write_text(str(text))


def reloaded(file: Path) -> Reloaded[int]:
    return Reloaded("number", lambda: number_in(file), (file,))


@contextlib.asynccontextmanager
async def watched(*values: Reloaded[int]) -> AsyncIterator[None]:
    watching = asyncio.ensure_future(keep_reloading(values))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def until_it_is(source: Reloaded[int], number: int) -> None:
    async def it_is() -> bool:
        return source.value == number

    await until(PATIENCE_SECONDS, it_is)


async def until_it_failed(source: Reloaded[int]) -> None:
    async def it_failed() -> str:
        return source.failure

    await until(PATIENCE_SECONDS, it_failed)


def test_the_first_value_must_be_good(file: Path) -> None:
    file.write_text("broken")
    with pytest.raises(ConfigurationError, match="it is broken"):
        reloaded(file)


def test_files_that_a_file_names_are_watched_even_if_another_change_names_them(file: Path) -> None:
    """A file names the one that holds the number."""
    first, second, third = (file.with_name(name) for name in ("first", "second", "third"))
    write(file, "first")
    write(first, 1)
    write(second, 2)

    def load() -> int:
        return number_in(file.with_name(file.read_text()))

    source = Reloaded("number", load, lambda: (file, file.with_name(file.read_text())))

    async def scenario() -> None:
        async with watched(source):
            write(file, "second")
            await until_it_is(source, 2)
            write(second, 22)
            await until_it_is(source, 22)
            write(file, "third")  # is not there yet
            await until_it_failed(source)
            write(third, 3)
            await until_it_is(source, 3)

    asyncio.run(scenario())


def test_a_new_value_replaces_the_old_one_and_listeners_get_it(file: Path) -> None:
    source = reloaded(file)
    announced: list[int] = []

    async def later(value: int) -> None:
        await asyncio.sleep(0)
        announced.append(-value)

    source.add_listener(announced.append)
    source.add_listener(later)
    file.write_text("2")
    asyncio.run(source.refresh())
    assert (source.value, announced, source.reloads.successes) == (2, [2, -2], 2)


def test_an_equal_value_is_not_announced(file: Path) -> None:
    source = reloaded(file)
    announced: list[int] = []
    source.add_listener(announced.append)
    asyncio.run(source.refresh())
    assert (announced, source.reloads.successes) == ([], 2)


@pytest.mark.parametrize("content", ["broken", "no number", None])
def test_a_bad_file_leaves_the_last_good_value(
    file: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    source = reloaded(file)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    for _ in range(2):
        asyncio.run(source.refresh())
    assert source.value == 1
    assert source.failure
    assert (caplog.messages, source.reloads.failures) == ([KEPT], 2)  # told once, however often it is read


def test_a_recovery_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = reloaded(file)
    with caplog.at_level(logging.INFO):
        for content in ("broken", "1"):
            file.write_text(content)
            asyncio.run(source.refresh())
    assert (source.failure, caplog.messages) == ("", [KEPT, "number reloaded"])


@pytest.mark.parametrize("error", [ConfigurationError("no use"), RuntimeError("secret")])
def test_a_failing_listener_leaves_the_last_good_value(file: Path, error: Exception) -> None:
    source = reloaded(file)

    def refuse(_: int) -> None:
        raise error

    source.add_listener(refuse)
    file.write_text("2")
    asyncio.run(source.refresh())
    assert source.value == 1
    assert source.failure == "no use" or source.failure.startswith("RuntimeError < ")
    assert "secret" not in source.failure


def test_the_watch_survives_any_error(file: Path) -> None:
    source = reloaded(file)

    async def run() -> None:
        async with watched(source):
            for broken, good in (("broken", 2), ("no number", 3)):
                write(file, broken)
                await until_it_failed(source)
                write(file, good)
                await until_it_is(source, good)

    asyncio.run(run())


def test_a_change_before_the_watch_begins_is_loaded(file: Path) -> None:
    source = reloaded(file)
    file.write_text("2")

    async def run() -> None:
        async with watched(source):
            await until_it_is(source, 2)

    asyncio.run(run())


def test_one_watch_serves_many_values(file: Path) -> None:
    beside = file.with_name("beside")
    beside.write_text("10")
    both = (reloaded(file), reloaded(beside))

    async def run() -> None:
        async with watched(*both):
            for number in (2, 3):
                write(file, number)
                await until_it_is(both[0], number)
                write(beside, 10 * number)
                await until_it_is(both[1], 10 * number)

    asyncio.run(run())


def test_a_file_written_in_pieces_is_loaded_whole(file: Path) -> None:
    source = reloaded(file)
    announced: list[int] = []
    source.add_listener(announced.append)

    async def run() -> None:
        async with watched(source):
            for length in range(1, 10):
                write(file, "7" * length)
                await asyncio.sleep(0.02)
            await until_it_is(source, 777_777_777)

    asyncio.run(run())
    assert not source.failure


def test_without_files_there_is_nothing_to_watch() -> None:
    asyncio.run(keep_reloading([]))
