"""Kubernetes' integration tests of webhooks: configurations from files, the front door, webhooks over HTTPS."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer as Answered
from pratique.admission.results import allow, deny, patch
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import load_configurations
from support.front_doors.running import Answer
from support.vector_cases import kind, source
from support.webhook_dispatch import AssembledEngine, DispatchingFrontDoor, filled, open_front_door, slowly
from support.webhook_servers import Behaviour, Received, WebhookServer, allowed, answered, serve

REINVOCATIONS = [case for case in kind("reinvocation") if case["input"]["applyDefaults"]]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "timed", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}


@pytest.fixture(scope="module")
def front_door() -> Iterator[DispatchingFrontDoor]:
    with open_front_door() as opened:
        yield opened


def priorities(told: JSONObject) -> Controller:
    """The in-tree plugin of a case, as the case describes it."""
    classes = told["priorityClasses"]

    def mutate(review: Review) -> Answered:
        spec = review.object["spec"]
        name = spec.get("priorityClassName", "")
        if not name or "priority" in spec:
            return allow()
        if name not in classes:
            return deny(f"no PriorityClass with name {name} was found")
        return patch(operations=[{"op": "add", "path": "/spec/priority", "value": classes[name]}])

    return Controller(
        name="Priority",
        summary="Sets the priority that a class says.",
        phases=MUTATE,
        rules=(rule("pods"),),
        build=lambda _: Handlers(mutate=mutate),
        trusted=True,
    )


def patching(operations: Callable[[JSON], list[JSONObject]]) -> Behaviour:
    """Let the request through with a patch that depends on the object, if there is anything to patch."""

    def answer(received: Received) -> JSON:
        review = received.review
        found = operations(review["request"]["object"])
        response: JSONObject = {"uid": review["request"]["uid"], "allowed": True}
        if found:
            response |= {"patchType": "JSONPatch", "patch": encoded(found)}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}

    return answered(answer)


def encoded(operations: list[JSONObject]) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


def added(path: str, value: str) -> JSONObject:
    return {"op": "add", "path": path, "value": value}


def raise_priority(pod: JSON) -> list[JSONObject]:
    if pod["spec"].get("priorityClassName") == "high-priority":
        return []
    removal = [{"op": "remove", "path": "/spec/priority"}] if "priority" in pod["spec"] else []
    return [added("/spec/priorityClassName", "high-priority"), *removal]


BEHAVIOURS: Mapping[str, Behaviour] = {
    "/setpriority": patching(raise_priority),
    "/setinvalidpriority": patching(lambda _: [added("/spec/priorityClassName", "invalid")]),
    "/conditionaladdlabel": patching(
        lambda pod: [added("/metadata/labels/b", "true")] if "a" in pod["metadata"]["labels"] else []
    ),
    "/addlabel": patching(
        lambda pod: (
            [] if pod["metadata"]["labels"].get("a") == "true" else [added("/metadata/labels/a", "true")]
        )
    ),
}
"""What the cases say about these paths in prose."""


def written(folder: Path, documents: list[JSONObject]) -> Path:
    for place, document in enumerate(documents):
        (folder / f"{place}.json").write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize("case", REINVOCATIONS, ids=source)
def test_webhooks_are_reinvoked_as_in_kubernetes(
    front_door: DispatchingFrontDoor, tmp_path: Path, case: JSONObject
) -> None:
    given, expected = case["input"], case["expected"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "reinvoke"}}
    with serve({path: BEHAVIOURS[path] for path in given["webhookBehaviour"]}) as server:
        folder = written(tmp_path, filled(given["configurations"], server))
        engine = AssembledEngine(
            ObjectStore([namespace]), load_configurations([folder]), [priorities(given["inTreePlugin"])]
        )
        decision = front_door.ask(engine, "/explain?phase=admit", given["request"]).json
    counts = {path: [item.path for item in server.received].count(path) for path in given["webhookBehaviour"]}
    assert decision["allowed"] is expected["allowed"]
    assert counts == expected["invocationCountByPath"]
    assert expected.get("messageContains", "") in (decision["status"] or {"message": ""})["message"]
    if "objectLabels" in expected:
        assert decision["object"]["metadata"]["labels"] == expected["objectLabels"]


def configuration(kind_of: str, webhooks: list[JSONObject]) -> JSONObject:
    pods = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind_of}WebhookConfiguration",
        "metadata": {"name": "admission.integration.test"},
        "webhooks": [
            {
                "name": f"admission.integration.test.{place}",
                "clientConfig": {"url": f"https://<server>{webhook['path']}"},
                "rules": [pods],
                "timeoutSeconds": webhook["timeoutSeconds"],
                "failurePolicy": webhook["failurePolicy"],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            for place, webhook in enumerate(webhooks)
        ],
    }


def invocations(server: WebhookServer) -> list[tuple[str, str]]:
    found = [(item.path, parse_qs(urlsplit(item.target).query)["timeout"][0]) for item in server.received]
    # Those of the validating phase are called side by side, and arrive in any order.
    return [item for item in found if "/mutating/" in item[0]] + sorted(
        item for item in found if "/validating/" in item[0]
    )


def timed(
    front_door: DispatchingFrontDoor, folder: Path, given: JSONObject
) -> tuple[Answer, list[tuple[str, str]]]:
    webhooks = [*given["mutatingWebhooks"], *given["validatingWebhooks"]]
    behaviours = {webhook["path"]: slowly(allowed(), webhook["sleepSeconds"]) for webhook in webhooks}
    documents = [
        configuration(name, given[f"{name.lower()}Webhooks"])
        for name in ("Mutating", "Validating")
        if given[f"{name.lower()}Webhooks"]
    ]
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "object": POD,
    }
    with serve(behaviours) as server:
        configurations = load_configurations([written(folder, filled(documents, server))])
        engine = AssembledEngine(ObjectStore(assume_namespaces=True), configurations)
        answer = front_door.ask(engine, f"/admit?timeout={given['requestTimeout']}", request)
        return answer, invocations(server)


@pytest.mark.parametrize("case", kind("timeout"), ids=source)
def test_timeouts_are_as_in_kubernetes(
    front_door: DispatchingFrontDoor, tmp_path: Path, case: JSONObject
) -> None:
    expected = case["expected"]
    answer, calls = timed(front_door, tmp_path, case["input"])
    assert calls == [
        (invocation["path"], invocation["timeoutQueryParameter"]) for invocation in expected["invocations"]
    ]
    told = answer.json.get("response", answer.json)
    if "messageContains" in expected:
        assert not told.get("allowed")
        assert expected["messageContains"] in (
            told["message"] if answer.code != 200 else told["status"]["message"]
        )
    else:
        assert told["allowed"] is True
