from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pratique_cli.main import main
from support.forked_commands import PROGRAM, ForkedCommand
from support.pods import pod

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

FIELDS = {
    "uid", "allowed", "status", "object", "patch", "warnings", "auditAnnotations", "steps", "expanded",
    "source",
}  # fmt: skip
STEP_FIELDS = {
    "controller", "phase", "name", "configuration", "round", "outcome", "reason", "patch", "durationMs", "endpoint",
}  # fmt: skip


def manifest(kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def named_pod(name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    return pod(name=name, namespace=namespace, **spec)


def asked(operation: str, document: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """Write an AdmissionReview of a pod, or of a namespace."""
    subject = document or more["oldObject"]
    kind = subject["kind"]
    request = {
        "uid": f"uid-{subject['metadata']['name']}",
        "operation": operation,
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": f"{kind.lower()}s"},
        "name": subject["metadata"]["name"],
        "namespace": subject["metadata"].get("namespace", ""),
        "object": document,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def lines(*documents: dict[str, Any]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def inhabited(namespace: str) -> str:
    """A namespace and the ServiceAccount that Pods need there."""
    return lines(manifest("Namespace", namespace), manifest("ServiceAccount", "default", namespace))


def decisions(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_each_document_gives_one_decision_in_input_order(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(yaml.safe_dump_all([named_pod("one"), named_pod("two")]))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.json").write_text(
        json.dumps({"kind": "List", "items": [named_pod("three"), named_pod("four")]})
    )
    ran = pratique(
        "review",
        "-o",
        "jsonl",
        "b.yaml",
        "folder",
        "-",
        stdin=lines(asked("CREATE", named_pod("five", "default"))),
    )
    assert [decision["object"]["metadata"]["name"] for decision in decisions(ran)] == [
        "one",
        "two",
        "three",
        "four",
        "five",
    ]
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_decision_document_has_the_fields_of_the_interface(pratique: Program) -> None:
    (decision,) = decisions(
        pratique("review", "-o", "jsonl", "-", stdin=lines(asked("CREATE", named_pod("web"))))
    )
    assert set(decision) == FIELDS
    assert decision["uid"] == "uid-web"
    assert {name for step in decision["steps"] for name in step} == STEP_FIELDS


def test_all_formats_write_the_same_decisions(pratique: Program) -> None:
    given = lines(asked("CREATE", named_pod("a")), asked("CREATE", named_pod("b")))
    written = {
        name: pratique("review", "-o", name, "-", stdin=given).stdout for name in ("json", "jsonl", "yaml")
    }
    read = {
        "json": json.loads(written["json"]),
        "jsonl": [json.loads(line) for line in written["jsonl"].splitlines()],
        "yaml": list(yaml.safe_load_all(written["yaml"])),
    }
    for written_decisions in read.values():
        for decision in written_decisions:
            for step in decision["steps"]:
                step.pop("durationMs")
    assert len(read["json"]) == 2
    assert read["json"] == read["jsonl"] == read["yaml"]


@pytest.mark.parametrize(("form", "nothing"), [("json", "[]\n"), ("jsonl", ""), ("yaml", "")])
def test_output_is_well_formed_without_any_readable_document(
    pratique: Program, form: str, nothing: str
) -> None:
    ran = pratique("review", "-o", form, "-", stdin="- no object\n")
    assert (ran.returncode, ran.stdout) == (2, nothing)


def test_a_denial_exits_with_1(pratique: Program) -> None:
    ran = pratique(
        "review",
        "-o",
        "jsonl",
        "--enable-admission-plugins",
        "AlwaysDeny",
        "-",
        stdin=lines(named_pod("web")),
    )
    (decision,) = decisions(ran)
    assert (ran.returncode, decision["allowed"], decision["status"]["code"]) == (1, False, 403)


def test_an_unreadable_document_is_reported_and_the_others_reviewed(pratique: Program) -> None:
    given = f"{json.dumps(named_pod('one'))}\n---\nkind: Podd\napiVersion: v1\n---\n{json.dumps(named_pod('two'))}\n"
    ran = pratique("review", "-o", "jsonl", "--enable-admission-plugins", "AlwaysDeny", "-", stdin=given)
    assert [decision["object"]["metadata"]["name"] for decision in decisions(ran)] == ["one", "two"]
    deprecated, unreadable = ran.stderr.splitlines()
    assert deprecated.startswith("pratique: warning: AlwaysDeny admission controller is deprecated.")
    assert unreadable.startswith(
        'pratique: standard input: document 2, line 3, column 1: no matches for kind "Podd"'
    )
    assert ran.returncode == 2


def test_a_missing_file_is_reported_before_any_review(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(lines(named_pod("web")))
    ran = pratique("review", "a.yaml", "b.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")


def test_without_a_cluster_every_namespace_exists(pratique: Program) -> None:
    assert pratique("review", "-", stdin=lines(named_pod("web", "anywhere"))).returncode == 0


def test_what_is_not_in_the_cluster_does_not_exist(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(inhabited("shop"))
    given = lines(named_pod("web", "shop"), named_pod("web", "elsewhere"))
    first, second = decisions(
        pratique("review", "-o", "jsonl", "--cluster", "cluster.yaml", "-", stdin=given)
    )
    assert first["allowed"]
    assert second["status"]["message"] == 'namespaces "elsewhere" not found'


NAMESPACE = manifest("Namespace", "new")


@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        (asked("CREATE", NAMESPACE), True),
        (NAMESPACE, True),
        (asked("CREATE", NAMESPACE, dryRun=True), False),
        (asked("UPDATE", NAMESPACE, oldObject=NAMESPACE), True),
        (asked("UPDATE", NAMESPACE, oldObject=NAMESPACE, subResource="status"), False),
    ],
)
def test_an_admitted_object_is_seen_by_the_reviews_after_it(
    pratique: Program, tmp_path: Path, *, before: dict[str, Any], allowed: bool
) -> None:
    (tmp_path / "cluster.yaml").write_text(lines(manifest("Namespace", "default")))
    ran = pratique(
        "review",
        "-o",
        "jsonl",
        "--cluster",
        "cluster.yaml",
        "-",
        stdin=lines(before, named_pod("web", "new")),
    )
    assert [decision["allowed"] for decision in decisions(ran)] == [True, allowed]


def test_a_denied_object_is_not_seen_by_the_reviews_after_it(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(lines(manifest("Namespace", "default")))
    flags = ("--cluster", "cluster.yaml", "--enable-admission-plugins", "AlwaysDeny")
    ran = pratique("review", "-o", "jsonl", *flags, "-", stdin=lines(NAMESPACE, named_pod("web", "new")))
    assert 'namespaces "new" not found' in decisions(ran)[1]["status"]["message"]


def test_a_deleted_object_is_gone_for_the_reviews_after_it(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(lines(NAMESPACE))
    given = lines(asked("DELETE", None, oldObject=NAMESPACE), named_pod("web", "new"))
    first, second = decisions(
        pratique("review", "-o", "jsonl", "--cluster", "cluster.yaml", "-", stdin=given)
    )
    assert (first["allowed"], first["object"], second["allowed"]) == (True, None, False)


ANY_OBJECT = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def test_a_custom_resource_is_known_after_its_definition(pratique: Program) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": ANY_OBJECT}],
        },
    }
    ship = {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}}
    assert pratique("review", "-", stdin=lines(ship)).returncode == 2
    assert pratique("review", "-", stdin=lines(definition, ship)).returncode == 0


@pytest.mark.parametrize(("phase", "phases"), [("mutate", {"mutate"}), ("validate", {"validate"})])
def test_one_phase_can_be_selected(pratique: Program, phase: str, phases: set[str]) -> None:
    flags = ("--phase", phase, "--enable-admission-plugins", "AlwaysPullImages")
    (decision,) = decisions(pratique("review", "-o", "jsonl", *flags, "-", stdin=lines(named_pod("web"))))
    assert {step["phase"] for step in decision["steps"]} == phases


def test_flags_can_come_from_the_environment(pratique: Program, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(inhabited(name))
    ran = pratique(
        "review",
        "-",
        stdin=lines(named_pod("web", "one"), named_pod("web", "two"), named_pod("web", "three")),
        PRATIQUE_CLUSTER="one.yaml:two.yaml",
        PRATIQUE_ENABLE_ADMISSION_PLUGINS="AlwaysPullImages, AlwaysAdmit",
        PRATIQUE_OUTPUT="json",
        PRATIQUE_PHASE="mutate",
        PRATIQUE_FIRST_DENIAL_ONLY="true",
        PRATIQUE_TIMEOUT="5s",
    )
    decisions = json.loads(ran.stdout)
    assert [item["allowed"] for item in decisions] == [True, True, False]
    assert {"AlwaysPullImages", "AlwaysAdmit"} <= {step["controller"] for step in decisions[0]["steps"]}


def test_a_flag_overrides_the_environment(pratique: Program) -> None:
    ran = pratique("review", "-o", "jsonl", "-", stdin=lines(named_pod("web")), PRATIQUE_OUTPUT="text")
    assert decisions(ran)


def hooks_at(url: str) -> dict[str, Any]:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    webhook = {
        "name": "silent.example.com",
        "clientConfig": {"url": url},
        "rules": [everything],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [webhook],
    }


def test_the_review_timeout_limits_webhook_calls(pratique: Program, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"grpc://127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "hooks.yaml").write_text(lines(hooks_at(url)))
        ran = pratique(
            "review",
            "-o",
            "jsonl",
            "--config",
            "hooks.yaml",
            "--timeout",
            "3s",
            "-",
            stdin=lines(named_pod("web")),
        )
    (decision,) = decisions(ran)
    assert (ran.returncode, decision["status"]["code"]) == (1, 500)
    assert "context deadline exceeded" in decision["status"]["message"]


def test_a_terminal_gets_coloured_text(on_terminal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(lines(named_pod("web")))
    shown = on_terminal("review", "-v", "--enable-admission-plugins", "AlwaysPullImages", "pod.yaml")
    assert "\x1b[32m\x1b[1m✓ admitted\x1b[0m  \x1b[1mPod default/web\x1b[0m" in shown
    assert '\x1b[36m~\x1b[0m spec.containers[0].imagePullPolicy: "IfNotPresent" → "Always"\n' in shown
    assert "\x1b[32m+    imagePullPolicy: Always\x1b[0m" in shown
    assert shown.endswith("1 reviewed, 1 admitted, 0 denied\n")


@pytest.mark.parametrize(
    ("flags", "variables"), [((), {"NO_COLOR": "1"}), (("--no-color",), {}), ((), {"TERM": "dumb"})]
)
def test_colour_can_be_turned_off(
    on_terminal: Callable[..., str], tmp_path: Path, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    (tmp_path / "pod.yaml").write_text(lines(named_pod("web")))
    shown = on_terminal("review", "pod.yaml", *flags, **variables)
    assert shown.startswith("✓ admitted  Pod default/web  (pod.yaml:1)\n")
    assert "\x1b" not in shown


def test_marks_fall_back_to_ascii(pratique: Program) -> None:
    ran = pratique("review", "-o", "text", "-", stdin=lines(named_pod("web")), PYTHONIOENCODING="ascii")
    assert ran.stdout.startswith("v admitted  Pod default/web  (standard input:1)\n")


def test_text_lists_every_step_and_counts(pratique: Program) -> None:
    flags = ("-o", "text", "-v", "--enable-admission-plugins", "AlwaysDeny")
    ran = pratique("review", *flags, "-", stdin=lines(named_pod("web"), manifest("ConfigMap", "conf")))
    assert "✗ denied    Pod default/web  403 Forbidden  (standard input:1)\n" in ran.stdout
    assert 'pods "web" is forbidden: admission control is denying all modifications\n' in ran.stdout
    assert re.search(r"\d+ skipped: LimitRanger, .* \(-vv says why\)\n", ran.stdout)
    assert ran.stdout.endswith("2 reviewed, 0 admitted, 2 denied\n")


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "many.jsonl").write_text(lines(*(named_pod(f"web-{n}") for n in range(400))))
    with ForkedCommand(
        [PROGRAM, "review", tmp_path / "many.jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == -signal.SIGPIPE


def test_each_decision_is_written_at_once() -> None:
    with ForkedCommand(
        [PROGRAM, "review", "-o", "jsonl", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in ("one", "two"):
            process.stdin.write(lines(named_pod(name)))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["object"]["metadata"]["name"] == name
        process.stdin.close()


def test_an_interrupt_ends_by_the_signal_without_output(tmp_path: Path) -> None:
    with ForkedCommand(
        [PROGRAM, "review", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(lines(named_pod("web")))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT
        assert process.stderr.read().strip() == ""


def test_an_internal_error_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("what a secret object holds")

    monkeypatch.setattr("pratique_cli.commands.review.load_cluster", broken)
    monkeypatch.delenv("PRATIQUE_DEBUG", raising=False)
    (tmp_path / "a.yaml").write_text(lines(named_pod("web")))
    with pytest.raises(SystemExit) as ended:
        main(["review", str(tmp_path / "a.yaml")])
    err = capsys.readouterr().err
    assert ended.value.code == 3
    assert err.startswith("pratique: internal error: KeyError in ")
    assert "please report it" in err
    assert "secret" not in err
    assert "Traceback" not in err
