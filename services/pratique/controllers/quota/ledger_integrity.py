"""Integrity: detects that a ledger's file was damaged, truncated, replaced or removed, in use or at rest.

SQLite keeps using a file that was removed, serves from its cache what was overwritten on disk, and creates a new
database where there is none. A ledger must do none of this: the usage would be unknown.
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
"""The version of the tables, as SQLite's ``user_version``."""

_SUFFIXES = ("", "-wal", "-shm")
"""The files of a database in use. Committed data is in the first two."""
_CHARGES = "SELECT seq FROM sqlite_sequence WHERE name = 'pratique_quota_charges'"
_IDENTITIES = "SELECT identity FROM pratique_quota_ledger"
_USED = "SELECT used FROM pratique_quota_accounts"
_AMOUNTS = "SELECT amounts FROM pratique_quota_charges"
_BUSY_SECONDS = 5.0
_IDENTITY_FILE_BYTES = 256
"""More than an identity file has."""


class LedgerDamageError(Exception):
    """The ledger is damaged or not the same as before, so its charges are unknown. The text says what is wrong."""


class LedgerReplacedError(LedgerDamageError):
    """Another ledger, or an older copy, is in the place of the ledger that was in use."""

    def __init__(self, text: str = "it is not the same ledger as before") -> None:
        """``text`` says how that shows."""
        super().__init__(text)


class LedgerFiles:
    """The open files of a ledger."""

    def __init__(self, path: Path, identity: str) -> None:
        """Remember the current files of the ledger ``identity``.

        Raises:
            LedgerDamageError: They are damaged or missing.
        """
        self._path = path
        self._identity = identity
        self._paths = [f"{path}{suffix}" for suffix in _SUFFIXES]
        self._known = [_file_identity(stat) for stat in self._stats()]
        self._size = self._written = self._charges = 0
        self.check_intact()

    def check_same(self) -> None:
        """Check that the files are the same, and that the database is intact.

        The first check takes three system calls. The second runs only if the database's main file was written, which
        only checkpoints do, and thus few charges.

        Raises:
            LedgerDamageError: They are not.
        """
        stats = self._stats()
        for path, known, stat in zip(self._paths, self._known, stats, strict=True):
            if _file_identity(stat) != known:
                raise LedgerDamageError(f"{path} was replaced while it was in use")
        size, written = stats[0].st_size, stats[0].st_mtime_ns
        if size < self._size:
            raise LedgerDamageError(f"{self._path} was truncated while it was in use")
        if written != self._written:
            # after damage was found, the thorough check repeats until it passes
            self._check_database(thoroughly=not self._written)
            self._size, self._written = size, written

    def check_intact(self) -> None:
        """Check all of the file, even if it has not changed.

        Raises:
            LedgerDamageError: It is damaged.
        """
        self._written = 0
        self.check_same()

    def _check_database(self, *, thoroughly: bool) -> None:
        identity, charges = inspect_ledger_file(self._path, thoroughly=thoroughly)
        if identity != self._identity:
            raise LedgerDamageError(f"{self._path} is not the same ledger as before")
        if charges < self._charges:
            raise LedgerDamageError(
                f"{self._path} lacks charges that it had before: an older copy has replaced it"
            )
        self._charges = charges

    def _stats(self) -> list[os.stat_result]:
        try:
            return [os.stat(path) for path in self._paths]  # noqa: PTH116 - three times as fast as Path.stat
        except FileNotFoundError as error:
            raise LedgerDamageError(f"{error.filename} was removed while it was in use") from None


def _file_identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def inspect_ledger_file(path: Path, *, thoroughly: bool = True) -> tuple[str, int]:
    """Inspect a ledger's file through a new connection, which has cached nothing.

    Returns:
        The ledger's identity, and the number of charges ever made in it.

    Raises:
        LedgerDamageError: It is damaged, or is not a ledger.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_SECONDS)}")
            [[application]] = connection.execute("PRAGMA application_id")
            [[form]] = connection.execute("PRAGMA user_version")
            if (application, form) != (APPLICATION_ID, SCHEMA_VERSION):
                raise LedgerDamageError(f"{path} is not a ledger of this version")
            [[result]] = connection.execute(f"PRAGMA {'integrity_check' if thoroughly else 'quick_check'}(1)")
            if result != "ok":
                raise LedgerDamageError(f"{path} is damaged: {str(result).splitlines()[-1]}")
            texts = (
                text for query in (_USED, _AMOUNTS)[: 1 + thoroughly] for (text,) in connection.execute(query)
            )
            if not all(map(ledger.has_valid_checksum, texts)):
                raise LedgerDamageError("it contains data that no ledger wrote")
            identities = [identity for (identity,) in connection.execute(_IDENTITIES)]
            charges = [count for (count,) in connection.execute(_CHARGES)]
    except sqlite3.Error as error:
        raise LedgerDamageError(f"{path} is damaged: {error}") from None
    return "".join(map(str, identities)), max(map(int, charges), default=0)


def expected_identity(path: Path) -> str:
    """The identity of the ledger that should be in a file; empty for a new file.

    Raises:
        LedgerDamageError: The file is missing or empty.
    """
    identity_path = identity_file(path)
    try:
        with identity_path.open("rb") as file:
            identity = file.read(_IDENTITY_FILE_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if not path.exists() or not path.stat().st_size:
        raise LedgerDamageError(
            f"{path} is gone, and its charges with it: restore it, or remove {identity_path} to start a new ledger,"
            " which counts usage from the cluster's objects"
        )
    if not identity:
        raise LedgerDamageError(f"{identity_path} is damaged: remove it to continue with {path} as it is")
    return identity


def record_identity(path: Path, identity: str, known: str) -> None:
    """Check that a file holds the expected ledger, and record its identity if it is new.

    Raises:
        LedgerDamageError: It holds another ledger.
        OSError: The identity cannot be written.
    """
    identity_path = identity_file(path)
    if known:
        if known != identity:
            raise LedgerDamageError(
                f"{path} is not the ledger that was there before: restore that one, or remove {identity_path}"
                " to continue with this one"
            )
        return
    # Several processes may do this at once; all write the same.
    descriptor, fresh = tempfile.mkstemp(dir=identity_path.parent, prefix=f"{identity_path.name}.")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{identity}\n")
        file.flush()
        os.fsync(file.fileno())
    Path(fresh).replace(identity_path)
