"""Pages that a reader follows from top to bottom: their files are written, their commands run, their output compared.

In such a page, a fence is one of these:

- ``console``: each line after ``$`` is a command; what follows until the next one is all that it prints. ``…`` stands
  for any text, alone on a line for any lines. Commands share one shell: folders, variables and exit codes last.
- a language and a name (``yaml policies/tag.yaml``): a file, written where the page has come to it.
- a language alone: something to read.

``pratique up`` runs in a terminal of its own until the page ends, and ``pip install`` needs no index.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.bound_processes import bound_process
from support.free_ports import free_port
from support.waiting import within

DOCS = Path(__file__).parents[2] / "docs"
BINARIES = Path(sys.executable).parent

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_UP, _SERVED = "8080", "8443"
"""The ports of the pages: of ``pratique up``, which finds a free one by itself, and of what is served otherwise."""
_READY = re.compile(r"^pratique: ready on http://127\.0\.0\.1:(\d+)$", re.MULTILINE)
_RUNS_ON = re.compile(r"pratique (up|serve) ")
_PATIENCE_SECONDS = 240
_ENTER = """
[ ! -e "$STATE/environment" ] || . "$STATE/environment"
cd "$(cat "$STATE/folder")"
"""
_SCRIPT = """
(exit "$1")
{command}
code=$?
export -p >"$STATE/environment"; pwd >"$STATE/folder"
exit "$code"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ShownCommand:
    """A command of a page, and the output that the page shows."""

    command: str
    output: str


@dataclasses.dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of a page."""

    name: str
    content: str


def steps_of(page: str) -> Iterator[ShownFile | ShownCommand]:
    """Yield what a page tells its reader to do, in its order."""
    for language, name, content in _FENCE.findall((DOCS / page).read_text("utf-8")):
        if name:
            yield ShownFile(name, content)
        elif language == "console":
            assert content.startswith("$ "), f"{page}: a console shows no command: {content}"
            for shown in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                found = re.match(r"((?:.*\\\n)*.*)\n?((?:.*\n)*)", shown)
                assert found is not None
                yield ShownCommand(found[1], found[2])


def follow(page: str, folder: Path, environment: Mapping[str, str] | None = None) -> list[ShownCommand]:
    """Do all that a page says in an empty folder; return what it shows, and what was really written instead.

    Raises:
        AssertionError: a command prints something else, or ends with more than 1: wrong usage, or a failure.
    """
    with contextlib.ExitStack() as terminals:
        reader = _Reader(folder, dict(environment or {}), terminals)
        return [done for step in steps_of(page) if (done := reader.do(step)) is not None]


class _Reader:
    """Whoever follows a page."""

    def __init__(self, folder: Path, environment: dict[str, str], terminals: contextlib.ExitStack) -> None:
        self._folder = folder / "reader"
        self._state = folder / "state"
        self._installed = folder / "installed"
        self._terminals = terminals
        self._ports: dict[str, str] = {}
        self._code = 0
        self._folder.mkdir()
        self._state.mkdir()
        (self._state / "folder").write_text(str(self._folder))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PRATIQUE_", "PYTEST_", "GITHUB_", "KUBE"))
        }
        self._environment = kept | environment
        self._environment |= {
            "PATH": f"{BINARIES}:{self._environment['PATH']}",
            "PYTHONPATH": str(self._installed),
            "STATE": str(self._state),
        }

    def do(self, step: ShownFile | ShownCommand) -> ShownCommand | None:
        if isinstance(step, ShownFile):
            file = self._folder / step.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._here(step.content))
            return None
        if step.command.startswith("pratique serve "):
            self._ports[_SERVED] = str(free_port())
        if _RUNS_ON.match(step.command):
            written = self._start(self._here(step.command), step.output)
        else:
            written = self._run(self._here(step.command))
        assert _matches(written, self._here(step.output)), f"$ {step.command}\n{written}"
        return ShownCommand(step.command, written)

    def _run(self, command: str) -> str:
        if re.match(r"pip install '?pratique", command):
            return ""  # done, for whoever runs this test
        flags = "--no-deps --no-build-isolation --disable-pip-version-check --target"
        installing = f"python -m pip install {flags} {shlex.quote(str(self._installed))}"
        script = _ENTER + _SCRIPT.replace("{command}", re.sub(r"^pip install", installing, command))
        ran = subprocess.run(
            ["bash", "-c", script, "bash", str(self._code)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        self._code = ran.returncode
        assert self._code < 2, f"$ {command}\n{ran.stdout}(ended with {self._code})"
        return ran.stdout

    def _start(self, command: str, shown: str) -> str:
        """Run a command in a terminal of its own; return what it has written once it is as shown."""
        log = self._state / f"{len(list(self._state.iterdir()))}.log"
        port = "" if "--port" in command else " --port 0"
        script = f"{_ENTER}exec {command}{port} 2>{log}.errors"
        command_line = ["/bin/bash", "-c", script]
        process = self._terminals.enter_context(bound_process(command_line, log, self._environment))

        def settled() -> bool:
            if ready := _READY.search(log.read_text()):
                self._ports[_UP] = ready[1]
            return _matches(log.read_text(), self._here(shown)) or process.poll() is not None

        within(_PATIENCE_SECONDS, settled)
        assert process.poll() is None, f"$ {command}\n{Path(f'{log}.errors').read_text()[-2000:]}"
        return log.read_text()

    def _here(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{shown}\b", port, text)
        return text


def _matches(written: str, shown: str) -> bool:
    """Tell whether an output is what a page shows of it."""
    lines = ["(?:.*\n)*" if line == "…\n" else _pattern(line) for line in shown.splitlines(keepends=True)]
    ended = written if written.endswith("\n") or not written else f"{written}\n"
    return re.fullmatch("".join(lines), ended) is not None


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…")))
