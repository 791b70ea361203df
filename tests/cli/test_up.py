from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, TypeAlias
from urllib.parse import urlsplit

import pytest

from pratique.configuration.settings import ChainSettings
from pratique_cli.commands import up as up_command
from pratique_cli.local_stack import Stack as LocalStack
from support.controller_packages import lay_out
from support.forked_commands import PROGRAM, ForkedCommand
from support.waiting import within

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

PROCESS = re.compile(r"^\[pratique\] (\S+) is process (\d+),", re.MULTILINE)
IN_USE = (
    "cannot listen there: Address already in use; choose another --port, or --port 0, which picks a free one"
)
PATIENCE = 120.0
"""A timeout in seconds for steps that take two on an idle machine."""

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "shop",
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": []},
        },
    },
}


class Running:
    """A running ``pratique up``, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.lines.extend(iter(self._stream("stderr").readline, ""))

    def _stream(self, name: str) -> TextIO:
        stream: TextIO | None = getattr(self.process, name)
        assert stream is not None
        return stream

    def url(self) -> str:
        line = self._stream("stdout").readline()
        assert line.startswith("pratique: ready on http://127.0.0.1:"), (line, self.said())
        # Standard error, which a thread reads, has told of the processes before, the front door's the last.
        wait_for(lambda: "frontdoor" in self.children(), "the services are not announced")
        return line.split()[-1]

    def rest_of_output(self) -> str:
        return self._stream("stdout").read()

    def said(self) -> str:
        return "".join(self.lines)

    def ended(self) -> int:
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join(timeout=PATIENCE)
        return code

    def children(self) -> dict[str, int]:
        """Return the process of each service, as last announced."""
        return {name: int(pid) for name, pid in PROCESS.findall(self.said())}


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def decide(url: str, path: str = "/admit") -> dict[str, object]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(REVIEW), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK
        response: dict[str, object] = json.loads(answer.read())["response"]
        return response


@contextlib.contextmanager
def up(*arguments: object, **variables: str) -> Iterator[Running]:
    """Run ``pratique up``, which ends with this context, or with this process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PRATIQUE_")}
    process = ForkedCommand(
        [str(PROGRAM), "up", "--until-stdin-closes", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | variables,
    )
    running = Running(process)
    try:
        yield running
    finally:
        process.kill()
        running.ended()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    wait_for(lambda: not any(map(alive, running.children().values())), "services are left behind")


@pytest.fixture(scope="module")
def stack() -> Iterator[tuple[Running, str]]:
    with up("--port", 0, "--validators", 2, "--enable-admission-plugins", "AlwaysPullImages") as running:
        yield running, running.url()


def test_every_service_is_its_own_process(stack: tuple[Running, str]) -> None:
    children = stack[0].children()
    assert set(children) == {"mutator", "validator-1", "validator-2", "frontdoor"}
    assert len({*children.values()}) == 4
    assert all(map(alive, children.values()))


def test_the_stack_answers_reviews(stack: tuple[Running, str]) -> None:
    response = decide(stack[1])
    assert (response["uid"], response["allowed"]) == ("1", True)


@pytest.mark.parametrize("service", ["validator-2", "mutator", "frontdoor"])
def test_a_killed_service_restarts_on_the_same_port(stack: tuple[Running, str], service: str) -> None:
    running, url = stack
    killed = running.children()[service]
    seen = len(running.lines)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: "ready again on port" in "".join(running.lines[seen:]), "it does not come back")
    assert f"{service} was killed by SIGKILL; restarting" in "".join(running.lines[seen:])
    assert alive(running.children()[service])
    assert not alive(killed)
    wait_for(lambda: is_admitted(url), "reviews are not answered")


def is_admitted(url: str) -> bool:
    """Whether a review is decided and allowed; False while a service has not been found again."""
    try:
        return bool(decide(url)["allowed"])
    except (OSError, http.client.HTTPException, AssertionError):
        return False


def test_chain_flags_reach_the_services() -> None:
    with up("--port", 0, "--validators", 1, PRATIQUE_ENABLE_ADMISSION_PLUGINS="AlwaysDeny") as running:
        status = decide(running.url())["status"]
        assert isinstance(status, dict)
        assert "admission control is denying all modifications" in status["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_leaves_no_process(number: signal.Signals) -> None:
    with up("--port", 0) as running:
        running.url()
        children = running.children()
        running.process.send_signal(number)
        assert running.ended() == 0
        assert not any(map(alive, children.values()))
        assert running.rest_of_output() == ""
        assert "Traceback" not in running.said()


def test_a_signal_during_start_leaves_no_process() -> None:
    with up("--port", 0) as running:
        wait_for(running.children, "nothing is started")
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
        assert running.rest_of_output() == ""
        assert not any(map(alive, running.children().values()))


def test_a_second_signal_ends_everything_at_once() -> None:
    with up("--port", 0) as running:
        running.url()
        children = running.children()
        # A mutator that is stopped cannot drain.
        os.kill(children["mutator"], signal.SIGSTOP)
        running.process.send_signal(signal.SIGINT)
        wait_for(lambda: "draining" in running.said(), "nothing drains")
        running.process.send_signal(signal.SIGINT)
        assert running.ended() == -signal.SIGINT
        wait_for(lambda: not any(map(alive, children.values())), "services are left behind")


def test_services_end_when_pratique_up_is_killed() -> None:
    with up("--port", 0) as running:
        running.url()
        children = running.children()
        running.process.kill()
        running.ended()
        wait_for(lambda: not any(map(alive, children.values())), f"left behind: {children}")


def test_the_stack_can_end_with_its_standard_input() -> None:
    with up("--port", 0) as running:
        running.url()
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.ended() == 0
        assert not any(map(alive, running.children().values()))


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with up("--port", port) as running:
            assert running.ended() == 2
            assert f"--host 127.0.0.1, --port {port}: {IN_USE}" in running.said()
            assert not running.children()


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (("serve", "all"), "--host 127.0.0.1, --port"),
        (
            ("serve", "frontdoor", "--mutator", "127.0.0.1:9", "--validator", "127.0.0.1:9"),
            "--host 127.0.0.1, --port",
        ),
        (("console",), "--port"),
    ],
    ids=["all", "frontdoor", "console"],
)
def test_a_port_in_use_is_reported_in_the_same_words(
    command: tuple[str, ...], flags: str, pratique: Program
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = pratique(*command, "--port", port)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (2, f"pratique: {flags} {port}: {IN_USE}")


def test_an_address_of_another_machine_is_reported(pratique: Program) -> None:
    ran = pratique("up", "--host", "192.0.2.1", "--port", 0)
    assert ran.returncode == 2
    assert "choose an address of this machine with --host, and a --port that you may use" in ran.stderr


def test_an_unusable_configuration_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text("kind: Nothing\napiVersion: v1\nmetadata: {name: a}\n")
    with up("--port", 0, "--config", tmp_path) as running:
        assert running.ended() == 2
        assert running.said().count("hooks.yaml") == 1
        assert running.rest_of_output() == ""


def test_configurations_without_effect_are_warnings_and_do_not_prevent_the_start(tmp_path: Path) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pod"]}
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://hooks.example.com"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [webhook],
    }
    (tmp_path / "hooks.json").write_text(json.dumps(document))
    with up("--port", 0, "--config", tmp_path / "hooks.json") as running:
        assert decide(running.url())["allowed"]
        assert within(PATIENCE, lambda: "matches-nothing" in running.said())
        assert r"did you mean \"pods\"?" in running.said()


POLICY = """\
from pratique import deny, rule, validator


@validator("RequireTeam", rule("pods"))
def require_team(review):
    \"\"\"Denies Pods.\"\"\"
    return deny("the first answer")
"""
RELOADING = ("--port", 0, "--validators", 1, "--admission-control", "RequireTeam", "--reload")


def answer(url: str) -> str:
    """The denial; empty while the front door restarts."""
    try:
        status = decide(url)["status"]
    except (OSError, http.client.HTTPException):
        return ""
    assert isinstance(status, dict)
    return str(status["message"])


def says_since(running: Running, line: int, text: str) -> bool:
    return text in "".join(running.lines[line:])


def test_an_edited_policy_is_reloaded_and_a_broken_one_is_not(tmp_path: Path) -> None:
    packages = lay_out(tmp_path / "packages", "team_policy", POLICY, team="require_team")
    policy = packages / "team_policy.py"
    with up(*RELOADING, PYTHONPATH=str(packages)) as running:
        url = running.url()
        first = running.children()
        assert answer(url) == 'pods "web" is forbidden: the first answer'
        wait_for(lambda: f"watches {packages}" in running.said(), "nothing is watched")

        policy.write_text(POLICY.replace("first", "second"), "utf-8")
        wait_for(lambda: f"[pratique] ready again on {url}" in running.said(), "nothing is reloaded")
        assert answer(url) == 'pods "web" is forbidden: the second answer'
        assert f"[pratique] {policy} changed" in running.said()
        second = running.children()
        assert first.keys() == second.keys()
        wait_for(lambda: not any(map(alive, first.values())), "old services are left behind")

        for broken in ("(", "undefined\n"):
            seen = len(running.lines)
            policy.write_text(f"{POLICY}x = {broken}", "utf-8")
            wait_for(functools.partial(says_since, running, seen, "from before keep running"), "no error")
            assert says_since(running, seen, f"[pratique] {policy}:8: package")
            assert answer(url) == 'pods "web" is forbidden: the second answer'
        assert running.children() == second
        assert all(map(alive, second.values()))


def test_a_module_that_was_missing_is_noticed(tmp_path: Path) -> None:
    packages = lay_out(tmp_path / "packages", "team_policy", POLICY, team="require_team")
    with up(*RELOADING, PYTHONPATH=str(packages)) as running:
        url = running.url()
        wait_for(lambda: f"watches {packages}" in running.said(), "nothing is watched")
        text = POLICY.replace('"the first answer"', "TEXT")
        (packages / "team_policy.py").write_text(f"from team_texts import TEXT\n{text}", "utf-8")
        wait_for(lambda: "No module named 'team_texts'" in running.said(), "nothing is reported")
        (packages / "team_texts.py").write_text('TEXT = "the third answer"\n', "utf-8")
        wait_for(lambda: answer(url).endswith("the third answer"), "nothing is reloaded")


def test_without_policies_there_is_nothing_to_reload() -> None:
    with up("--port", 0, "--validators", 1, "--reload") as running:
        url = running.url()
        wait_for(lambda: "nothing to reload: no policies in Python" in running.said(), "it does not say so")
        assert decide(url)["allowed"]


def test_a_start_that_takes_long_tells_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up_command, "_TELL_SECONDS", 0.05)
    told: list[tuple[str, str]] = []

    def tell(name: str, line: str) -> None:
        told.append((name, line))

    async def run() -> int:
        chain = ChainSettings(admission_control=("AlwaysPullImages",))
        stack = LocalStack(chain, validators=1, host="127.0.0.1", port=0, tell=tell)
        try:
            await up_command._start(stack, tell)  # noqa: SLF001 - the command would wait for signals
            count = len(told)
            await asyncio.sleep(0.2)
            return sum(line.startswith("not healthy yet") for _, line in told[count:])
        finally:
            await stack.kill()

    assert asyncio.run(run()) == 0
    assert "pratique: ready on " in capsys.readouterr().out
    waits = [line for name, line in told if name == "pratique" and line.startswith("not healthy yet: ")]
    assert waits[0] == "not healthy yet: services that do not say that they are ready"
