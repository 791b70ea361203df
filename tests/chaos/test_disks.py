"""A disk is full for as long as it is meant to be; one that cannot be had is always full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from chaos.disks import Disk, small_disk

PAGES = 8192
"""More than is left of the last page of a file."""


def write(path: Path) -> int:
    """The number of the error, or 0."""
    try:
        with path.open("ab", buffering=0) as file:
            file.write(bytes(PAGES))
    except OSError as error:
        return error.errno or -1
    return 0


def is_small(disk: Disk) -> bool:
    return disk.file("log") != Path("/dev/full")


def test_a_full_disk_refuses_writes_and_accepts_them_again_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        if not is_small(disk):
            pytest.skip("nothing can be mounted here")
        assert write(disk.file("log")) == 0
        with disk.full():
            assert write(disk.file("log")) == errno.ENOSPC
        assert write(disk.file("log")) == 0


def test_without_mounts_dev_full_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with small_disk(tmp_path / "disk") as disk, disk.full():
        assert write(disk.file("log")) == errno.ENOSPC
