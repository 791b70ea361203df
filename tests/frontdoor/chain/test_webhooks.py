"""Webhooks in the chain, over real HTTPS."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique import Answer, Review, deny, rule, validator
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import Configurations, load_configurations
from pratique.registry.defaults.defaulting import with_defaults
from pratique_frontdoor.chain.decisions import Decision
from support.chains import POD, decide, pod_review, webhook_controllers
from support.webhook_servers import WebhookServer, allowed, closed_port, denied, hanging, patched, serve

PODS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def webhook(server: WebhookServer, path: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": f"{path}.tests.example.com",
        "clientConfig": {
            "url": f"{server.url}/{path}",
            "caBundle": base64.b64encode(server.ca_bundle).decode(),
        },
        "rules": [PODS],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    } | fields


def configured(folder: Path, kind: str, *webhooks: dict[str, Any], name: str = "tests") -> Configurations:
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
    (folder / f"{kind}-{name}.yaml").write_text(yaml.safe_dump(document))
    return load_configurations([folder])


def run(configurations: Configurations, **changes: Any) -> Decision:
    options = {name: changes.pop(name) for name in ("explain", "seconds") if name in changes}
    return decide(pod_review(**changes), webhook_controllers(), configurations, **options)


def labelled(key: str) -> Any:
    return patched([{"op": "add", "path": f"/metadata/labels/{key}", "value": "x"}])


def test_mutating_webhooks_run_in_turn_on_the_changed_object(tmp_path: Path) -> None:
    with serve({"/a": labelled("a"), "/b": labelled("b")}) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "a"), webhook(server, "b")))
    seen = [item.review["request"]["object"]["metadata"]["labels"] for item in server.received]
    assert seen == [{"app": "web"}, {"app": "web", "a": "x"}]
    assert apply_patch(POD, decision.patch) == decision.object_document.data


SIDE = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}
COMPLETE_POD = with_defaults(GroupVersionKind("", "v1", "Pod"), POD)


@pytest.mark.parametrize(("pod", "policy"), [(COMPLETE_POD, "IfNotPresent"), (POD, None)])
def test_what_a_webhook_adds_gets_the_defaults_that_the_object_has(
    tmp_path: Path, pod: Any, policy: str | None
) -> None:
    with serve({"/a": patched([SIDE]), "/b": allowed()}) as server:
        configurations = configured(tmp_path, "Mutating", webhook(server, "a"), webhook(server, "b"))
        decision = decide(pod_review(pod), webhook_controllers(), configurations)
    _, seen = (item.review["request"]["object"]["spec"]["containers"] for item in server.received)
    assert seen[1].get("imagePullPolicy") == policy
    assert apply_patch(pod, decision.patch) == decision.object_document.data
    assert decision.object_document.data["spec"]["containers"] == seen


def test_an_object_that_no_api_server_has_read_gets_no_defaults(tmp_path: Path) -> None:
    broken = COMPLETE_POD | {"spec": {**COMPLETE_POD["spec"], "containers": [{"name": "a", "resources": 1}]}}
    with serve({"/a": patched([SIDE])}) as server:
        configurations = configured(tmp_path, "Mutating", webhook(server, "a"))
        decision = decide(pod_review(broken), webhook_controllers(), configurations)
    assert decision.object_document.data["spec"]["containers"][1] == SIDE["value"]


def test_configurations_run_in_order_of_their_names(tmp_path: Path) -> None:
    with serve({"/a": allowed(), "/b": allowed()}) as server:
        configured(tmp_path, "Mutating", webhook(server, "a"), name="zeta")
        decision = run(configured(tmp_path, "Mutating", webhook(server, "b"), name="alpha"))
    assert [step.configuration for step in decision.steps] == ["alpha", "zeta"]


def test_a_denial_of_a_mutating_webhook_ends_the_phase(tmp_path: Path) -> None:
    with serve({"/a": denied("no"), "/b": allowed()}) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "a"), webhook(server, "b")))
    assert decision.status is not None
    assert decision.status.message == 'admission webhook "a.tests.example.com" denied the request: no'
    assert len(server.received) == 1


def test_all_validating_webhooks_are_awaited_and_all_denials_reported(tmp_path: Path) -> None:
    with serve({"/a": denied("one"), "/b": allowed(), "/c": denied("two")}) as server:
        hooks = [webhook(server, path) for path in "abc"]
        decision = run(configured(tmp_path, "Validating", *hooks))
    assert decision.status is not None
    assert decision.status.details is not None
    assert [cause.message.rsplit(": ")[-1] for cause in decision.status.details.causes] == ["one", "two"]
    assert len(server.received) == 3


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_a_webhook_that_is_down_denies_under_fail_with_the_message_of_the_api_server(
    tmp_path: Path, kind: str
) -> None:
    with serve(allowed()) as server, closed_port() as port:
        hook = webhook(server, "a", clientConfig={"url": f"https://127.0.0.1:{port}/a"})
        decision = run(configured(tmp_path, kind, hook))
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (500, "InternalError")
    # How many seconds are left depends on how busy the machine is.
    assert re.sub(r"timeout=\d+s", "timeout=…", decision.status.message) == (
        'Internal error occurred: failed calling webhook "a.tests.example.com": failed to call webhook: '
        f'Post "https://127.0.0.1:{port}/a?timeout=…": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert decision.steps[0].outcome is OutcomeStatus.FAILED


@pytest.mark.parametrize(
    ("kind", "annotation"),
    [
        ("Mutating", "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"),
        ("Validating", "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"),
    ],
)
def test_a_webhook_that_is_down_allows_under_ignore(tmp_path: Path, kind: str, annotation: str) -> None:
    with serve(allowed()) as server, closed_port() as port:
        config = {"url": f"https://127.0.0.1:{port}/a"}
        hook = webhook(server, "a", clientConfig=config, failurePolicy="Ignore")
        decision = run(configured(tmp_path, kind, hook))
    assert decision.allowed
    assert decision.steps[0].outcome is OutcomeStatus.FAILED_OPEN
    assert decision.audit_annotations[annotation] == "a.tests.example.com"


def test_a_hanging_webhook_fails_after_its_own_timeout(tmp_path: Path) -> None:
    with serve({"/a": hanging(), "/b": labelled("b")}) as server:
        slow = webhook(server, "a", timeoutSeconds=1, failurePolicy="Ignore")
        decision = run(configured(tmp_path, "Mutating", slow, webhook(server, "b")))
    assert [step.outcome for step in decision.steps] == [OutcomeStatus.FAILED_OPEN, OutcomeStatus.MUTATED]


def test_no_webhook_is_called_after_the_deadline_of_the_request(tmp_path: Path) -> None:
    with serve({"/a": hanging(), "/b": allowed()}) as server:
        slow = webhook(server, "a", timeoutSeconds=5, failurePolicy="Ignore")
        decision = run(configured(tmp_path, "Mutating", slow, webhook(server, "b")), seconds=0.3)
    assert decision.status is not None
    assert decision.status.code == 504
    assert decision.status.message == "Timeout: request did not complete within requested timeout"
    assert len(server.received) == 1


def test_a_patch_can_have_any_number_of_operations(tmp_path: Path) -> None:
    labels = {f"label-{number}": "x" for number in range(5_000)}
    patch = [
        {"op": "add", "path": f"/metadata/labels/{key}", "value": value} for key, value in labels.items()
    ]
    with serve(patched(patch)) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "many")))
    assert decision.object_document.data["metadata"]["labels"].items() >= labels.items()


def test_a_patch_that_does_not_apply_denies_even_under_ignore(tmp_path: Path) -> None:
    with serve(patched([{"op": "remove", "path": "/nothing"}])) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "a", failurePolicy="Ignore")))
    assert decision.status is not None
    assert decision.status.code == 500
    assert "Unable to remove nonexistent key: nothing" in decision.status.message


def test_a_patch_on_delete_denies(tmp_path: Path) -> None:
    with serve(labelled("a")) as server:
        decision = run(
            configured(tmp_path, "Mutating", webhook(server, "a")),
            operation=Operation.DELETE,
            object_document=NULL,
            old_object_document=Document.from_data(POD),
        )
    assert decision.status is not None
    assert decision.status.message == (
        'Internal error occurred: admission webhook "a.tests.example.com" attempted to modify the object, '
        "which is not supported for this operation"
    )


@pytest.mark.parametrize("side_effects", ["Some", "Unknown"])
def test_a_webhook_with_side_effects_denies_a_dry_run(tmp_path: Path, side_effects: str) -> None:
    with serve(allowed()) as server:
        hook = webhook(server, "a", sideEffects=side_effects, timeoutSeconds=5)
        document = {
            "apiVersion": "admissionregistration.k8s.io/v1beta1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "old"},
            "webhooks": [hook],
        }
        (tmp_path / "old.yaml").write_text(yaml.safe_dump(document))
        decision = run(load_configurations([tmp_path]), dry_run=True)
    assert decision.status is not None
    assert decision.status.message == 'admission webhook "a.tests.example.com" does not support dry run'
    assert server.received == []


def test_an_earlier_webhook_with_if_needed_is_reinvoked(tmp_path: Path) -> None:
    with serve({"/a": labelled("a"), "/b": labelled("b")}) as server:
        again = webhook(server, "a", reinvocationPolicy="IfNeeded")
        decision = run(configured(tmp_path, "Mutating", again, webhook(server, "b")))
    assert [(step.name[0], step.round) for step in decision.steps] == [("a", 0), ("b", 0), ("a", 1)]
    annotation = decision.audit_annotations["mutation.webhook.admission.k8s.io/round_0_index_1"]
    assert annotation == '{"configuration":"tests","webhook":"b.tests.example.com","mutated":true}'


NOW = {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
EARLIER = NOW | {"time": "2025-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("managed", "before", "expected"),
    [
        ([NOW], None, ["a0 true", "b0 false", "c0 false"]),
        ([EARLIER], [EARLIER], ["a0 false", "b0 false", "c0 false"]),
        ([NOW, EARLIER], [EARLIER], ["a0 true", "b0 false", "c0 false"]),
        ([EARLIER], [EARLIER | {"fieldsV1": {"f:data": {}}}], ["a0 false", "b0 false", "c0 false"]),
        (None, None, ["a0 false", "b0 false", "c0 false"]),
    ],
    ids=["created", "updated without effect", "updated", "shortened", "of no API server"],
)
def test_the_first_patch_counts_as_a_change_where_an_api_server_has_just_set_a_time(
    tmp_path: Path, managed: Any, before: Any, expected: list[str]
) -> None:
    unknown = patched([{"op": "add", "path": "/spec/unknown", "value": 1}])
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop"}
    pod = POD | {"metadata": metadata | ({"managedFields": managed} if managed else {})}
    changes: dict[str, Any] = {"object_document": Document.from_data(pod)}
    if before:
        old = POD | {"metadata": metadata | {"managedFields": before}}
        changes |= {"old_object_document": Document.from_data(old), "operation": Operation.UPDATE}
    with serve(unknown) as server:
        hooks = [webhook(server, name, reinvocationPolicy="IfNeeded") for name in "abc"]
        decision = run(configured(tmp_path, "Mutating", *hooks), **changes)
    told = [
        (key[-9:-8], json.loads(value))
        for key, value in decision.audit_annotations.items()
        if key.startswith("mutation.")
    ]
    assert [
        f"{told['webhook'][0]}{round_} {str(told['mutated']).lower()}" for round_, told in told
    ] == expected


@pytest.mark.parametrize(
    ("selectors", "reason"),
    [
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, "namespaceSelector does not match"),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "objectSelector matches the labels of neither"),
        ({"rules": [PODS | {"operations": ["DELETE"]}]}, "operations [DELETE] do not include CREATE"),
    ],
    ids=["namespaceSelector", "objectSelector", "rules"],
)
def test_an_explanation_says_why_a_webhook_was_not_called(
    tmp_path: Path, selectors: dict[str, Any], reason: str
) -> None:
    with serve(denied("no")) as server:
        decision = run(configured(tmp_path, "Validating", webhook(server, "a", **selectors)), explain=True)
    assert decision.allowed
    assert reason in decision.steps[0].reason


def test_a_missing_namespace_is_not_found(tmp_path: Path) -> None:
    selector = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    with serve(allowed()) as server:
        decision = run(
            configured(tmp_path, "Validating", webhook(server, "a", **selector)), cluster=ObjectStore()
        )
    assert decision.status is not None
    assert (decision.status.code, decision.status.message) == (404, 'namespaces "shop" not found')


@validator("Refuses", rule("pods"))
def refuses(_: Review) -> Answer:
    return deny("not here")


@pytest.mark.parametrize(("first_denial_only", "calls"), [(True, 0), (False, 1)])
def test_validating_webhooks_are_called_after_a_denial_unless_only_the_first_counts(
    tmp_path: Path, *, first_denial_only: bool, calls: int
) -> None:
    with serve({"/a": denied("no")}) as server:
        configurations = configured(tmp_path, "Validating", webhook(server, "a"))
        controllers = [refuses, *webhook_controllers()]
        decision = decide(pod_review(), controllers, configurations, first_denial_only=first_denial_only)
    assert decision.status is not None
    assert decision.status.message == 'pods "web" is forbidden: not here'
    assert len(server.received) == calls


INTERNAL = "Internal error occurred: "
NOT_READ = f"{INTERNAL}couldn't get version/kind; json parse error: json: cannot unmarshal "


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            {"path": "/kind", "value": "Nope"},
            f'{INTERNAL}no kind "Nope" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            {"path": "/apiVersion", "value": "apps/v1"},
            f'{INTERNAL}no kind "Pod" is registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        ({"path": "/apiVersion", "value": "a/b/c"}, f"{INTERNAL}unexpected GroupVersion string: a/b/c"),
        ({"path": "/kind", "value": 1}, f"{NOT_READ}number into Go struct field .kind of type string"),
        (
            {"path": "", "value": ["x"]},
            (
                f"{NOT_READ}array into Go value of type struct {{ APIVersion string "
                '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
            ),
        ),
        (
            {"path": "/kind", "value": "ConfigMap"},
            "converting (v1.ConfigMap) to (core.Pod): unknown conversion",
        ),
        ({"path": "/kind", "value": "Binding"}, "converting (v1.Binding) to (core.Pod): unknown conversion"),
        (
            {"path": "", "value": {"apiVersion": "v1", "kind": "Secret", "data": {"a": "1"}}},
            f"{INTERNAL}illegal base64 data at input byte 0",
        ),
    ],
)
def test_a_patch_that_changes_the_type_is_refused_in_the_words_of_the_api_server(
    tmp_path: Path, operation: dict[str, Any], message: str
) -> None:
    with serve({"/a": patched([{"op": "replace", **operation}]), "/b": allowed()}) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "a"), webhook(server, "b")))
    assert decision.status is not None
    assert (decision.status.code, decision.status.message) == (500, message)
    assert len(server.received) == 1
    told = decision.audit_annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]
    assert ('"mutated":true' in told) is message.startswith("converting")


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (("ex.org/v2", "Thing"), "request to convert CR from an invalid group/version: ex.org/v2"),
        (("v1", "Pod"), '/v1, Kind=Pod is unstructured and is not suitable for converting to "ex.org/v1"'),
    ],
)
def test_a_custom_resource_that_becomes_another_type_is_refused(
    tmp_path: Path, type_: tuple[str, str], message: str
) -> None:
    thing = {"apiVersion": "ex.org/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "shop"}}
    review = {
        "kind": GroupVersionKind("ex.org", "v1", "Thing"),
        "resource": GroupVersionResource("ex.org", "v1", "things"),
        "object_document": Document.from_data(thing),
    }
    changes = [
        {"op": "replace", "path": f"/{name}", "value": value}
        for name, value in zip(("apiVersion", "kind"), type_, strict=True)
    ]
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    with serve({"/a": patched(changes)}) as server:
        decision = run(configured(tmp_path, "Mutating", webhook(server, "a", rules=rules)), **review)
    assert decision.status is not None
    assert (decision.status.code, decision.status.message) == (500, message)
