"""Integrity: noticing that a ledger's file was damaged, cut, replaced or removed, in use and while nobody used it.

SQLite goes on with a file that was removed under it, answers from its own memory what was overwritten on the disk, and
begins a new database where there is none. A ledger must do none of this: what is used would not be known.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from pratique.controllers.quota import ledger
from pratique.controllers.quota.ledger import identity_file

APPLICATION_ID = 0x70726174
"""In the header of a ledger's file: "prat"."""
SCHEMA_VERSION = 2
"""The form of its tables, as SQLite's ``user_version``."""

_SUFFIXES = ("", "-wal", "-shm")
"""Of the files of a database that is in use: what is committed is in the first two."""
_CHARGES = "SELECT seq FROM sqlite_sequence WHERE name = 'pratique_quota_charges'"
_IDENTITIES = "SELECT identity FROM pratique_quota_ledger"
_USED = "SELECT used FROM pratique_quota_accounts"
_AMOUNTS = "SELECT amounts FROM pratique_quota_charges"
_BUSY_SECONDS = 5.0
_MARKER_BYTES = 256
"""More than a marker has."""


class LedgerDamageError(Exception):
    """A ledger is not what it was, so that charges cannot be known. The text says what is wrong."""


class LedgerFiles:
    """The files of a ledger that this process has open."""

    def __init__(self, path: Path, identity: str) -> None:
        """Remember the files as they are now, of the ledger ``identity``.

        Raises:
            DamageError: they are damaged, or gone already.
        """
        self._path = path
        self._identity = identity
        self._paths = [f"{path}{suffix}" for suffix in _SUFFIXES]
        self._known = [_file_identity(found) for found in self._stats()]
        self._size = self._written = self._charges = 0
        self.see_that_sound()

    def see_that_same(self) -> None:
        """Look whether they are the same files, and whether what they hold is sound.

        The first takes three calls. The second is done where the database's own file was written, which only
        checkpoints do, and few charges.

        Raises:
            DamageError: they are not.
        """
        stats = self._stats()
        for path, known, found in zip(self._paths, self._known, stats, strict=True):
            if _file_identity(found) != known:
                raise LedgerDamageError(f"{path} was replaced while it was in use")
        size, written = stats[0].st_size, stats[0].st_mtime_ns
        if size < self._size:
            raise LedgerDamageError(f"{self._path} was cut while it was in use")
        if written != self._written:
            # where it was found damaged, all of it is looked through until it is not
            self._see_that_sound(thoroughly=not self._written)
            self._size, self._written = size, written

    def see_that_sound(self) -> None:
        """Look through all of it, whether or not it seems to have changed.

        Raises:
            DamageError: it is damaged.
        """
        self._written = 0
        self.see_that_same()

    def _see_that_sound(self, *, thoroughly: bool) -> None:
        identity, charges = inspect_ledger_file(self._path, thoroughly=thoroughly)
        if identity != self._identity:
            raise LedgerDamageError(f"{self._path} is another ledger than before")
        if charges < self._charges:
            raise LedgerDamageError(
                f"{self._path} lacks charges that were in it before: an older copy has taken its place"
            )
        self._charges = charges

    def _stats(self) -> list[os.stat_result]:
        try:
            return [os.stat(path) for path in self._paths]  # noqa: PTH116 - thrice as fast as by Path
        except FileNotFoundError as error:
            raise LedgerDamageError(f"{error.filename} was removed while it was in use") from None


def _file_identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def inspect_ledger_file(path: Path, *, thoroughly: bool = True) -> tuple[str, int]:
    """Look through a ledger's file with a connection of its own, which remembers nothing of what was there.

    Returns:
        The ledger's identity, and how many charges were ever made in it.

    Raises:
        DamageError: it is damaged, or no ledger.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_SECONDS)}")
            [[application]] = connection.execute("PRAGMA application_id")
            [[form]] = connection.execute("PRAGMA user_version")
            if (application, form) != (APPLICATION_ID, SCHEMA_VERSION):
                raise LedgerDamageError(f"{path} is not a ledger of this version")
            [[found]] = connection.execute(f"PRAGMA {'integrity_check' if thoroughly else 'quick_check'}(1)")
            if found != "ok":
                raise LedgerDamageError(f"{path} is damaged: {str(found).splitlines()[-1]}")
            texts = (
                text for query in (_USED, _AMOUNTS)[: 1 + thoroughly] for (text,) in connection.execute(query)
            )
            if not all(map(ledger.has_valid_checksum, texts)):
                raise LedgerDamageError("it holds what no ledger wrote")
            identities = [identity for (identity,) in connection.execute(_IDENTITIES)]
            charges = [count for (count,) in connection.execute(_CHARGES)]
    except sqlite3.Error as error:
        raise LedgerDamageError(f"{path} is damaged: {error}") from None
    return "".join(map(str, identities)), max(map(int, charges), default=0)


def expected_identity(path: Path) -> str:
    """The identity of the ledger that is expected in a file; empty where none is.

    Raises:
        DamageError: there is no such file any more, or nothing in it.
    """
    marker = identity_file(path)
    try:
        with marker.open("rb") as file:
            identity = file.read(_MARKER_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if not path.exists() or not path.stat().st_size:
        raise LedgerDamageError(
            f"{path} is gone, and with it what was charged: put it back, or remove {marker} to begin a new ledger, in"
            " which usage is counted from the cluster's objects"
        )
    if not identity:
        raise LedgerDamageError(f"{marker} is damaged: remove it to go on with {path} as it is")
    return identity


def record_identity(path: Path, identity: str, known: str) -> None:
    """See that a file holds the ledger that is expected there, and from now on expect it.

    Raises:
        DamageError: it is another one.
        OSError: that cannot be written down.
    """
    marker = identity_file(path)
    if known:
        if known != identity:
            raise LedgerDamageError(
                f"{path} is another ledger than the one that was there: put that back, or remove {marker}"
                " to go on with this one"
            )
        return
    # Several may do so at once, and all write the same.
    descriptor, fresh = tempfile.mkstemp(dir=marker.parent, prefix=f"{marker.name}.")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{identity}\n")
        file.flush()
        os.fsync(file.fileno())
    Path(fresh).replace(marker)
