"""Wrong input of every kind to every command gives one message and exit code 2, never a traceback."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.main import main

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
HOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1"}
  sideEffects: Sometimes
  admissionReviewVersions: [v1]
"""
PLUGINS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins: [{name: Nope, configuration: {}}]
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """The arguments, and the expected message."""

    arguments: str
    says: tuple[str, ...]
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    stdin: str = ""
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


def case(
    arguments: str, *says: str, stdin: str = "", env: dict[str, str] | None = None, **files: str
) -> Case:
    """Write a case; files are named by keyword, ``a_yaml`` for ``a.yaml``."""
    named = {name.replace("_", "."): text for name, text in files.items()}
    return Case(arguments, says, named, stdin, env or {})


USAGE = [
    case("reviw", "No such command 'reviw'", "Did you mean 'review'?"),
    case("--confg x", "No such option '--confg'"),
    case("version extra", "unexpected extra argument (extra)"),
    case("plugins -o xml", "'xml' is not a format", "text, table, json, jsonl, yaml"),
    case("plugins --colour", "No such option '--colour'"),
    case("review nothere.yaml", "Path 'nothere.yaml' does not exist"),
    case("review a.yaml nothere.yaml", "Path 'nothere.yaml' does not exist", a_yaml=POD),
    case("review a.yml", "Path 'a.yml' does not exist; did you mean 'a.yaml'?", a_yaml=POD),
    case("review a.yaml --confg a.yaml", "No such option '--confg'", "'--config'", a_yaml=POD),
    case("review a.yaml --config", "Option '--config' requires an argument", a_yaml=POD),
    case("review a.yaml --phase both", "'both' is not one of", "'admit', 'mutate', 'validate'", a_yaml=POD),
    case("review a.yaml -o xml", "'xml' is not a format", "yaml, junit, sarif, github", a_yaml=POD),
    case("review a.yaml --timeout soon", "'--timeout'", 'invalid duration "soon"', "write 500ms", a_yaml=POD),
    case("review a.yaml --timeout 0s", "'0s' is not a positive duration", a_yaml=POD),
    case("review a.yaml --timeout -1s", "'-1s' is not a positive duration", a_yaml=POD),
    case("review a.yaml --enable-admission-plugins A,,B", "'A,,B' has an empty name", a_yaml=POD),
    case("review a.yaml --config .", 'no kind "Pod" is registered', a_yaml=POD),
    case("review a.yaml --cluster nothere", "'--cluster'", "Path 'nothere' does not exist", a_yaml=POD),
    case("review a.yaml --admission-control-config-file .", "File '.' is a directory", a_yaml=POD),
    case("check", "Missing argument 'PATH...'"),
    case("check nothere", "Path 'nothere' does not exist"),
    case("serve frontdor", "Did you mean 'frontdoor'?"),
    case("serve frontdoor --port 65536", "'65536' is not a whole number from 0 to 65535"),
    case("serve frontdoor --max-in-flight-bytes 65535", "'65535' is not a whole number from 65536 up"),
    case("serve frontdoor --drain-seconds nan", "'nan' is not a number from 0 up"),
    case("serve frontdoor --tls-cert-file nothere", "File 'nothere' does not exist"),
    case("serve mutator --port -1", "'-1' is not a whole number from 0 to 65535"),
    case("serve mutator --mutator x", "No such option '--mutator'"),
    case("serve validator --grace-seconds much", "'much' is not a number from 0 up"),
    case("serve validator --max-message-bytes 0", "'0' is not a whole number from 1 up"),
    case("up --validators 0", "'0' is not a whole number from 1 to 64"),
    case("up --validators two", "'two' is not a whole number"),
    case("up --port http", "'http' is not a whole number from 0 to 65535"),
    case("up now", "unexpected extra argument (now)"),
    case("up", "environment variable PRATIQUE_PORT", "'x' is not a whole number", env={"PRATIQUE_PORT": "x"}),
    case(
        "up",
        "environment variable PRATIQUE_CONFIG",
        "'b' does not exist",
        a="",
        env={"PRATIQUE_CONFIG": "a:b"},
    ),
]

CHAIN = [
    case("--enable-admission-plugins AlwaysDny", '"AlwaysDny" is unknown', 'did you mean "AlwaysDeny"?'),
    case("--disable-admission-plugins X", 'disable-admission-plugins plugin "X" is unknown'),
    case("--admission-control AlwaysAdmit,AlwaysAdmit", "is given twice"),
    case("--admission-control AlwaysAdmit --enable-admission-plugins AlwaysDeny", "mutually exclusive"),
    case("--config h.yaml", "h.yaml: document 1", "sideEffects", '"Sometimes"', h_yaml=HOOK),
    case(
        "--config h.yaml",
        '\npratique: h.yaml: document 1: ValidatingWebhookConfiguration "hooks": unknown field '
        '"webhooks[0].sideEfects"; did you mean "sideEffects"? (line 7)\n',
        h_yaml=HOOK.replace("sideEffects:", "sideEfects:").replace("name: a", "nam: a"),
    ),
    case("--config h.yaml", "h.yaml: document 1", 'no kind "Pod" is registered', h_yaml=POD),
    case("--config h.yaml", "h.yaml: document 1, line 1", h_yaml="[: ]"),
    case("--config h.yaml", "h.yaml", "holds no documents", h_yaml="# nothing"),
    case(
        "--cluster c.yaml",
        "c.yaml: document 1",
        'no matches for kind "Podd"',
        c_yaml=POD.replace("Pod", "Podd"),
    ),
    case(
        "--cluster c.yaml",
        "c.yaml: document 1",
        "metadata: Required value",
        c_yaml="apiVersion: v1\nkind: Pod\n",
    ),
    case("--cluster c.yaml", "is there twice, first in document 1", c_yaml=f"{POD}---\n{POD}"),
    case("--admission-control-config-file p.yaml", 'plugin "Nope" is unknown', p_yaml=PLUGINS),
    case(
        "--admission-control-config-file p.yaml", "p.yaml: document 1", "AdmissionConfiguration", p_yaml=POD
    ),
    case("--admission-control-config-file p.yaml", "p.yaml: document 1, line 2", p_yaml="a: [\n"),
]


GOOD = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: good}
"""


@dataclasses.dataclass(frozen=True)
class Reported:
    """The exit code and the output of a command."""

    code: int | str | None
    out: str
    err: str


@pytest.fixture
def in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Case, str], Reported]:
    """Run the program's entry point in this process: a hundred processes would take a minute."""
    for name in [name for name in os.environ if name.startswith("PRATIQUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(wrong: Case, arguments: str) -> Reported:
        write_files(wrong, tmp_path)
        for name, value in wrong.variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main(arguments.split())
        out, err = capfd.readouterr()
        return Reported(ended.value.code, out, err)

    return run


def write_files(wrong: Case, folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD)
    for name, text in wrong.files.items():
        (folder / name).write_text(text)


def assert_reported(reported: Reported, wrong: Case) -> None:
    assert reported.code == 2, reported.err
    assert "Traceback" not in reported.err
    assert "internal error" not in reported.err
    for text in wrong.says:
        assert text in reported.err
    assert reported.out == ""


@pytest.mark.parametrize("wrong", USAGE, ids=lambda wrong: wrong.arguments)
def test_wrong_usage_prints_one_message_and_points_to_the_help(
    in_process: Callable[[Case, str], Reported], wrong: Case
) -> None:
    reported = in_process(wrong, wrong.arguments)
    assert_reported(reported, wrong)
    first, *rest = reported.err.splitlines()
    assert first.startswith("pratique: ")
    assert [line.startswith("Try 'pratique ") for line in rest] in ([], [True])


@pytest.mark.parametrize("command", ["review good.yaml", "check good.yaml"])
@pytest.mark.parametrize("wrong", CHAIN, ids=lambda wrong: f"{wrong.arguments}:{wrong.says[-1]}")
def test_an_unusable_chain_is_reported(
    in_process: Callable[[Case, str], Reported], command: str, wrong: Case
) -> None:
    assert_reported(in_process(wrong, f"{command} {wrong.arguments}"), wrong)


@pytest.mark.parametrize(
    "command",
    ["up --port 0", "serve mutator --port 0", "serve validator --port 0", "serve frontdoor --port 0"],
)
@pytest.mark.parametrize("wrong", CHAIN[::4], ids=lambda wrong: f"{wrong.arguments}:{wrong.says[-1]}")
def test_no_service_starts_with_an_unusable_chain(
    pratique: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, command: str, wrong: Case
) -> None:
    write_files(wrong, tmp_path)
    ran = pratique(*command.split(), *wrong.arguments.split())
    assert_reported(Reported(ran.returncode, ran.stdout, ran.stderr), wrong)


def test_a_group_without_a_command_prints_its_help(
    pratique: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ran = pratique("serve")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "frontdoor" in ran.stderr
