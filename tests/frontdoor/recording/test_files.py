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


def test_files_are_their_owners_alone_whatever_the_umask(path: Path, file: RotatedFile) -> None:
    before = os.umask(0)
    try:
        for _ in range(5):
            file.append(LINE)
    finally:
        os.umask(before)
    assert {mode(each) for each in path.parent.iterdir()} == {0o600}


def test_a_file_that_others_may_read_is_closed_to_them(path: Path) -> None:
    path.write_bytes(LINE)
    path.chmod(0o644)
    RotatedFile(path, max_bytes=100, files=1).close()
    assert mode(path) == 0o600


def test_a_full_file_is_renamed_and_the_oldest_goes(path: Path, file: RotatedFile) -> None:
    for number in range(9):
        file.append(b"line %d ...\n" % number)
    names = ["reviews.jsonl", "reviews.jsonl.1", "reviews.jsonl.2"]
    assert sorted(each.name for each in path.parent.iterdir()) == names
    newest = b"".join(path.with_name(name).read_bytes() for name in reversed(names))
    assert newest.splitlines()[-1] == b"line 8 ..."
    assert all(path.with_name(name).stat().st_size <= 2 * len(LINE) for name in names)


def test_one_file_is_begun_anew(path: Path) -> None:
    file = RotatedFile(path, max_bytes=len(LINE), files=1)
    file.append(LINE)
    file.append(b"another\n")
    file.close()
    assert path.read_bytes() == b"another\n"
    assert [*path.parent.iterdir()] == [path]


def test_what_is_there_stays(path: Path, file: RotatedFile) -> None:
    file.append(LINE)
    again = RotatedFile(path, max_bytes=100, files=1)
    again.append(LINE)
    again.close()
    assert path.read_bytes() == 2 * LINE


def test_half_a_line_of_a_writer_that_was_killed_is_ended(path: Path) -> None:
    path.write_bytes(b'{"half')
    file = RotatedFile(path, max_bytes=100, files=1)
    file.append(LINE)
    file.close()
    assert path.read_bytes() == b'{"half\n' + LINE


def test_half_a_line_on_a_full_disk_keeps_nobody_from_starting(path: Path) -> None:
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


def test_a_line_that_no_file_has_room_for_is_refused(path: Path, file: RotatedFile) -> None:
    with pytest.raises(OSError, match="File too large"):
        file.append(b"x" * 100 + b"\n")
    file.append(LINE)
    assert path.read_bytes() == LINE


@pytest.mark.parametrize("take_away", [lambda path: path.unlink(), lambda path: path.rename(f"{path}.old")])
def test_a_file_that_was_taken_away_is_made_again(path: Path, file: RotatedFile, take_away: object) -> None:
    file.append(LINE)
    take_away(path)  # type: ignore[operator] # each of them is called with a path
    file.append(b"again\n")
    assert path.read_bytes() == b"again\n"


def test_a_folder_that_is_gone_is_an_error_until_it_is_back(path: Path, file: RotatedFile) -> None:
    path.unlink()
    path.parent.rename(f"{path.parent}-gone")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.append(LINE)
    path.parent.mkdir()
    file.append(LINE)
    assert path.read_bytes() == LINE


def test_a_full_disk_is_an_error_and_no_more() -> None:
    file = RotatedFile(DEVICE, max_bytes=100, files=2)
    for _ in range(2):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is asked for
            file.append(LINE)
        assert caught.value.errno == errno.ENOSPC


def test_of_a_line_that_did_not_fit_nothing_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_cannot_be_written_to_is_refused_at_once(tmp_path: Path, where: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        RotatedFile(tmp_path / where, max_bytes=100, files=1)
