"""Secrets stay secret: what may leave a whole stack, whatever the result of a review."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from pratique.admission.reviews import Call
from support import webhook_servers
from support.controller_packages import lay_out
from support.observed_stacks import ObservedStack, observed_stack
from support.secret_markers import CONFIGURED, NAMED, canary, found_in, nameless, planted, review, update
from support.services.reviews import review_of
from support.services.servers import MUTATOR, VALIDATOR, Kind
from support.trace_collectors import collecting_over_http
from support.waiting import within

PACKAGE = f"""
import os, time
from pratique import Controller, Handlers, allow, deny, member
from pratique.admission.results import Patch
from pratique.admission.controllers import BOTH

SECRET = {canary("exception")!r}

def half(review):
    match member(review.object, "metadata", "labels", "mode"):
        case "raise":
            raise ValueError(SECRET + repr(review.object) + repr(review.user))
        case "raise-unusual":
            raise SystemExit(SECRET + repr(review.object))
        case "raise-by-key":
            return {{}}[SECRET + repr(review.object)]
        case "answer-badly":
            return [review.object]
        case "patch-badly":
            return Patch(({{"op": SECRET, "path": repr(review.object)}},))
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "deny-shown":
            return deny("shown by a policy")
    return allow()

async def half_async(review):
    return half(review)

def controller(name, half):
    halves = Handlers(mutate=half, validate=half)
    return Controller(name=name, summary="Breaks.", phases=BOTH, build=lambda _: halves)

CONTROLLERS = [controller("Breaking", half), controller("BreakingAsync", half_async)]
"""

OWN_MODES = (
    "allow",
    "deny-shown",
    "raise",
    "raise-unusual",
    "raise-by-key",
    "answer-badly",
    "patch-badly",
)
WEBHOOK_MODES = (
    "hook-deny",
    "hook-patch",
    "hook-500",
    "hook-echo",
    "hook-reset",
    "hook-refused",
    "hook-grpc",
)
POLICY_MODES = ("cel-error", "cel-deny")
SLOW_MODES = ("crash", "hang", "hook-hang")
MODES = (*OWN_MODES, *WEBHOOK_MODES, *POLICY_MODES, *SLOW_MODES)

RESTARTED = re.compile(r"pratique_controller_process_restarts_total\{name=\"Breaking\"\} [1-9]")
"""Some time after a controller's process has crashed."""

CONFIGURATION = """
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: hooks}}
webhooks:
{webhooks}
"""
WEBHOOK = """
- name: {name}.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 2
  failurePolicy: {policy}
  rules: [{{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}}]
  matchConditions: [{{name: mode, expression: 'object.metadata.labels.mode == "{mode}"'}}]
  clientConfig: {{url: "{url}"{ca}}}
"""
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: texts}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
  validations:
  - expression: object.metadata.labels.mode != "cel-error" || object.metadata.nowhere.at.all
  - expression: object.metadata.labels.mode != "cel-deny"
    message: shown by a policy
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: texts}
spec: {policyName: texts, validationActions: [Deny, Audit]}
"""
KUBECONFIG = f"""
apiVersion: v1
kind: Config
clusters: []
users:
- name: localhost:PORT
  user: {{token: {canary("token")}}}
- name: "*"
  user: {{username: someone, password: {canary("basic-password")}}}
"""
ADMISSION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration: &webhooks
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: {kubeconfig}
- name: ValidatingAdmissionWebhook
  configuration: *webhooks
"""
CLUSTER = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {canary("namespace")}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: kept, namespace: {canary("namespace")}}}
stringData: {{password: {canary("cluster-secret")}}}
"""
BROKEN_CLUSTERS = (
    f"apiVersion: v1\nkind: Secret\nmetadata: {{name: kept}}\nstringData: {{password: [{canary('broken-secret')}\n",
    f"apiVersion: v1\nkind: Secret\nmetadata: {{name: kept}}\ndata: {canary('broken-secret')}\n",
    f"{canary('broken-secret')}\n",
)


def _echoing(received: webhook_servers.Received) -> Any:
    return received.review | {"response": received.review["request"]}


def behaviours() -> dict[str, webhook_servers.Behaviour]:
    return {
        "/hook-deny": webhook_servers.denied("shown by a webhook"),
        "/hook-patch": webhook_servers.patched([{"op": "add", "path": "/metadata/labels/new", "value": "1"}]),
        "/hook-500": webhook_servers.respond(500, b"shown by a webhook"),
        "/hook-echo": webhook_servers.answered(_echoing),
        "/hook-reset": webhook_servers.reset(),
        "/hook-hang": webhook_servers.hanging(),
    }


def _webhooks(url: str, ca: str, *, validating: bool) -> str:
    hooks = []
    for mode in (*WEBHOOK_MODES, "hook-hang"):
        if validating and mode == "hook-patch":
            continue
        reached = {
            "hook-refused": ("https://127.0.0.1:1", ""),
            "hook-grpc": ("grpc://127.0.0.1:1", ""),
        }.get(mode, (f"{url}/{mode}", f", caBundle: {ca}"))
        policy = "Ignore" if validating else "Fail"
        name = f"{mode}-validating" if validating else mode
        hooks.append(WEBHOOK.format(name=name, policy=policy, mode=mode, url=reached[0], ca=reached[1]))
    return CONFIGURATION.format(kind="Validating" if validating else "Mutating", webhooks="".join(hooks))


def write_configuration(folder: Path, server: webhook_servers.WebhookServer) -> list[str]:
    ca = base64.b64encode(server.ca_bundle).decode()
    config = [_webhooks(server.url, ca, validating=validating) for validating in (False, True)]
    files = {
        "config.yaml": "---\n".join([*config, POLICIES]),
        "cluster.yaml": CLUSTER,
        "kubeconfig.yaml": KUBECONFIG.replace("PORT", str(server.port)),
        "admission.yaml": ADMISSION.format(kubeconfig=folder / "kubeconfig.yaml"),
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    chain = [
        "NamespaceLifecycle", "LimitRanger", "AlwaysPullImages", "Breaking", "BreakingAsync", "PodSecurity",
        "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
    ]  # fmt: skip
    return [
        *("--config", str(folder / "config.yaml"), "--cluster", str(folder / "cluster.yaml")),
        *("--admission-control-config-file", str(folder / "admission.yaml")),
        *("--admission-control", ",".join(chain), "--record", str(folder / "recording.jsonl")),
        *("--decision-log", str(folder / "decisions.jsonl")),
    ]


HEADERS = {
    "Authorization": f"Bearer {canary('token-header')}",
    "Cookie": f"session={canary('token-header')}",
    "X-Remote-User": canary("token-header"),
    "Traceparent": canary("token-header"),
    "Tracestate": f"a={canary('token-header')}",
}


class Seen:
    """What is visible of one stack from outside."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.details: dict[str, str] = {}
        self.codes: set[int] = set()
        self.late_codes: set[int] = set()
        self.log = ""
        self.metrics: dict[str, str] = {}
        self.traces = b""
        self.recording = ""
        self.decision_log = ""
        self.authorizations: set[str] = set()


def _ask_everything(stack: ObservedStack, seen: Seen) -> None:
    for mode in MODES:
        timeout = "?timeout=2s" if mode in SLOW_MODES else ""
        for path in ("/mutate", "/validate") if timeout else ("/mutate", "/validate", "/admit"):
            for what, body in (
                ("pod", review(mode)),
                ("secret", review(mode, "secrets")),
                ("update", update(mode)),
                ("secret without a kind", nameless(mode)),
            ):
                if timeout and what != "pod":
                    continue
                code, text = stack.post(f"{path}{timeout}", body, HEADERS)
                (seen.late_codes if timeout else seen.codes).add(code)
                seen.answers[f"{mode} {path} {what}"] = text
    raw = json.dumps(review("allow")).encode()
    for name, path, bad in (
        ("cut", "/admit", raw[:-40]),
        ("not JSON", "/admit", canary("data").encode()),
        ("mistyped", "/admit", raw.replace(b'"userInfo": {', b'"userInfo": [{', 1)),
        ("path", f"/{canary('data')}", raw),
    ):
        seen.answers[name] = stack.post(path, bad, HEADERS)[1]


def _ask_directly(stack: ObservedStack) -> dict[str, str]:
    """The gRPC codes and details for invalid reviews, by kind."""
    ports = dict(re.findall(r"(mutator|validator-1) is process \d+, ready on port (\d+)", stack.log))
    said = {}
    for name, kind in (("mutator", MUTATOR), ("validator-1", VALIDATOR)):
        good = kind.request(
            review_of(review("raise")["request"]["object"]), [Call(canary("exception")), Call("Breaking")]
        )
        requests = {
            "garbage": canary("data").encode(),
            "not JSON": kind.request(
                review_of(canary("data").encode()), [Call("Breaking")]
            ).SerializeToString(),
            "cut": good.SerializeToString()[:-3],
            "made up": good.SerializeToString(),
        }
        for what, raw in requests.items():
            said[f"{name} {what}"] = asyncio.run(_said(f"127.0.0.1:{ports[name]}", kind, raw))
    return said


async def _said(address: str, kind: Kind, raw: bytes) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            return repr(kind.response.FromString(await kind.send(channel, raw)))
        except grpc.aio.AioRpcError as error:
            return f"{error.code()} {error.details()} {error.trailing_metadata()}"


def _break_the_cluster(stack: ObservedStack, folder: Path) -> None:
    for number, text in enumerate(BROKEN_CLUSTERS, 1):
        (folder / "cluster.yaml").write_text(text, "utf-8")
        # All services read it; the front door is the one that the test waits for, be it that it can use it.
        assert within(120, functools.partial(_has_read, stack, number)), stack.log


def _has_read(stack: ObservedStack, times: int) -> bool:
    words = ("cluster kept", "cluster reloaded")
    return sum(any(word in line for word in words) for line in stack.lines) >= times


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("canaries")
    package = lay_out(folder / "package", "acme_breaking", PACKAGE, all="CONTROLLERS")
    seen = Seen()
    with webhook_servers.serve(behaviours()) as server, collecting_over_http() as collector:
        flags = write_configuration(folder, server)
        environment = {
            "PYTHONPATH": str(package),
            "PRATIQUE_DEBUG": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with observed_stack(*flags, **environment) as stack:
            _ask_everything(stack, seen)
            seen.details = _ask_directly(stack)
            assert within(120, lambda: RESTARTED.search("".join(stack.metrics().values())) is not None)
            seen.metrics = stack.metrics()
            _break_the_cluster(stack, folder)
            assert stack.stop() == 0
        seen.log = stack.log
        seen.traces = collector.raw
        seen.authorizations = {received.headers.get("authorization", "") for received in server.received}
    seen.recording = (folder / "recording.jsonl").read_text("utf-8")
    seen.decision_log = (folder / "decisions.jsonl").read_text("utf-8")
    return seen


def test_there_are_enough_canaries() -> None:
    assert len(planted()) >= 40


def test_every_kind_of_result_occurred(seen: Seen) -> None:
    assert seen.codes == {200}
    # A webhook that uses up the time fails within a decision, if a busy machine leaves the moment to tell it.
    assert {200} <= seen.late_codes <= {200, 504}
    counted = "".join(seen.metrics.values())
    for outcome in ("allowed", "mutated", "denied", "failed", "timeout"):
        assert re.search(f'pratique_controller_duration_seconds_count{{.*outcome="{outcome}"', counted), (
            outcome
        )
    assert 'error_type="calling_webhook_error"' in counted
    assert "apiserver_admission_webhook_fail_open_count{" in counted
    assert RESTARTED.search(counted)
    assert f"Bearer {canary('token')}" in seen.authorizations
    assert any("shown by a policy" in text for text in seen.answers.values())


def test_no_log_contains_a_canary(seen: Seen) -> None:
    assert len(seen.log.splitlines()) > 20
    leaking = [line for line in seen.log.splitlines() if found_in(line)]
    assert leaking == []


def test_no_metric_contains_a_canary(seen: Seen) -> None:
    assert {"frontdoor", "mutator", "validator-1"} == seen.metrics.keys()
    assert {name: found_in(text) for name, text in seen.metrics.items() if found_in(text)} == {}


def test_no_trace_contains_a_canary(seen: Seen) -> None:
    assert b"pratique.operation" in seen.traces
    assert found_in(seen.traces.decode("latin-1")) == set()


def test_answers_contain_only_canaries_that_kubernetes_names(seen: Seen) -> None:
    named = {canary(name) for name in NAMED}
    leaking = {what: found_in(text) - named for what, text in seen.answers.items() if found_in(text) - named}
    assert leaking == {}


def test_answers_of_services_contain_only_the_requested_name(seen: Seen) -> None:
    assert any("INVALID_ARGUMENT" in text for text in seen.details.values())
    own = {canary("exception")}  # which is the name of a controller there
    leaking = {what: found_in(text) - own for what, text in seen.details.items() if found_in(text) - own}
    assert leaking == {}


def test_no_recording_contains_a_secret(seen: Seen) -> None:
    secret = {
        canary(item) for item in (*CONFIGURED, "data", "old-data", "string-data", "env-value", "exception")
    }
    assert '"mutate"' in seen.recording or '"/admit"' in seen.recording
    assert found_in(seen.recording) & secret == set()


def test_decision_logs_contain_only_canaries_that_kubernetes_names(seen: Seen) -> None:
    lines = [json.loads(line) for line in seen.decision_log.splitlines()]
    kinds = {line["kind"] for line in lines}
    assert {"head", "decision", "outage", "seal"} <= kinds
    assert any("shown by a policy" in line.get("message", "") for line in lines)
    leaking = [line for line in lines if found_in(json.dumps(line)) - {canary(name) for name in NAMED}]
    assert leaking == []
