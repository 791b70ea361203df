"""Files that never end: devices, pipes, and links to them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique.apimachinery import manifest_files
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.manifest_files import read_lines, read_whole
from pratique_cli.main import main


class Endless(io.RawIOBase):
    """A file that has as many bytes as anybody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # of any buffer
        self.bytes_read += len(buffer)
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(manifest_files, "MAX_TEXT_BYTES", 1_000_000)
    return 1_000_000


@pytest.mark.parametrize("read", [read_whole, lambda stream, file: next(read_lines(stream, file))])
def test_an_endless_file_is_not_read_to_its_end(
    read: Callable[[io.BufferedReader, str], bytes], limit: int
) -> None:
    endless = Endless()
    with pytest.raises(InputError, match=r"^a: holds more than 1000000 bytes, too many to be read$"):
        read(io.BufferedReader(endless), "a")
    assert endless.bytes_read < limit + 1_000_000


@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536, 65_537, 200_000, 999_988])
def test_a_file_within_the_limit_is_read_as_it_is(length: int, limit: int) -> None:
    text = b"x" * length + b"\n" + b"y" * 10
    assert read_whole(io.BytesIO(text), "a", b"z") == b"z" + text
    assert list(read_lines(io.BytesIO(text), "a")) == [b"x" * length + b"\n", b"y" * 10]
    assert limit


@pytest.mark.parametrize("command", ["review", "check"])
def test_what_is_too_long_is_told(
    command: str, tmp_path: Path, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long.yaml"
    long.write_bytes(b"a: " + b"x" * limit)
    with pytest.raises(SystemExit) as ended:
        main([command, str(long)])
    assert ended.value.code == 2
    assert f"{long}: holds more than 1000000 bytes, too many to be read" in capsys.readouterr().err
