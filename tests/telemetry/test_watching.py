"""Noticing changes of files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from pratique.telemetry.reloading_files import fingerprint, watch

PATIENCE_SECONDS = 120  # far more than a change takes to be noticed, so that a busy machine fails nothing


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
def test_every_way_of_changing_a_file_is_noticed(
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


def new_subfolder(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "b.yaml").write_text("new")


def renamed_subfolder(folder: Path) -> None:
    (folder / "inner").rename(folder / "other")


def file_deep_inside(folder: Path) -> None:
    (folder / "inner" / "deep" / "a.yaml").write_text("other")


@pytest.mark.parametrize("change", [new_subfolder, renamed_subfolder, file_deep_inside])
def test_changes_in_subfolders_are_noticed(tmp_path: Path, change: Callable[[Path], None]) -> None:
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    plain(tmp_path / "inner" / "deep")

    async def scenario() -> None:
        changes = watch([tmp_path], poll_seconds=600)  # by events alone
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.3)
        assert not noticed.done()
        change(tmp_path)
        await noticed
        await changes.aclose()

    run(scenario)


def test_a_file_created_later_is_noticed(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = watch([tmp_path / "a.yaml"])
        noticed = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        (tmp_path / "a.yaml").write_text("one")
        await noticed
        await changes.aclose()

    run(scenario)


def test_changes_to_neighbouring_files_are_ignored(tmp_path: Path) -> None:
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


def test_a_change_without_an_event_is_noticed_by_polling(tmp_path: Path) -> None:
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


def test_a_missing_folder_is_waited_for(tmp_path: Path) -> None:
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


def test_a_cancelled_watch_leaves_nothing_running(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(anext(watch([tmp_path])))
        await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before

    run(scenario)


def test_a_missing_file_has_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    before = fingerprint([tmp_path / "a.yaml"])
    (tmp_path / "a.yaml").touch()
    assert fingerprint([tmp_path / "a.yaml"]) != before
