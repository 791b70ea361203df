"""Files that change are noticed, in all the ways in which they change, and read again."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from pratique.errors import InputError
from pratique.watching import Reloaded, fingerprint, watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

PATIENCE_SECONDS = 20  # far more than a change takes to be noticed, so that a busy machine fails nothing


def run(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def write_in_place(file: Path) -> None:
    file.write_text("other")


def rename_over(file: Path) -> None:
    fresh = file.with_name("fresh")
    fresh.write_text("other")
    fresh.replace(file)


def remove(file: Path) -> None:
    file.unlink()


def swap_link(file: Path) -> None:
    """Do to ``..data`` what the kubelet does when a ConfigMap changes."""
    folder = file.parent
    fresh = folder / "..2025"
    fresh.mkdir()
    (fresh / file.name).write_text("other")
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").replace(folder / "..data")


def plain(folder: Path) -> Path:
    file = folder / "a.yaml"
    file.write_text("one")
    return file


def mounted(folder: Path) -> Path:
    """A file as in a mounted ConfigMap: a link into ``..data``, which is a link itself."""
    (folder / "..2024").mkdir()
    (folder / "..2024" / "a.yaml").write_text("one")
    (folder / "..data").symlink_to("..2024")
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    return folder / "a.yaml"


@pytest.mark.parametrize("watched", ["the file", "its folder"])
@pytest.mark.parametrize(
    ("make", "change"),
    [(plain, write_in_place), (plain, rename_over), (plain, remove), (mounted, swap_link)],
)
def test_a_change_is_noticed_however_it_is_made(
    tmp_path: Path, make: Callable[[Path], Path], change: Callable[[Path], None], watched: str
) -> None:
    file = make(tmp_path)

    async def scenario() -> None:
        changes = watch([file if watched == "the file" else tmp_path])
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        assert not noticed.done()
        change(file)
        await noticed
        await changes.aclose()

    run(scenario)


def test_a_file_that_comes_later_is_noticed(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = watch([tmp_path / "a.yaml"])
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        (tmp_path / "a.yaml").write_text("one")
        await noticed
        await changes.aclose()

    run(scenario)


def test_what_changes_beside_a_file_is_not_its_change(tmp_path: Path) -> None:
    file = plain(tmp_path)

    async def scenario() -> None:
        changes = watch([file])
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        (tmp_path / "b.yaml").write_text("beside")
        await asyncio.sleep(0.4)
        assert not noticed.done()
        file.write_text("other")
        await noticed
        await changes.aclose()

    run(scenario)


def test_a_change_before_the_watch_began_is_noticed(tmp_path: Path) -> None:
    file = plain(tmp_path)
    seen = fingerprint([file])
    file.write_text("other")

    async def scenario() -> None:
        changes = watch([file], seen=seen)
        await anext(changes)
        await changes.aclose()

    run(scenario)


def test_a_change_that_no_event_tells_of_is_noticed_by_looking(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    inner = folder / "inner"
    inner.mkdir(parents=True)
    file = plain(inner)
    link = folder / "a.yaml"
    link.symlink_to("inner/a.yaml")
    # The folder alone is watched: writing to what its entry links to makes no event in it.

    async def scenario() -> None:
        changes = watch([folder], poll_seconds=0.2)
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        write_in_place(file)
        await noticed
        await changes.aclose()

    run(scenario)


def test_a_folder_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "deeper" / "a.yaml"

    async def scenario() -> None:
        changes = watch([file], poll_seconds=0.1)
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.2)
        file.parent.mkdir(parents=True)
        file.write_text("one")
        await noticed
        await changes.aclose()

    run(scenario)


def test_a_watch_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(anext(watch([tmp_path])))
        await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before

    run(scenario)


@contextlib.asynccontextmanager
async def reloading(reloaded: Reloaded[str]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(reloaded.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def load(file: Path) -> str:
    text = file.read_text()
    if text == "bad":
        raise InputError("this is bad")
    return text


def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    file = plain(tmp_path)

    async def scenario() -> None:
        values: asyncio.Queue[str] = asyncio.Queue()
        errors: list[Exception] = []
        reloaded = Reloaded(lambda: load(file), [file], on_change=values.put, on_error=errors.append)
        assert reloaded.value == "one"
        async with reloading(reloaded):
            for text in ("two", "three!"):
                await asyncio.to_thread(file.write_text, text)
                assert await values.get() == reloaded.value == text
        assert not errors

    run(scenario)


@pytest.mark.parametrize("break_it", [lambda file: file.write_text("bad"), os.unlink], ids=["bad", "gone"])
def test_a_bad_change_is_told_and_the_last_good_value_stays(
    tmp_path: Path, break_it: Callable[[Path], object]
) -> None:
    file = plain(tmp_path)

    async def scenario() -> None:
        values: asyncio.Queue[str] = asyncio.Queue()
        errors: asyncio.Queue[Exception] = asyncio.Queue()
        reloaded = Reloaded(
            lambda: load(file), [file], on_change=values.put_nowait, on_error=errors.put_nowait
        )
        async with reloading(reloaded):
            break_it(file)
            assert isinstance(await errors.get(), InputError | FileNotFoundError)
            assert reloaded.value == "one"
            rename_over(file)
            assert await values.get() == reloaded.value == "other"

    run(scenario)


def test_a_value_that_its_user_refuses_is_told_and_the_watch_goes_on(tmp_path: Path) -> None:
    file = plain(tmp_path)

    async def scenario() -> None:
        values: asyncio.Queue[str] = asyncio.Queue()
        errors: asyncio.Queue[Exception] = asyncio.Queue()

        def use(value: str) -> None:
            if value == "refused":
                raise InputError("no use")
            values.put_nowait(value)

        reloaded = Reloaded(lambda: load(file), [file], on_change=use, on_error=errors.put_nowait)
        async with reloading(reloaded):
            file.write_text("refused")
            assert str(await errors.get()) == "no use"
            assert reloaded.value == "one"
            rename_over(file)
            assert await values.get() == reloaded.value == "other"

    run(scenario)


def test_the_first_load_must_succeed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("bad")
    with pytest.raises(InputError, match="this is bad"):
        Reloaded(lambda: load(file), [file], on_change=lambda _: None, on_error=lambda _: None)


def test_a_file_that_is_written_piece_by_piece_ends_up_whole(tmp_path: Path) -> None:
    file = plain(tmp_path)

    async def scenario() -> None:
        values: asyncio.Queue[str] = asyncio.Queue()
        errors: list[Exception] = []
        reloaded = Reloaded(lambda: load(file), [file], on_change=values.put_nowait, on_error=errors.append)
        async with reloading(reloaded):
            for length in range(10):
                file.write_text("x" * length)
                await asyncio.sleep(0.02)
            while await values.get() != "x" * 9:
                pass
        assert not errors

    run(scenario)


def test_the_fingerprint_of_what_is_not_there_differs_from_any_other(tmp_path: Path) -> None:
    before = fingerprint([tmp_path / "a.yaml"])
    (tmp_path / "a.yaml").touch()
    assert fingerprint([tmp_path / "a.yaml"]) != before
