from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pratique_frontdoor.recording.files import RotatedFile

DEVICE = Path("/dev/full")
LINE = b"0123456789\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reviews.jsonl"


@pytest.fixture
def file(path: Path) -> Iterator[RotatedFile]:
    """Three files of two lines each."""
    opened = RotatedFile(path, max_bytes=2 * len(LINE), files=3)
    yield opened
    opened.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_files_whatever_the_umask(path: Path, file: RotatedFile) -> None:
    before = os.umask(0)
    try:
        for _ in range(5):
            file.append(LINE)
    finally:
        os.umask(before)
    assert {mode(item) for item in path.parent.iterdir()} == {0o600}


def test_permissions_of_an_existing_file_are_narrowed(path: Path) -> None:
    path.write_bytes(LINE)
    path.chmod(0o644)
    RotatedFile(path, max_bytes=100, files=1).close()
    assert mode(path) == 0o600


def test_a_full_file_is_renamed_and_the_oldest_is_deleted(path: Path, file: RotatedFile) -> None:
    for number in range(9):
        file.append(b"line %d ...\n" % number)
    names = ["reviews.jsonl", "reviews.jsonl.1", "reviews.jsonl.2"]
    assert sorted(item.name for item in path.parent.iterdir()) == names
    newest = b"".join(path.with_name(name).read_bytes() for name in reversed(names))
    assert newest.splitlines()[-1] == b"line 8 ..."
    assert all(path.with_name(name).stat().st_size <= 2 * len(LINE) for name in names)


def test_a_single_file_starts_again_when_full(path: Path) -> None:
    file = RotatedFile(path, max_bytes=len(LINE), files=1)
    file.append(LINE)
    file.append(b"another\n")
    file.close()
    assert path.read_bytes() == b"another\n"
    assert [*path.parent.iterdir()] == [path]


def test_existing_lines_are_kept(path: Path, file: RotatedFile) -> None:
    file.append(LINE)
    again = RotatedFile(path, max_bytes=100, files=1)
    again.append(LINE)
    again.close()
    assert path.read_bytes() == 2 * LINE


def test_a_partial_line_of_a_killed_writer_is_terminated(path: Path) -> None:
    path.write_bytes(b'{"half')
    file = RotatedFile(path, max_bytes=100, files=1)
    file.append(LINE)
    file.close()
    assert path.read_bytes() == b'{"half\n' + LINE


def test_a_partial_line_on_a_full_disk_does_not_prevent_a_start(path: Path) -> None:
    path.write_bytes(b'{"half')
    with largest_file(6):
        file = RotatedFile(path, max_bytes=100, files=1)
        with pytest.raises(OSError, match="File too large"):
            file.append(LINE)
    file.append(LINE)
    file.append(LINE)
    file.close()
    assert path.read_bytes() == b'{"half\n' + 2 * LINE


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process become larger, as on a disk that is full."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_line_larger_than_a_file_is_refused(path: Path, file: RotatedFile) -> None:
    with pytest.raises(OSError, match="File too large"):
        file.append(b"x" * 100 + b"\n")
    file.append(LINE)
    assert path.read_bytes() == LINE


@pytest.mark.parametrize("take_away", [lambda path: path.unlink(), lambda path: path.rename(f"{path}.old")])
def test_a_deleted_file_is_created_again(path: Path, file: RotatedFile, take_away: object) -> None:
    file.append(LINE)
    take_away(path)  # type: ignore[operator] # each of them is called with a path
    file.append(b"again\n")
    assert path.read_bytes() == b"again\n"


def test_a_deleted_folder_is_an_error_until_it_is_back(path: Path, file: RotatedFile) -> None:
    path.unlink()
    path.parent.rename(f"{path.parent}-gone")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.append(LINE)
    path.parent.mkdir()
    file.append(LINE)
    assert path.read_bytes() == LINE


def test_a_full_disk_is_an_error_and_writing_goes_on_later() -> None:
    file = RotatedFile(DEVICE, max_bytes=100, files=2)
    for _ in range(2):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is asked for
            file.append(LINE)
        assert caught.value.errno == errno.ENOSPC


def test_nothing_remains_of_a_line_that_did_not_fit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RotatedFile(path, max_bytes=100, files=1)
    file.append(LINE)
    write, calls = os.write, []

    def full(descriptor: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, bytes(data)[:4])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        file.append(LINE)
    assert path.read_bytes() == LINE


@pytest.mark.parametrize("where", ["missing/reviews.jsonl", "."])
def test_an_unwritable_path_is_refused_on_opening(tmp_path: Path, where: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        RotatedFile(tmp_path / where, max_bytes=100, files=1)
