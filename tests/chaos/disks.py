"""Disks: a small disk for logs and recordings, which can be filled."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SIZE = 16 * 1024 * 1024
_FULL = Path("/dev/full")


class Disk:
    """Where logs and recordings go."""

    def __init__(self, folder: Path | None) -> None:
        """In a folder, or, without a mounted disk, on one that is always full; use :func:`small_disk`."""
        self._folder = folder

    def file(self, name: str) -> Path:
        """A file there."""
        return _FULL if self._folder is None else self._folder / name

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room for another page, for as long as this lasts."""
        if self._folder is None:
            yield
            return
        ballast = self._folder / "ballast"
        try:
            _fill(ballast)
            yield
        finally:
            ballast.unlink(missing_ok=True)


def _fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while os.write(descriptor, bytes(size)):
                    pass
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A disk mounted on a folder, for as long as this lasts; where nothing can be mounted, one that is always full."""
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "chaos", str(folder)]
    try:
        mounted = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        yield Disk(folder if mounted else None)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
