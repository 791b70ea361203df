"""PostgreSQL for tests: a real server of Debian's package, on a free port, in a folder that goes with it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.free_ports import free_port

_NOBODY = "postgres"
"""Who runs the server where tests are run by root, which it refuses: Debian's package brings that user."""
_SETTINGS = (
    # Tests kill those who charge, never the machine: what a commit has written survives them without the disk's word.
    "fsync=off",
    "full_page_writes=off",
    "listen_addresses=127.0.0.1",
    "max_connections=50",
    "shared_buffers=16MB",
)
_PATIENCE_SECONDS = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A running server, which can be stopped and started."""

    programs: Path
    folder: Path
    port: int

    def database(self, encoding: str = "UTF8") -> str:
        """Make an empty database, and give its URL."""
        name = f"test_{uuid.uuid4().hex}"
        made = f"CREATE DATABASE {name} ENCODING {encoding} TEMPLATE template0"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(made.encode())
        return self.url(name)

    def emptied(self, url: str) -> None:
        """Empty a database again, whoever is connected: making another one takes ten times as long."""
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}".encode()
            )
            connection.execute(b"DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def url(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql://{_NOBODY}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = " ".join(f"-c {setting}" for setting in (*_SETTINGS, f"port={self.port}"))
        # a socket in the file system would have a path too long for it
        self._control(
            "start", "-o", f"{settings} -c unix_socket_directories=''", "-l", str(self.folder / "log")
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, even if clients are connected; ``immediate`` is for a server that is not started again."""
        self._control("stop", "-m", mode)

    def _control(self, verb: str, *flags: str) -> None:
        data = str(self.folder / "data")
        patience = f"--timeout={_PATIENCE_SECONDS}"
        _run(self.programs / "pg_ctl", verb, "--wait", "--silent", patience, "-D", data, *flags)


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """Run a server until the block ends. Skips the test where PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="pratique-postgresql-") as folder:
        if os.geteuid() == 0:
            user = pwd.getpwnam(_NOBODY)
            os.chown(folder, user.pw_uid, user.pw_gid)
        flags = ("-U", _NOBODY, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        _run(programs / "initdb", "-D", f"{folder}/data", *flags)
        server = Server(programs, Path(folder), free_port())
        server.start()
        try:
            yield server
        finally:
            # a test may have stopped it
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop("immediate")


def _programs() -> Path | None:
    """Where the server's programs are: Debian keeps them out of PATH, one folder a version."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
    found = shutil.which("pg_ctl")
    candidates = [*reversed(folders), *([Path(found).parent] if found else [])]
    return next((each for each in candidates if (each / "initdb").exists()), None)


def _run(program: Path, *arguments: str) -> None:
    user: Any = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(
        [program, *arguments],
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=2 * _PATIENCE_SECONDS,
        **user,
    )
