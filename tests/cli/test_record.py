"""``pratique record``: the local stack, with a recording."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pratique_cli.local_stack import Stack as LocalStack
from pratique_cli.main import root
from pratique_cli.options import ByteCount
from support.forked_commands import PROGRAM, ForkedCommand
from support.local_stacks import Stack
from support.recordings import deployment


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("65536", 65536), ("64Ki", 65536), ("64KiB", 65536), ("2MiB", 2 << 20), ("1Gi", 1 << 30)],
)
def test_byte_counts_use_kubernetes_units(text: str, count: int) -> None:
    assert ByteCount()(text) == count


@pytest.mark.parametrize("text", ["", "0", "0Ki", "-1", "1.5Mi", "1MB", "1 Mi", "x"])
def test_invalid_byte_counts_are_rejected(text: str) -> None:
    ran = CliRunner().invoke(root, ["up", "--record-max-bytes", text])
    assert ran.exit_code == 2
    assert "write 65536, 64KiB or 64MiB" in ran.output


FAN_OUT = ("--validator-fanout", "auto")


def recording_arguments(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, command: str = "up", **variables: str
) -> tuple[str, ...]:
    """The recording flags that the front door gets."""
    given = front_door_arguments(monkeypatch, *arguments, command=command, **variables)
    assert given[:2] == FAN_OUT
    return given[2:]


def front_door_arguments(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, command: str = "up", **variables: str
) -> tuple[str, ...]:
    """The flags of the front door that the stack passes on."""
    made: list[tuple[str, ...]] = []

    class NoStack(LocalStack):
        def __init__(self, *_: object, front_door: tuple[str, ...], **__: object) -> None:
            made.append(front_door)
            raise SystemExit(0)

    monkeypatch.setattr("pratique_cli.commands.up.Stack", NoStack)
    ran = CliRunner(env=variables).invoke(root, [command, "--port", "0", *arguments])
    assert ran.exit_code == 0, ran.output
    return made[0]


LIMITS = ("--record-max-bytes", "67108864", "--record-files", "4", "--record-max-review-bytes", "1048576")


def test_the_stack_records_only_to_the_given_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recording_arguments(monkeypatch) == ()
    assert recording_arguments(monkeypatch, "--record", "a.jsonl") == ("--record", "a.jsonl", *LIMITS)
    assert recording_arguments(monkeypatch, PRATIQUE_RECORD="b.jsonl") == ("--record", "b.jsonl", *LIMITS)
    assert recording_arguments(monkeypatch, "c.jsonl", command="record") == ("--record", "c.jsonl", *LIMITS)
    assert recording_arguments(monkeypatch, "c.jsonl", "--record-files", "2", command="record")[5] == "2"


def test_the_stack_passes_the_limits_of_calls_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--validator-fanout", "3", "--validator-hedge-after", "0.05", "--validator-timeout", "500ms")
    assert front_door_arguments(monkeypatch, *given) == (
        "--validator-fanout",
        "3",
        "--validator-hedge-after",
        "50ms",
        "--validator-timeout",
        "0.5",
    )


def test_decisions_of_the_stack_can_be_recorded_and_replayed(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    command = [str(PROGRAM), "record", "reviews.jsonl", "--validators", "1", "--port", "0"]
    with ForkedCommand(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"pratique: ready on http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert ready is not None
            stack = Stack(process, int(ready[1]))
            answers = [stack.post("/admit", deployment(n, uid=f"u{n}"))["response"] for n in range(3)]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)
    assert [answer["uid"] for answer in answers] == ["u0", "u1", "u2"]
    lines = [json.loads(line) for line in (tmp_path / "reviews.jsonl").read_text().splitlines()]
    assert [line["review"]["request"]["uid"] for line in lines] == ["u0", "u1", "u2"]
    ran = pratique("replay", "reviews.jsonl", "-o", "text")
    assert (ran.returncode, ran.stdout) == (0, "3 replayed, 3 as before, 0 different\n")
