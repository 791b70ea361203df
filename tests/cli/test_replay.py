"""``pratique replay``: what another configuration would have decided."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.main import main
from pratique_frontdoor.chain.decisions import Decision
from support.front_doors.engines import AllowingEngine
from support.mutating_policies import bound, labelled, mutating
from support.mutating_policies import patched as patching
from support.recordings import deployment, pod_creation, record, written
from support.validating_policies import binding, policy
from support.webhook_servers import allowed, patched, serve

Ran: TypeAlias = "subprocess.CompletedProcess[str]"
Pratique: TypeAlias = "Callable[..., Ran]"
Replay: TypeAlias = "Callable[..., Ran]"

RECORDING = "reviews.jsonl"


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Run ``pratique replay`` in an empty folder and in this process, which takes a tenth of the time."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("PRATIQUE_"):
            monkeypatch.delenv(name)

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["replay", *([] if "-o" in arguments else ["-o", "jsonl"]), *map(str, arguments)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([*map(str, arguments)], int(ended.value.code or 0), out, err)

    return run


class LateEngine(AllowingEngine):
    """Decides nothing in time."""

    async def conclude(self, review: Review) -> Decision:
        raise TimeoutError


def at_most(replicas: int, **fields: Any) -> JSONObject:
    """A policy for Deployments."""
    limit = f"!has(object.spec.replicas) || object.spec.replicas <= {replicas}"
    return policy({"expression": limit, "message": f"at most {replicas}"}, name="replicas", **fields)


def bind(*actions: str) -> JSONObject:
    return binding("replicas", name="everywhere", actions=actions or ("Deny",))


def label(value: str) -> tuple[JSONObject, JSONObject]:
    return mutating(labelled("team", f"'{value}'"), name="teams"), bound("teams", name="teams")


def lines(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def found(ran: Ran) -> list[tuple[str, str, JSON, JSON]]:
    """Kind, origin, before and after of all differences."""
    return [
        (
            difference["kind"],
            f"{difference['configuration']}/{difference['name']}",
            difference["before"],
            difference["after"],
        )
        for line in lines(ran)
        for difference in line["differences"]
    ]


def test_the_same_configuration_gives_no_differences(replay: Replay, tmp_path: Path) -> None:
    config = written(tmp_path, "c.yaml", at_most(5), bind(), *label("shop"))
    record(
        [deployment(3), deployment(9), pod_creation(), pod_creation("other")], tmp_path / RECORDING, config
    )
    ran = replay(RECORDING, "--config", "c.yaml")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("limits", "replicas", "expected"),
    [
        ((10, 5), 7, ("denied", "everywhere/replicas", None, "at most 5")),
        ((5, 10), 7, ("admitted", "everywhere/replicas", "at most 5", None)),
        ((5, 10), 20, ("reason", "everywhere/replicas", "at most 5", "at most 10")),
    ],
)
def test_a_changed_verdict_is_attributed_to_its_policy(
    replay: Replay, tmp_path: Path, limits: tuple[int, int], replicas: int, expected: object
) -> None:
    old, new = (written(tmp_path, f"{limit}.yaml", at_most(limit), bind()) for limit in limits)
    record([deployment(replicas)], tmp_path / RECORDING, old)
    ran = replay(RECORDING, "--config", new)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert found(ran) == [expected]
    (line,) = lines(ran)
    assert (line["file"], line["line"], line["subject"]) == (RECORDING, 1, "Deployment shop/web")


def test_a_changed_object_is_reported_field_by_field(replay: Replay, tmp_path: Path) -> None:
    record([deployment()], tmp_path / RECORDING, written(tmp_path, "old.yaml", *label("shop")))
    written(tmp_path, "new.yaml", *label("cart"))
    ran = replay(RECORDING, "--config", "new.yaml")
    team = "metadata.labels.team"
    assert found(ran) == [("object", "teams/teams", {team: "shop"}, {team: "cart"})]


def test_a_new_mutation_is_reported(replay: Replay, tmp_path: Path) -> None:
    record([deployment()], tmp_path / RECORDING)
    written(tmp_path, "new.yaml", *label("cart"))
    ran = replay(RECORDING, "--config", "new.yaml")
    assert found(ran) == [
        ("object", "teams/teams", {"metadata.labels": None}, {"metadata.labels": {"team": "cart"}})
    ]


def test_changed_warnings_and_audit_annotations_are_reported(replay: Replay, tmp_path: Path) -> None:
    record([deployment(9)], tmp_path / RECORDING)
    written(tmp_path, "new.yaml", at_most(5), bind("Warn", "Audit"))
    ran = replay(RECORDING, "--config", "new.yaml")
    kinds = {kind: (rule, before, after) for kind, rule, before, after in found(ran)}
    assert kinds.keys() == {"warnings", "auditAnnotations"}
    rule, before, (warning,) = kinds["warnings"]
    assert (rule, before) == ("everywhere/replicas", [])
    assert "at most 5" in warning
    assert kinds["auditAnnotations"][0] == "everywhere/replicas"


def test_each_review_is_decided_independently_of_the_order(replay: Replay, tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"pods": "2"}},
        "status": {"hard": {"pods": "2"}, "used": {"pods": "1"}},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "shop"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    written(tmp_path, "cluster.yaml", quota, account, namespace)
    reviews = [pod_creation(f"p{number}", uid=f"u{number}") for number in range(4)]
    (tmp_path / RECORDING).write_text("\n".join(map(json.dumps, reviews)))
    written(tmp_path, "none.yaml", *label("x"))
    flags = ("--cluster", "cluster.yaml", "--config", "none.yaml", "--against", "none.yaml", "-o", "json")
    ran = replay(RECORDING, *flags)
    assert (ran.returncode, json.loads(ran.stdout)["totals"]["same"]) == (0, 4)


def test_a_namespace_created_by_one_review_is_gone_for_the_next(replay: Replay, tmp_path: Path) -> None:
    written(
        tmp_path, "cluster.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    )
    fresh = policy("namespaceObject.metadata.?labels.?a.orValue('') == 'b'", name="replicas")
    config = written(tmp_path, "c.yaml", fresh, bind())
    chain = (
        "--cluster",
        "cluster.yaml",
        "--config",
        config,
        "--against",
        config,
        "--enable-admission-plugins",
    )
    (tmp_path / RECORDING).write_text("\n".join(json.dumps(pod_creation(uid=f"u{n}")) for n in range(3)))
    ran = replay(RECORDING, *chain, "NamespaceAutoProvision", "-o", "json")
    assert json.loads(ran.stdout)["totals"]["same"] == 3


def test_two_configurations_are_compared_without_recorded_decisions(replay: Replay, tmp_path: Path) -> None:
    record([deployment(7)], tmp_path / RECORDING)
    written(tmp_path, "old.yaml", at_most(5), bind())
    written(tmp_path, "new.yaml", at_most(10), bind())
    ran = replay(RECORDING, "--config", "new.yaml", "--against", "old.yaml")
    assert found(ran) == [("admitted", "everywhere/replicas", "at most 5", None)]


def test_reviews_without_a_decision_need_a_second_configuration(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / RECORDING).write_text(json.dumps(deployment(7)))
    config = written(tmp_path, "c.yaml", at_most(5), bind())
    ran = replay(RECORDING, "--config", config)
    assert ran.returncode == 2
    assert "document 1, line 1" in ran.stderr
    assert "give a configuration to compare with by --against" in ran.stderr
    again = replay(RECORDING, "--config", config, "--against", config, "--phase", "validate")
    assert (again.returncode, again.stderr) == (0, "")


BAD_LINES = {
    "{": "not JSON",
    "[]": "expected an object",
    "{}": "neither a line of a recording nor an AdmissionReview",
    '{"review": {"kind": "AdmissionReview"}}': "not an AdmissionReview that can be answered",
}


def test_invalid_lines_are_reported_and_the_others_replayed(replay: Replay, tmp_path: Path) -> None:
    old = written(tmp_path, "old.yaml", at_most(10), bind())
    path = record([deployment(7, uid="a"), deployment(8, uid="b")], tmp_path / RECORDING, old)
    first, second = path.read_text().splitlines()
    broken = json.loads(first)
    phase = json.dumps({**broken, "phase": "lunch"})
    decision = json.dumps({**broken, "decision": {"allowed": True, "patch": []}})
    patch = json.dumps(
        {**broken, "decision": {**broken["decision"], "patch": [{"op": "remove", "path": "/no"}]}}
    )
    path.write_text("\n".join([first, *BAD_LINES, phase, decision, patch, second]))
    written(tmp_path, "new.yaml", at_most(5), bind())
    ran = replay(RECORDING, "--config", "new.yaml")
    assert ran.returncode == 2
    assert [line["uid"] for line in lines(ran)] == ["a", "b"]
    reported = ran.stderr.splitlines()
    reasons = [
        *BAD_LINES.values(),
        "phase: expected one of",
        "not a decision document",
        "decision.patch: does not",
    ]
    assert len(reported) == len(reasons)
    for number, (line, reason) in enumerate(zip(reported, reasons, strict=True), start=2):
        assert f"line {number}" in line
        assert reason in line


def test_redacted_values_make_differences_uncertain(replay: Replay, tmp_path: Path) -> None:
    reads = policy(
        {
            "expression": "object.spec.template.spec.containers.all(c, c.env.all(e, e.value.startsWith('prod-')))"
        },
        name="replicas",
    )
    config = written(tmp_path, "c.yaml", reads, bind())
    secret = {"name": "A", "value": "prod-hunter2"}
    record([deployment(1, "web", secret)], tmp_path / RECORDING, config)
    assert "hunter2" not in (tmp_path / RECORDING).read_text()
    ran = replay(RECORDING, "--config", "c.yaml")
    ((difference,),) = [line["differences"] for line in lines(ran)]
    assert (ran.returncode, difference["kind"]) == (1, "denied")
    assert difference["uncertain"] == ["redacted: object.spec.template.spec.containers[0].env[0].value"]


def test_a_message_that_quotes_a_redacted_value_is_unchanged(replay: Replay, tmp_path: Path) -> None:
    quotes = policy(
        {
            "expression": "false",
            "messageExpression": "'not ' + object.spec.template.spec.containers[0].env[0].value + ' please'",
        },
        name="replicas",
    )
    config = written(tmp_path, "c.yaml", quotes, bind())
    record([deployment(1, "web", {"name": "A", "value": "hunter2"})], tmp_path / RECORDING, config)
    ran = replay(RECORDING, "--config", "c.yaml")
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize(("expression", "uncertain"), [("false", []), ("'k' in request.userInfo.extra", [])])
def test_redacted_user_extra_matters_only_if_policies_read_it(
    replay: Replay, tmp_path: Path, expression: str, uncertain: list[str]
) -> None:
    user = {"username": "jane", "extra": {"other": ["canary"]}}
    record([deployment(userInfo=user)], tmp_path / RECORDING)
    written(tmp_path, "new.yaml", policy(expression, name="replicas"), bind())
    ran = replay(RECORDING, "--config", "new.yaml")
    ((difference,),) = [line["differences"] for line in lines(ran)]
    expected = ["redacted: userInfo.extra"] if "extra" in expression else uncertain
    assert difference["uncertain"] == expected


def test_built_in_controllers_read_no_redacted_values(replay: Replay, tmp_path: Path) -> None:
    record([deployment(1, "web", {"name": "A", "value": "hunter2"})], tmp_path / RECORDING)
    ran = replay(RECORDING, "--enable-admission-plugins", "AlwaysDeny")
    rules = {
        (difference["controller"], difference["kind"], *difference["uncertain"])
        for difference in lines(ran)[0]["differences"]
    }
    assert rules == {("AlwaysDeny", "denied")}


def test_reviews_recorded_without_objects_are_counted(replay: Replay, tmp_path: Path) -> None:
    record([deployment()], tmp_path / RECORDING, limit=10)
    ran = replay(RECORDING, "--enable-admission-plugins", "AlwaysDeny", "-o", "text")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "0 replayed, 0 as before, 0 different, 1 recorded without objects\n"


def webhooks(url: str, ca_bundle: bytes) -> JSONObject:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    webhook = {
        "name": "hook.example.com",
        "rules": [rule],
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "MutatingWebhookConfiguration"
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hooks"}}
    return {**head, "webhooks": [webhook]}


def test_a_replay_calls_webhooks(replay: Replay, tmp_path: Path) -> None:
    record([deployment()], tmp_path / RECORDING)
    operation = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
    with serve(patched([operation])) as server:
        written(tmp_path, "new.yaml", webhooks(server.url, server.ca_bundle))
        ran = replay(RECORDING, "--config", "new.yaml")
        assert len(server.received) == 1
    assert [finding[:2] for finding in found(ran)] == [("object", "hooks/hook.example.com")]


def test_a_replay_can_skip_webhooks(replay: Replay, tmp_path: Path) -> None:
    operation = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}
    with serve(patched([operation])) as server:
        config = written(tmp_path, "c.yaml", webhooks(server.url, server.ca_bundle))
        record([deployment(uid="changed")], tmp_path / RECORDING, config)
    with serve(allowed()) as server:
        config = written(tmp_path, "c.yaml", webhooks(server.url, server.ca_bundle))
        record([deployment(uid="let be")], tmp_path / "other.jsonl", config)
        calls = len(server.received)
        flags = ("--config", "c.yaml", "--skip-webhooks", "-o", "text")
        ran = replay(RECORDING, "other.jsonl", *flags)
        assert len(server.received) == calls
    assert ran.stdout == "1 replayed, 1 as before, 0 different, 1 decided by webhooks, which are left out\n"


def test_random_names_make_no_difference(replay: Replay, tmp_path: Path) -> None:
    record([pod_creation()], tmp_path / RECORDING)
    assert "kube-api-access-" in (tmp_path / RECORDING).read_text()
    assert replay(RECORDING).returncode == 0


def test_counted_limits_make_a_difference_uncertain(replay: Replay, tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"pods": "0"}},
        "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "shop"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    record([pod_creation()], tmp_path / RECORDING)
    written(tmp_path, "cluster.yaml", quota, account, namespace)
    ran = replay(RECORDING, "--cluster", "cluster.yaml")
    ((difference,),) = [line["differences"] for line in lines(ran)]
    assert (difference["controller"], difference["kind"]) == ("ResourceQuota", "denied")
    assert difference["uncertain"] == [
        "quotas and rates accumulate from review to review, but a replay decides each review independently"
    ]


@pytest.mark.parametrize("output", ["text", "json", "jsonl", "yaml"])
def test_a_replay_is_reproducible_byte_for_byte(pratique: Pratique, tmp_path: Path, output: str) -> None:
    old = written(tmp_path, "old.yaml", at_most(10), bind(), *label("shop"))
    reviews = [deployment(n, f"web{n}", uid=f"u{n}") for n in range(12)] + [pod_creation()]
    record(reviews, tmp_path / RECORDING, old)
    written(tmp_path, "new.yaml", at_most(5), bind(), *label("cart"))
    first, second = (pratique("replay", RECORDING, "--config", "new.yaml", "-o", output) for _ in range(2))
    assert first.returncode == 1
    assert first.stdout == second.stdout
    assert first.stdout


def test_a_report_keeps_a_few_examples_of_many_differences(replay: Replay, tmp_path: Path) -> None:
    record([deployment(9, f"web{n}", uid=f"u{n}") for n in range(5)], tmp_path / RECORDING)
    written(tmp_path, "new.yaml", at_most(5), bind())
    ran = replay(RECORDING, "--config", "new.yaml", "--examples", "2", "-o", "json")
    report = json.loads(ran.stdout)
    ((sums,),) = [group["differences"] for group in report["groups"]]
    assert (sums["count"], [example["uid"] for example in sums["examples"]]) == (5, ["u0", "u1"])
    assert report["totals"]["different"] == 5


def test_a_review_that_times_out_is_reported(
    replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([deployment()], tmp_path / RECORDING)
    monkeypatch.setattr("pratique_cli.commands.replay.open_local", lambda *_: LateEngine())
    ran = replay(RECORDING, "--timeout", "20ms")
    assert ran.returncode == 3
    assert "document 1, line 1, column 1: no decision within 0.02 s; --timeout allows more" in ran.stderr


def test_redacted_environment_variables_make_pod_presets_uncertain(replay: Replay, tmp_path: Path) -> None:
    def adds(value: str) -> tuple[JSONObject, JSONObject]:
        path, item = "/spec/template/spec/containers/0/env", f'{{"name": "A", "value": "{value}"}}'
        env = f'[JSONPatch{{op: "add", path: "{path}", value: [{item}]}}]'
        return mutating(patching(env), name="teams"), bound("teams", name="teams")

    config = written(tmp_path, "c.yaml", *adds("hunter2"))
    record([deployment()], tmp_path / RECORDING, config)
    ran = replay(RECORDING, "--config", "c.yaml")
    ((difference,),) = [line["differences"] for line in lines(ran)]
    assert (difference["kind"], difference["uncertain"]) == ("object", ["redacted: what is quoted"])
    against = replay(RECORDING, "--config", "c.yaml", "--against", "c.yaml")
    assert against.returncode == 0


def test_progress_is_shown_on_a_terminal(errors_on_terminal: Callable[..., str], tmp_path: Path) -> None:
    record([deployment(n, uid=f"u{n}") for n in range(3)], tmp_path / RECORDING)
    shown = errors_on_terminal("replay", "-o", "jsonl", RECORDING)
    assert "\r1 replayed, 0 different" in shown
    assert (tmp_path / "out").read_text() == ""
