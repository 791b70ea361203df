from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique_cli.reviews import read_ahead
from pratique_cli.reviews.inputs import Input, read_inputs, read_parts
from pratique_cli.reviews.read_ahead import ReadAhead
from support.forked_commands import PROGRAM, ForkedCommand

Pratique = Callable[..., subprocess.CompletedProcess[str]]


def no_problem(problem: str) -> None:
    pytest.fail(problem)


@pytest.fixture(scope="module", autouse=True)
def small_sizes() -> Iterator[None]:
    """Start processes for a few bytes, and send a few bytes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {
            "WINDOW_BYTES": 400,
            "START_BYTES": 40,
            "_LATE_BYTES": 20,
            "_BATCH_BYTES": 60,
        }.items():
            patch.setattr(read_ahead, name, size)
        yield


def described(found: Input) -> str:
    if isinstance(found, InputError):
        return f"{found} {found.file} {found.place}"
    places = [found.position(path) for path in ((), ("metadata", "name"), ("items", 1))]
    written = msgspec.json.encode(found.data).decode()
    return f"{found.file} {found.index} {found.line} {found.path} {written} {places} {found.duplicates}"


def read_by(jobs: int, *paths: Path | str, stdin: bytes = b"") -> list[str]:
    with ReadAhead(paths, jobs, no_problem, io.BytesIO(stdin)) as parts:
        return [described(found) for found in read_parts(parts)]


def manifest(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata: {{a: '1'}}\n"


YAML_DOCUMENTS = st.sampled_from(
    [
        *(manifest(name) for name in ("a", "'0x1'", "[", '"\\ud800"', "&x y", "*x", "é")),
        *("", "# none\n", "- a list\n", "a: 1\na: 2\n", "x: .inf\n", "x: 1e3\ny: 0755\nz: yes\n", "\tx: 1\n"),
        *(
            "{kind: List, items: [{a: 1}, {b: 2}]}\n",
            '{"a": 1}\n',
            '{"a": }\n',
            "\ufeffa: 1\n",
            "%YAML 1.1\n",
        ),
        *("kind: List\nitems:\n- a: 1\n- b: 2\n", "kind: List\nitems: 3\n", "a: " + "[" * 600, "x: \x00\n"),
    ]
)
YAML_FILES = st.lists(YAML_DOCUMENTS, max_size=8).map("---\n".join)
LINES = st.lists(
    st.sampled_from(['{"a":1}', "", "oops", "[1]", '{"a":1} {"b":2}', "---", "a: 1"]), max_size=5
)
FILES = st.tuples(st.sampled_from(["yaml", "json", "yml"]), YAML_FILES | LINES.map("\n".join)).map(
    lambda made: (made[0], made[1].encode())
) | st.tuples(st.just("yaml"), st.binary(max_size=20))


@settings(max_examples=12, deadline=None)
@given(st.lists(FILES, max_size=8), st.integers(2, 4), YAML_FILES)
def test_what_is_read_ahead_is_what_would_be_read(
    files: list[tuple[str, bytes]], jobs: int, piped: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (suffix, text) in enumerate(files):
            (folder / f"{number}.{suffix}").write_bytes(text)
        inputs = (folder, "-", folder / "0.yaml", folder)
        assert read_by(jobs, *inputs, stdin=piped.encode()) == read_by(1, *inputs, stdin=piped.encode())


def test_one_process_reads_as_the_function_without_processes_does(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join(manifest(f"a{number}") for number in range(20)))
    expected = [described(found) for found in read_inputs(tmp_path)]
    assert read_by(1, tmp_path) == read_by(2, tmp_path) == expected


def test_processes_are_started_only_for_enough_yaml_and_end_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("a: 1\n")
    (tmp_path / "values.json").write_text('{"a": "%s"}' % ("a" * 100))
    with ReadAhead([tmp_path / "short.yaml", tmp_path / "values.json"], 4, no_problem) as parts:
        assert len(list(read_parts(parts))) == 2
        assert parts.process_ids == []
    (tmp_path / "long.yaml").write_text(manifest("a"))
    with ReadAhead([tmp_path / "values.json", tmp_path / "long.yaml"], 4, no_problem) as parts:
        (running,) = parts.process_ids
        os.kill(running, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(running, 0)


@pytest.mark.parametrize("when", ["at once", "midway"])
def test_a_process_that_is_killed_is_done_without(tmp_path: Path, when: str) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join(manifest(f"a{number}") for number in range(100)))
    expected = read_by(1, tmp_path)
    problems: list[str] = []
    with ReadAhead([tmp_path], 2, problems.append) as parts:
        found = []
        for number, read_input in enumerate(read_parts(parts)):
            found.append(described(read_input))
            if number == (0 if when == "at once" else 50):
                os.kill(parts.process_ids[0], signal.SIGKILL)
    assert found == expected
    assert problems == ["a process that reads ahead failed; this one reads the rest itself"]


def test_a_process_that_says_nonsense_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = (
        "import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(bytes(8) + b'\\x0d')\ninput()"
    )
    (tmp_path / "liar.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(read_ahead, "PROCESS_MODULE", "liar")
    (tmp_path / "a.yaml").write_text(manifest("a") * 1)
    problems: list[str] = []
    with ReadAhead([tmp_path / "a.yaml"], 2, problems.append) as parts:
        assert [described(found) for found in read_parts(parts)] == read_by(1, tmp_path / "a.yaml")
    assert len(problems) == 1


class Lines(io.RawIOBase):
    """A stream that has one line at a time, and fails if more is asked than was there."""

    def __init__(self) -> None:
        self.allowed = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # bytes are all it is given
        assert self.allowed > 0
        self.allowed -= 1
        line = b'{"a":1}\n'
        buffer[: len(line)] = line
        return len(line)


def test_a_stream_is_waited_for_only_when_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join(manifest(f"a{number}") for number in range(20)))
    stream = Lines()
    with ReadAhead([tmp_path, "-"], 2, no_problem, io.BufferedReader(stream)) as parts:
        inputs = read_parts(parts)
        for _ in range(20):
            next(inputs)
        for _ in range(5):
            stream.allowed += 1
            assert "standard input" not in described(next(inputs))


def named(names: Iterator[str]) -> str:
    return "---\n".join(map(manifest, names))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is large enough for other processes, with what is broken in between."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(30):
        manifests = named(f"a{number}-{item}" for item in range(10))
        (folder / f"{number:02}.yaml").write_text(manifests.replace("'1'", "1" * 2_000))
    (folder / "05.yaml").write_text("a: [\n---\n- 1\n---\n" + manifest("b") + "---\n" + manifest("a1-1"))
    (folder / "06.json").write_text('{"kind": "Pod"}')
    (folder / "07.yaml").write_bytes(b"\xff\xfe")
    return folder


MEASURED = re.compile(r'"durationMs":[0-9.]+')


@pytest.mark.parametrize("output", ["text", "jsonl"])
def test_the_command_writes_the_same_with_any_number_of_processes(
    pratique: Pratique, many: Path, output: str
) -> None:
    runs = [
        pratique("review", "-o", output, "--jobs", str(jobs), many, "-", stdin=named(iter("ab")))
        for jobs in (1, 2, 3)
    ]
    written = {(run.returncode, MEASURED.sub("", run.stdout), run.stderr) for run in runs}
    ((code, _, problems),) = written
    assert code == 2
    assert len(problems.splitlines()) == 5  # and the note about --exclude


def test_jobs_can_be_set_by_the_environment(pratique: Pratique) -> None:
    ran = pratique("review", "-", PRATIQUE_JOBS="0")
    assert ran.returncode == 2
    assert "PRATIQUE_JOBS: '0' is not a whole number from 1 to 64" in ran.stderr


def state_and_parent(process: int) -> tuple[str, int]:
    with contextlib.suppress(OSError):
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
        return state, int(parent)
    return "gone", 0


def children_of(process: int) -> list[int]:
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [child for child in running if state_and_parent(child)[1] == process]


def is_running(process: int) -> bool:
    return state_and_parent(process)[0] not in {"Z", "gone"}


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_a_run_is_ended(many: Path, tmp_path: Path, ended_by: signal.Signals) -> None:
    command = [str(PROGRAM), "review", "--jobs", "2", str(many), "-"]
    with (
        (tmp_path / "complaints").open("wb") as complaints,
        ForkedCommand(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=complaints
        ) as process,
    ):
        wait_until(lambda: bool(children_of(process.pid)))
        (child,) = children_of(process.pid)
        process.send_signal(ended_by)
        assert process.wait(timeout=120) == -ended_by
    wait_until(lambda: not is_running(child))
    said = (tmp_path / "complaints").read_text()
    assert "Traceback" not in said or "Exception ignored in" in said
