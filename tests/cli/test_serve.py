from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pratique.rpc.probes import probe
from pratique_cli.commands.services import frontdoor
from pratique_cli.service_options import SERVER_HELPS
from pratique_frontdoor.settings import FrontDoorSettings
from pratique_mutator.service import MutatorSettings
from pratique_validator.service import ValidatorSettings
from support.forked_commands import PROGRAM, ForkedCommand


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service, and yield the process and its ready line."""
    with ForkedCommand(
        [PROGRAM, "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("settings", "helps"),
    [
        (FrontDoorSettings, frontdoor.HELPS),
        (MutatorSettings, SERVER_HELPS),
        (ValidatorSettings, SERVER_HELPS),
    ],
)
def test_every_setting_has_a_flag(settings: type[Any], helps: Mapping[str, str]) -> None:
    assert {field.name for field in dataclasses.fields(settings)} == {*helps, "chain"}


@pytest.mark.parametrize("service", ["mutator", "validator"])
def test_a_grpc_service_announces_that_it_is_ready(service: str) -> None:
    with serving(service, "--port", "0") as (process, line):
        found = re.fullmatch(rf"pratique: {service} ready on (127\.0\.0\.1:\d+)\n", line)
        assert found
        assert probe(found[1]) is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0


def test_the_front_door_announces_that_it_is_ready_and_drains() -> None:
    with serving("frontdoor", "--port", "0", "--drain-seconds", "0") as (process, line):
        assert re.fullmatch(r"pratique: frontdoor ready on http://127\.0\.0\.1:\d+\n", line)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0


def test_a_front_door_refuses_what_is_no_address(
    pratique: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ran = pratique("serve", "frontdoor", "--port", 0, "--validator", "http://validator:9002")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(
        "pratique: http://validator:9002: not the address of a service: give HOST:PORT"
    )


def test_a_service_can_end_with_its_standard_input() -> None:
    with serving("mutator", "--port", "0", "--until-stdin-closes") as (process, line):
        assert line
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 0
