"""A command that is forked is the process that would have been started."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pratique_cli.main import SUMMARIES
from support import forked_commands
from support.controller_packages import lay_out
from support.forked_commands import PROGRAM, ForkedCommand
from support.waiting import within

Command: TypeAlias = type[subprocess.Popen[str]]

PATIENCE_SECONDS = 120.0
PROBE = """
import json, os, random, signal, sys, threading, uuid

def stream(name):
    text = getattr(sys, name)
    said = [name, text.name, text.mode, text.encoding, text.errors, text.line_buffering, text.write_through]
    return [*said, text.isatty(), type(text.buffer).__name__, text is getattr(sys, f"__{name}__")]

files = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
alike = {
    "arguments": sys.argv,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": sys.path,
    "program": [sys.modules["__main__"].__file__, getattr(sys.modules["__main__"].__spec__, "name", None)],
    "streams": [stream(name) for name in ("stdin", "stdout", "stderr")],
    "files": [os.readlink(file) for file in files if os.path.lexists(file) and os.path.basename(file) not in "012"],
    "group": os.getpgid(0) == os.getpid() or os.getpgid(0),
    "session": os.getsid(0) == os.getpid() or os.getsid(0),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "handlers": [str(signal.getsignal(number)).split(" at ")[0] for number in signal.valid_signals()],
    "umask": os.umask(0o22),
    "threads": len(threading.enumerate()),
}
drawn = [random.random(), uuid.uuid4().hex, os.getpid()]
with open("probe.json", "w") as file:
    json.dump({"alike": alike, "drawn": drawn}, file)
"""
NAMESPACE = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}\n'


@pytest.fixture
def probed(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a command that tells what process it is."""
    packages = lay_out(tmp_path / "packages", "probe", PROBE, Probe="alike")
    environment = os.environ | {"PYTHONPATH": f"{packages}", "TZ": "Asia/Tokyo", "ODD": "\udcff=ü"}

    def run(way: Command, **given: Any) -> dict[str, Any]:
        command: list[str | Path] = [PROGRAM, "review", "--admission-control", "Probe", "-"]
        with way(command, env=environment, cwd=tmp_path, **given) as process:
            process.communicate("" if given.get("stdin") else None)
        told: dict[str, Any] = json.loads((tmp_path / "probe.json").read_text())
        return told

    return run


@pytest.mark.parametrize(
    "given",
    [
        {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
        {"stdin": subprocess.DEVNULL, "start_new_session": True},
        {"stdin": subprocess.DEVNULL, "process_group": 0},
    ],
    ids=["pipes", "nowhere", "inherited, in a session", "inherited, in a group"],
)
def test_it_is_the_process_that_would_have_been_started(
    probed: Callable[..., dict[str, Any]], given: dict[str, Any]
) -> None:
    assert probed(ForkedCommand, **given)["alike"] == probed(subprocess.Popen, **given)["alike"]


def test_a_module_is_the_process_that_would_have_been_started(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    command = [sys.executable, "-m", "probe", "given"]
    given: dict[str, Any] = {
        "cwd": tmp_path,
        "stdin": subprocess.DEVNULL,
        "env": os.environ | {"TZ": "Asia/Tokyo"},
    }
    alike = []
    for way in (ForkedCommand, subprocess.Popen):
        with way(command, **given) as process:
            assert process.wait() == 0
        alike.append(json.loads((tmp_path / "probe.json").read_text())["alike"])
    assert alike[0] == alike[1]


def test_its_limit_of_open_files_is_the_one_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        given: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
        with ForkedCommand([sys.executable, "-m", "probe"], **given) as process:
            assert process.communicate()[0] == f"{(before[0] - 1, before[1])}\n"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_its_terminal_is_the_one_that_is_given(probed: Callable[..., dict[str, Any]]) -> None:
    ours, theirs = pty.openpty()
    given = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    forked, started = probed(ForkedCommand, **given), probed(subprocess.Popen, **given)
    os.close(theirs)
    os.close(ours)
    assert forked["alike"] == started["alike"]


def test_two_of_them_draw_different_numbers(probed: Callable[..., dict[str, Any]]) -> None:
    first, second = (probed(ForkedCommand, stdin=subprocess.DEVNULL)["drawn"] for _ in range(2))
    assert not set(first) & set(second)


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "raise SystemExit",
        "raise SystemExit(300)",
        "raise SystemExit('said')",
        "raise KeyboardInterrupt",
        "os._exit(7)",
        "os.abort()",
        "os.close(1)",
    ],
)
def test_it_ends_as_it_would_have_ended(tmp_path: Path, end: str) -> None:
    code = "import atexit, os, sys, threading\natexit.register(print, 'left', file=sys.stderr)\n"
    code += f"threading.Timer(0.1, print, ['late'], {{'file': sys.stderr}}).start()\nprint('there')\n{end}\nnow = 0"
    packages = lay_out(tmp_path / "packages", "ends", code, Ends="now")
    given: dict[str, Any] = {
        "env": os.environ | {"PYTHONPATH": str(packages)},
        "cwd": tmp_path,
        "timeout": PATIENCE_SECONDS,
    }
    command: list[str | Path] = [PROGRAM, "review", "--admission-control", "Ends", "-"]
    forked = forked_commands.run(command, **given)
    started = subprocess.run(command, **given, input="", capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_from_outside_ends_it(number: signal.Signals) -> None:
    with reading() as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == process.poll() == -number
        process.kill()  # which is too late


def reading() -> ForkedCommand[str]:
    """A command that has begun to read its standard input."""
    command: list[str | Path] = [PROGRAM, "review", "-o", "jsonl", "-"]
    process = ForkedCommand(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(NAMESPACE)
    process.stdin.flush()
    assert process.stdout.readline()
    return process


def test_services_that_it_starts_are_children_of_its_own() -> None:
    command: list[str | Path] = [PROGRAM, "up", "--port", "0", "--until-stdin-closes"]
    pipe = subprocess.PIPE
    with ForkedCommand(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert len(re.findall(r"is process \d+, ready", said)) == 4
    assert "Unknown child process" not in said


def test_what_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forked_commands.run([PROGRAM, "up", "--port", "0"], timeout=0.01)


def test_nothing_outlives_the_suite_that_it_was_forked_for() -> None:
    code = """
import time
from cli.test_forked_commands import parent_of, reading
process = reading()
print(process.pid, parent_of(process.pid), flush=True)
time.sleep(600)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as suite:
        assert suite.stdout is not None
        command, server = map(int, suite.stdout.readline().split())
        os.kill(command, signal.SIGSTOP)  # so that it does not see that its input ends
        suite.kill()
    assert within(PATIENCE_SECONDS, lambda: not parent_of(command) and not parent_of(server))


def parent_of(process: int) -> int:
    """The parent of a process; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("command", ["", *SUMMARIES])
def test_every_command_starts_without_what_others_import(command: str) -> None:
    words = [*command.split(), "--help"]
    started = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (0, "")
    assert started.stdout == forked_commands.run([PROGRAM, *words]).stdout
