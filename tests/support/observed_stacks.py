"""Local stacks that are looked at from outside: what they log, count and answer."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from support.forked_commands import ForkedCommand
from support.waiting import within

PATIENCE_SECONDS = 120
_READY = re.compile(r"pratique: (?:frontdoor )?ready on http://127\.0\.0\.1:(\d+)")
_SERVED = re.compile(r'^\[(\S+)\] .*"metrics are served", "address": "([^"]+)"')


@dataclasses.dataclass(slots=True)
class ObservedStack:
    """A running local stack, with everything that it says."""

    process: subprocess.Popen[str]
    port: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)
    """What stands on its standard error."""

    @property
    def log(self) -> str:
        """All of that."""
        return "\n".join(self.lines)

    def entries(self) -> list[dict[str, Any]]:
        """The lines that are JSON."""
        texts = [line.partition("] ")[2] if line.startswith("[") else line for line in self.lines]
        return [json.loads(text) for text in texts if text.startswith("{")]

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Post a review; the answer's code, and its head and body as text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(connection):
            connection.request("POST", path, raw, {"Content-Type": "application/json"} | dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, f"{answer.headers}\n{answer.read().decode()}"

    def metrics_addresses(self) -> dict[str, str]:
        """Where each service shows metrics."""
        found = {match[1]: match[2] for line in self.lines if (match := _SERVED.match(line))}
        return {"frontdoor": f"127.0.0.1:{self.port}", **found}

    def metrics(self) -> dict[str, str]:
        """What each service shows, by its name."""
        return {name: _get(f"http://{address}/metrics") for name, address in self.metrics_addresses().items()}

    def stop(self) -> int:
        """Let it drain, and read the rest of what it says; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE_SECONDS)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


@contextlib.contextmanager
def observed_stack(*flags: str, **environment: str) -> Iterator[ObservedStack]:
    """Run ``pratique up`` on a free port until the block ends; it has one validator."""
    with _observed(("up", "--validators", "1", *flags), environment) as stack:
        assert within(PATIENCE_SECONDS, lambda: len(stack.metrics_addresses()) == 3)
        yield stack


@contextlib.contextmanager
def observed_process(*flags: str, **environment: str) -> Iterator[ObservedStack]:
    """Run ``pratique serve all`` on a free port until the block ends; all its metrics are those of the front door."""
    with _observed(("serve", "all", *flags), environment) as stack:
        yield stack


@contextlib.contextmanager
def _observed(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[ObservedStack]:
    command = [sys.executable, "-m", "pratique_cli", *arguments, "--port", "0"]
    pipe = subprocess.PIPE
    with ForkedCommand(
        command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment}
    ) as process:
        stack = ObservedStack(process)
        assert process.stderr is not None
        assert process.stdout is not None
        reading = threading.Thread(
            target=lambda: stack.lines.extend(line.rstrip("\n") for line in process.stderr or ())
        )
        reading.start()
        try:
            found = _READY.match(process.stdout.readline())
            assert found is not None, stack.log
            stack.port = int(found[1])
            yield stack
        finally:
            if process.poll() is None:
                stack.stop()
            reading.join(PATIENCE_SECONDS)
