"""Local stacks for tests: ``pratique up`` as a process, with its parts found."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.forked_commands import PROGRAM, ForkedCommand

_READY = re.compile(r"pratique: (?:frontdoor )?ready on http://127\.0\.0\.1:(\d+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A running local stack."""

    process: subprocess.Popen[str]
    port: int
    log: Path = Path(os.devnull)
    """What it writes to standard error."""

    def pids(self, service: str) -> list[int]:
        """The processes of one service, in the order in which they started."""
        return sorted(
            pid
            for pid in children(self.process.pid)
            if f" serve {service} " in _read(Path(f"/proc/{pid}/cmdline"))
            or f"serve {service}" == _read(Path(f"/proc/{pid}/comm")).strip()  # a fork has no command line
        )

    def connect(self) -> http.client.HTTPConnection:
        """A keep-alive connection to the front door."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def post(self, path: str, body: Any, connection: http.client.HTTPConnection | None = None) -> Any:
        """Post an AdmissionReview, which has to be decided, and give the answer's JSON."""
        code, answer = self.ask(path, body, connection)
        assert code == 200, (code, answer)
        return answer

    def get(self, path: str) -> tuple[int, str]:
        """Get a page; its code and text."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def ask(
        self, path: str, body: Any, connection: http.client.HTTPConnection | None = None
    ) -> tuple[int, Any]:
        """Post an AdmissionReview; the code and the JSON of the answer."""
        return self.post_bytes(path, json.dumps(body).encode(), connection)

    def post_bytes(
        self, path: str, body: bytes, connection: http.client.HTTPConnection | None = None
    ) -> tuple[int, Any]:
        """Post a text; the code and the JSON of the answer. Without another timeout it has the longest there is."""
        target = path if "timeout=" in path else f"{path}{'&' if '?' in path else '?'}timeout=30s"
        used = connection or self.connect()
        used.request("POST", target, body, {"Content-Type": "application/json"})
        answer = used.getresponse()
        content = answer.read()
        if connection is None:
            used.close()
        return answer.status, json.loads(content)


@contextlib.contextmanager
def running(*flags: str, forked: bool = True) -> Iterator[Stack]:
    """Run ``pratique up`` on a free port until the block ends.

    Forks show no arguments and variables of their own in ``/proc``.
    """
    with _running("up", *flags, forked=forked) as stack:
        yield stack


@contextlib.contextmanager
def running_alone(*flags: str) -> Iterator[Stack]:
    """Run ``pratique serve all`` on a free port until the block ends."""
    with _running("serve", "all", *flags) as stack:
        yield stack


@contextlib.contextmanager
def _running(*arguments: str, forked: bool = True) -> Iterator[Stack]:
    command = [str(PROGRAM), *arguments, "--port", "0"]
    start = ForkedCommand[str] if forked else subprocess.Popen[str]
    with (
        tempfile.NamedTemporaryFile() as log,
        start(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            found = _READY.match(process.stdout.readline())
            assert found is not None
            yield Stack(process, int(found.group(1)), Path(log.name))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)


def children(parent: int) -> list[int]:
    """The child processes of a process."""
    threads = Path(f"/proc/{parent}/task").iterdir()
    return [int(pid) for thread in threads for pid in _read(thread / "children").split()]


def _read(path: Path) -> str:
    """What the kernel says; nothing of a thread or a process that has ended meanwhile."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Kill a process as the kernel does when memory runs out."""
    os.kill(pid, signal.SIGKILL)
