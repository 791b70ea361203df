"""``pratique budget``: how long each kind of request may take, and how long it took."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from support.recordings import pod_creation, record, written
from support.validating_policies import policy

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
ALL = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


def webhook(name: str, rule: dict[str, Any], seconds: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": "https://127.0.0.1/"},
        "rules": [rule],
        "timeoutSeconds": seconds,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def configuration(kind: str, name: str, *webhooks: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


@pytest.fixture(name="webhooks")
def _webhooks(tmp_path: Path) -> Path:
    mutating = configuration(
        "Mutating",
        "m",
        webhook("first", PODS, 3, reinvocationPolicy="IfNeeded"),
        webhook("second", ALL, 2),
    )
    validating = configuration("Validating", "v", webhook("short", PODS, 1), webhook("long", PODS, 4))
    return written(tmp_path, "webhooks.yaml", mutating, validating)


def budget(pratique: Program, *arguments: object) -> tuple[int, dict[str, dict[str, Any]]]:
    done = pratique("budget", *arguments, "-o", "json")
    assert not done.stderr
    return done.returncode, {
        f"{row['operation']} {row['resource']}{row['subresource'] and '/'}{row['subresource']}": row
        for row in json.loads(done.stdout)
    }


def test_mutating_timeouts_add_up_and_the_longest_validating_one_counts(
    pratique: Program, webhooks: Path
) -> None:
    code, rows = budget(pratique, webhooks)
    pods = rows["CREATE pods"]
    phases = [pods[f"{phase}Seconds"] for phase in ("mutate", "reinvocation", "validate", "worst")]
    assert phases == [5, 3, 4, 12]
    assert pods["mutatingWebhooks"] == ["m/first.example.com", "m/second.example.com"]
    assert (code, pods["fits"]) == (1, False)


def test_an_asterisk_is_what_no_other_rule_names(pratique: Program, webhooks: Path) -> None:
    _, rows = budget(pratique, webhooks)
    assert {name: row["worstSeconds"] for name, row in rows.items() if name != "CREATE pods"} == {
        "CREATE *": 2,
        "UPDATE *": 2,
        "DELETE *": 2,
    }


@pytest.mark.parametrize(("within", "code"), [("11999ms", 1), ("12s", 0)])
def test_the_worst_may_be_as_long_as_the_api_server_waits(
    pratique: Program, webhooks: Path, within: str, code: int
) -> None:
    assert budget(pratique, webhooks, "--within", within)[0] == code


def test_the_limits_of_the_services_are_part_of_it(pratique: Program, webhooks: Path) -> None:
    limits = ("--mutator-timeout", "1s", "--validator-timeout", "5s")
    pods = budget(pratique, webhooks, "--within", "30s", *limits)[1]["CREATE pods"]
    phases = [pods[f"{phase}Seconds"] for phase in ("mutate", "reinvocation", "validate", "worst")]
    assert phases == [6, 4, 10, 20]


@pytest.mark.parametrize(
    ("resources", "kinds"),
    [
        (["pods/*"], {"CREATE pods", "CREATE pods/*"}),
        (["*/*"], {"CREATE *", "CREATE */*"}),
        (["pods/status"], {"CREATE pods/status"}),
    ],
)
def test_subresources_are_kinds_of_their_own(
    pratique: Program, tmp_path: Path, resources: list[str], kinds: set[str]
) -> None:
    hook = webhook("w", PODS | {"resources": resources}, 1)
    file = written(tmp_path, "w.yaml", configuration("Validating", "v", hook))
    assert set(budget(pratique, file)[1]) == kinds


def test_recorded_times_stand_beside_the_timeouts(pratique: Program, webhooks: Path, tmp_path: Path) -> None:
    recording = record([pod_creation(), pod_creation("other")], tmp_path / "reviews.jsonl")
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    for line, seconds in zip(lines, (1, 3), strict=True):
        line["decision"]["steps"] = [
            {"controller": "MutatingAdmissionWebhook", "phase": "mutate", "durationMs": 100 * seconds},
            {"controller": "MutatingAdmissionWebhook", "phase": "mutate", "durationMs": 10},
            {"controller": "ValidatingAdmissionWebhook", "phase": "validate", "durationMs": 40},
            {"controller": "ValidatingAdmissionWebhook", "phase": "validate", "durationMs": 50},
            {"controller": "ResourceQuota", "phase": "validate", "durationMs": 5},
        ]
    recording.write_text("\n".join(map(json.dumps, lines)))
    pods = budget(pratique, webhooks, "--record", recording)[1]["CREATE pods"]
    assert pods["recorded"] == {"reviews": 2, "medianMs": 265.0, "p99Ms": 363.0}


def test_a_recording_is_read_as_it_was_written(pratique: Program, webhooks: Path, tmp_path: Path) -> None:
    recording = record([pod_creation()], tmp_path / "reviews.jsonl")
    pods = budget(pratique, webhooks, "--record", recording)[1]["CREATE pods"]
    assert pods["recorded"]["reviews"] == 1


def test_text_shows_why_something_does_not_fit_and_a_table_all_figures(
    pratique: Program, webhooks: Path
) -> None:
    text, table = pratique("budget", webhooks), pratique("budget", webhooks, "-o", "table")
    assert text.stdout == (
        "✗ CREATE pods: up to 12s of 10s (mutate 5s, again 3s, validate 4s)\n"
        "    m/first.example.com, m/second.example.com, v/short.example.com, v/long.example.com\n"
        "✓ CREATE *.*: up to 2s of 10s\n"
        "✓ DELETE *.*: up to 2s of 10s\n"
        "✓ UPDATE *.*: up to 2s of 10s\n"
        "4 kinds of requests: 1 may take longer than 10s\n"
    )
    head, *rows, summary = table.stdout.splitlines()
    assert head.split() == ["REQUEST", "WORST", "MUTATE", "AGAIN", "VALIDATE", "MEDIAN", "P99", "REVIEWS"]
    assert rows[0].split() == ["CREATE", "pods", "12s", "5s", "3s", "4s", "-", "-", "0"]
    assert (len(rows), summary) == (4, "4 kinds of requests: 1 may take longer than 10s")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'PATH...'"),
        (["w.yaml", "--within", "31s"], "an API server waits at most 30s for a webhook; write 30s or less"),
        (["w.yaml", "--record", "w.yaml"], "not a line of a recording with its decision"),
    ],
)
def test_wrong_usage_is_one_clear_error(
    pratique: Program, tmp_path: Path, arguments: list[str], words: str
) -> None:
    written(tmp_path, "w.yaml", configuration("Validating", "v", webhook("w", PODS, 1)))
    done = pratique("budget", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_other_files_beside_the_webhooks_are_told(pratique: Program, webhooks: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "webhooks.yaml").write_text(webhooks.read_text())
    (tmp_path / "mixed" / "list.json").write_text("[]")
    ran = pratique("budget", "mixed")
    assert ran.stderr == "pratique: note: left out what is no configuration: 1 list\n"
    assert ran.stdout == pratique("budget", "mixed/webhooks.yaml").stdout


def test_policies_alone_add_up_to_nothing(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(json.dumps(policy("object.spec.replicas > 1")))
    ran = pratique("budget", "policies.yaml")
    assert (ran.returncode, ran.stdout) == (
        0,
        "nothing to add up: there is no webhook; policies count by the times of a --record\n",
    )
