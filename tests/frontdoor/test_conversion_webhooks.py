"""Conversion webhooks: custom resources as webhooks and policies of another version see them."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.conversion import PendingConversionError
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.https.clients import HttpsClients
from pratique.https.conversion_webhooks import HttpsConversionWebhooks
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.answer_types import CONVERSION, UID, VERSIONS, typed_answers
from support.mutating_policies import bound, mutating
from support.mutating_policies import patched as json_patch
from support.validating_policies import EVERYTHING, binding, policy
from support.watched_documents import WatchedDocument
from support.webhook_servers import (
    Behaviour,
    Received,
    WebhookServer,
    allowed,
    answered,
    closed_port,
    patched,
    respond,
    serve,
)

GROUP = "example.com"
ORDER: JSONObject = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Order",
    "metadata": {"name": "first", "namespace": "shop", "labels": {"app": "web"}, "generation": 3},
    "spec": {"size": 2},
}
FAILED = f"conversion webhook for {GROUP}/v1, Kind=Order failed: "
RETURNED = f"conversion webhook for {GROUP}/v1, Kind=Order returned "
OTHER_VERSION = EVERYTHING | {"apiGroups": [GROUP], "apiVersions": ["v2"], "operations": ["CREATE"]}


def converted(item: JSONObject, api_version: str) -> JSONObject:
    """What v1 calls size, v2 calls amount."""
    names = {"v1": "size", "v2": "amount"}
    (value,) = item["spec"].values()
    return {**item, "apiVersion": api_version, "spec": {names[api_version.rpartition("/")[2]]: value}}


def converting(change: Callable[[JSONObject], JSON] = lambda item: item, **response: JSON) -> Behaviour:
    """Convert as told, change the result, and replace members of the response."""

    def answer(received: Received) -> JSON:
        review = received.review
        request = review["request"]
        objects = [change(converted(item, request["desiredAPIVersion"])) for item in request["objects"]]
        usual = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return {
            "kind": "ConversionReview",
            "apiVersion": review["apiVersion"],
            "response": usual | response,
        }

    return answered(answer)


def metadata(**fields: JSON) -> Callable[[JSONObject], JSON]:
    return lambda item: item | {"metadata": item["metadata"] | fields}


def definition(client: JSONObject, *versions: str) -> JSONObject:
    webhook = {"clientConfig": client, "conversionReviewVersions": list(versions) or ["v1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"orders.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "orders", "kind": "Order"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [{"name": name, "served": True, "storage": name == "v1"} for name in ("v1", "v2")],
        },
    }


def client_of(server: WebhookServer, path: str = "/convert") -> JSONObject:
    return {"url": f"{server.url}{path}", "caBundle": base64.b64encode(server.ca_bundle).decode()}


def webhook(server: WebhookServer, kind: str, *paths: str) -> JSONObject:
    rule = {"apiGroups": [GROUP], "apiVersions": ["v2"], "operations": ["*"], "resources": ["orders"]}
    hooks = [
        {
            "name": f"h{number}.{GROUP}",
            "clientConfig": client_of(server, path),
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for number, path in enumerate(paths)
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": hooks,
    }


def decided(
    folder: Path,
    cluster: JSONObject | ObjectStore,
    *documents: JSONObject,
    added: JSONObject | None = None,
    **settings: Any,
) -> Decision:
    """Have an Order of v1 reviewed; ``added`` comes into the cluster after the start."""
    file = folder / "config.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
    store = cluster if isinstance(cluster, ObjectStore) else ObjectStore([cluster], assume_namespaces=True)

    async def run() -> Decision:
        engine = open_local(ChainSettings(config=(file,), **settings), store)
        try:
            if added is not None:
                store.put(added)
            review: Review = review_of_manifest(ORDER, store.resources, cluster=store)
            return await engine.decide(review, BOTH, Deadline.after(60), explain=True)
        finally:
            await engine.close()

    return asyncio.run(run())


def message(decision: Decision) -> str:
    assert decision.status is not None
    return decision.status.message


ASKS = policy("object.spec.amount > 5", matchConstraints={"resourceRules": [OTHER_VERSION]})
"""A policy of v2, which an Order of two does not satisfy."""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_policy_of_another_version_sees_what_the_webhook_makes(tmp_path: Path, version: str) -> None:
    with serve({"/convert": converting()}) as server:
        found = decided(tmp_path, definition(client_of(server), "v9", version), ASKS, binding())
    assert "failed expression: object.spec.amount > 5" in message(found)
    (call,) = server.received
    assert call.target == "/convert?timeout=30s"
    review = call.review
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", f"apiextensions.k8s.io/{version}")
    assert review["request"]["desiredAPIVersion"] == f"{GROUP}/v2"
    assert [item["spec"] for item in review["request"]["objects"]] == [{"size": 2}]


def test_several_policies_share_a_conversion(tmp_path: Path) -> None:
    others = [
        part
        for name in ("a", "b")
        for part in (
            policy("object.spec.amount == 2", name=name, matchConstraints={"resourceRules": [OTHER_VERSION]}),
            binding(name, name=name),
        )
    ]
    with serve({"/convert": converting()}) as server:
        found = decided(tmp_path, definition(client_of(server)), *others)
    assert (found.allowed, len(server.received)) == (True, 1)


def test_a_mutating_policy_changes_the_converted_object(tmp_path: Path) -> None:
    change = json_patch("[JSONPatch{op: 'replace', path: '/spec/amount', value: object.spec.amount + 5}]")
    mutation = mutating(change, matchConstraints={"resourceRules": [OTHER_VERSION]})
    with serve({"/convert": converting()}) as server:
        found = decided(tmp_path, definition(client_of(server)), mutation, bound())
    assert found.allowed, found.status
    assert found.object_document.data["spec"] == {"size": 7}
    wanted = [call.review["request"]["desiredAPIVersion"] for call in server.received]
    assert wanted[:2] == [f"{GROUP}/v2", f"{GROUP}/v1"]


def test_parameters_are_converted(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"paramKind": {"apiVersion": f"{GROUP}/v2", "kind": "Order"}}
    everything = {"resourceRules": [EVERYTHING | {"apiGroups": [GROUP]}]}
    asks = policy("params.spec.amount > object.spec.size", matchConstraints=everything, **kinds)
    ref = {"selector": {}, "parameterNotFoundAction": "Deny"}
    with serve({"/convert": converting()}) as server:
        params = [ORDER | {"metadata": {"name": name, "namespace": "shop"}} for name in ("a", "b")]
        store = ObjectStore([definition(client_of(server)), *params], assume_namespaces=True)
        found = decided(tmp_path, store, asks, binding(paramRef=ref))
    assert "failed expression: params.spec.amount > object.spec.size" in message(found)
    assert len(server.received) == 2


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_a_webhook_of_another_version_sees_what_the_webhook_makes(tmp_path: Path, kind: str) -> None:
    with serve({"/convert": converting(), "/a": allowed(), "/b": allowed()}) as server:
        found = decided(tmp_path, definition(client_of(server)), webhook(server, kind, "/a", "/b"))
    assert found.allowed, found.status
    calls = {call.path: call.review["request"] for call in server.received}
    assert [calls[path]["object"]["spec"] for path in ("/a", "/b")] == [{"amount": 2}] * 2
    assert [call.path for call in server.received].count("/convert") == 1


def test_a_patch_of_a_webhook_is_converted_back(tmp_path: Path) -> None:
    patch = patched([{"op": "replace", "path": "/spec/amount", "value": 9}])
    with serve({"/convert": converting(), "/a": patch, "/b": allowed()}) as server:
        found = decided(tmp_path, definition(client_of(server)), webhook(server, "Mutating", "/a", "/b"))
    assert found.allowed, found.status
    assert found.object_document.data["spec"] == {"size": 9}
    assert [call.path for call in server.received] == ["/convert", "/a", "/convert", "/b"]
    assert server.received[-1].review["request"]["object"]["spec"] == {"amount": 9}


def test_labels_and_annotations_may_change_and_other_metadata_stays(tmp_path: Path) -> None:
    asks = policy(
        "object.metadata.labels == {'new': 'yes'} && object.metadata.annotations.by == 'webhook'"
        " && object.metadata.?generation.orValue(0) != 7 && !has(object.metadata.finalizers)",
        matchConstraints={"resourceRules": [OTHER_VERSION]},
    )
    change = metadata(labels={"new": "yes"}, annotations={"by": "webhook"}, generation=7, finalizers=["a"])
    with serve({"/convert": converting(change)}) as server:
        assert decided(tmp_path, definition(client_of(server)), asks, binding()).allowed


def malformed(**members: JSON) -> Behaviour:
    return answered(
        lambda received: {"kind": "ConversionReview", "apiVersion": received.review["apiVersion"]} | members
    )


def respond_with_text(spec: str) -> Behaviour:
    """Convert to an object with this text as its spec."""

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        request = received.review["request"]
        made = converted(request["objects"][0], request["desiredAPIVersion"]) | {"spec": "SPEC"}
        response = {"uid": request["uid"], "convertedObjects": [made], "result": {"status": "Success"}}
        review = {
            "kind": "ConversionReview",
            "apiVersion": received.review["apiVersion"],
            "response": response,
        }
        text = json.dumps(review).replace('"SPEC"', spec)
        await respond(200, text.encode(), content_type="application/json")(received, writer)

    return behave


DEEP: JSONObject = {"size": json.loads("[" * 300 + "]" * 300)}
UNUSABLE: dict[str, tuple[Behaviour, str]] = {
    "another uid": (converting(uid="x"), f'{FAILED}expected response.uid="'),
    "a failure": (
        converting(result={"status": "Failure", "message": "no such size"}),
        f"{FAILED}no such size",
    ),
    "a silent failure": (
        converting(result={"status": "Failure"}),
        f"{FAILED}response.result.status was 'Failure', not 'Success'",
    ),
    "no result": (converting(result=None), f"{FAILED}response.result.status was '', not 'Success'"),
    "no response": (malformed(), f"{FAILED}no response provided"),
    "a list": (
        respond(200, b'{"kind":"List","apiVersion":"v1","items":[]}'),
        f'{FAILED}no kind "List" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "no kind of review": (
        malformed(kind="", apiVersion=""),
        f"{FAILED}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
    ),
    "no objects": (converting(convertedObjects=[]), f"{RETURNED}0 objects, expected 1"),
    "two objects": (converting(convertedObjects=[{}, {}]), f"{RETURNED}2 objects, expected 1"),
    "a text": (converting(convertedObjects=["x"]), f"{RETURNED}invalid object at index 0"),
    "another version": (
        converting(lambda item: item | {"apiVersion": f"{GROUP}/v1"}),
        f"{RETURNED}invalid object at index 0: invalid groupVersion (expected {GROUP}/v2, received {GROUP}/v1)",
    ),
    "another kind": (
        converting(lambda item: item | {"kind": "Other"}),
        f"{RETURNED}invalid object at index 0: invalid kind (expected Order, received Other)",
    ),
    "another name": (
        converting(metadata(name="x")),
        f"{RETURNED}invalid object: must have the same name: first != x",
    ),
    "another namespace": (
        converting(metadata(namespace="x")),
        f"{RETURNED}invalid object: must have the same namespace: shop != x",
    ),
    "another UID": (
        converting(metadata(uid="x")),
        f"{RETURNED}invalid object: must have the same UID: ",
    ),
    "a list of labels": (
        converting(metadata(labels=["a"])),
        f"{RETURNED}invalid metadata: invalid metadata.labels of type []interface {{}} in converted object",
    ),
    "a number as a label": (
        converting(metadata(labels={"a": 1})),
        f"{RETURNED}invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
    ),
    "an invalid label": (
        converting(metadata(labels={"a b": "c"})),
        f'{RETURNED}invalid metadata: metadata.labels: Invalid value: "a b": ',
    ),
    "more invalid labels than are told": (
        converting(metadata(labels={f"a {index}": "" for index in range(10_001)})),
        f"{RETURNED}invalid metadata: more than 10000 errors, or than 8388608 characters of errors",
    ),
    "longer invalid annotations than are told": (
        converting(metadata(annotations={f"{'a' * 100_000} {index}": "" for index in range(100)})),
        f"{RETURNED}invalid metadata: more than 10000 errors, or than 8388608 characters of errors",
    ),
    "too deep": (
        converting(lambda item: item | {"spec": DEEP}),
        f"{RETURNED}invalid object: it has too many",
    ),
    "a number that no float can hold": (
        respond_with_text('{"amount": 1' + "0" * 400 + "}"),
        f"{RETURNED}invalid object: it has a number out of the range of float64",
    ),
    "more values than memory is for": (
        respond_with_text("[" + "[]," * 600_000 + "[]]"),
        f"{FAILED}response body holds more than 600000 values",
    ),
    "an error": (respond(500, b"broken"), f'{FAILED}an error on the server ("broken") has prevented'),
    "nothing": (respond(200, b""), f"{FAILED}0-length response with status code: 200"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_an_unusable_answer_denies(tmp_path: Path, what: str) -> None:
    behaviour, words = UNUSABLE[what]
    with serve({"/convert": behaviour}) as server:
        found = decided(tmp_path, definition(client_of(server)), ASKS, binding())
    assert words in message(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_of_another_type_fails_as_the_api_server_fails_it(version: str) -> None:
    """One for each type that an answer may claim, in the API server's words."""
    answers = [answer for answer in typed_answers(CONVERSION) if answer.version == version]
    left = iter(answers)

    async def answer_next(received: Received, writer: asyncio.StreamWriter) -> None:
        body = next(left).body.replace(UID.encode(), received.review["request"]["uid"].encode())
        await respond(200, body)(received, writer)

    async def failures(server: WebhookServer) -> list[str]:
        webhooks = HttpsConversionWebhooks(HttpsClients())
        client, before = client_of(server), GroupVersionKind(GROUP, "v1", "Order")
        pending = PendingConversionError(
            Document.from_data(ORDER), before, f"{GROUP}/v2", definition(client, version)
        )
        texts = []
        try:
            for _ in answers:
                with pytest.raises(ConversionError) as raised:
                    await webhooks.convert(pending, None)
                texts.append(str(raised.value))
        finally:
            await webhooks.close()
        return texts

    with serve(answer_next) as server:
        found = asyncio.run(failures(server))
    expected = "apiextensions.k8s.io/v1, Kind=ConversionReview"
    for answer, text in zip(answers, found, strict=True):
        if answer.error:
            assert text == f"{FAILED}{answer.error}"
        elif version == "v1" and answer.claimed != expected:
            assert text == f"{FAILED}expected webhook response of {expected}, got {answer.claimed}"
        else:
            assert text == f"{RETURNED}0 objects, expected 1"


def test_a_webhook_that_cannot_be_reached_denies_even_under_ignore(tmp_path: Path) -> None:
    with serve({"/a": allowed()}) as server, closed_port() as port:
        hooks = webhook(server, "Validating", "/a")
        hooks["webhooks"][0]["failurePolicy"] = "Ignore"
        found = decided(tmp_path, definition({"url": f"https://127.0.0.1:{port}/convert"}), hooks)
    beginning = (
        f'Internal error occurred: {FAILED}Post "https://127.0.0.1:{port}/convert?timeout=30s": dial tcp '
    )
    assert message(found).startswith(beginning)
    assert server.received == []


CLIENTS: dict[str, tuple[JSONObject, str]] = {
    "plain HTTP": ({"url": "http://localhost/convert"}, "must be one of an HTTPS server"),
    "no address": ({}, "webhook configuration must have either service or URL"),
    "a host in a name": (
        {"service": {"name": "evil.example.com/x?", "namespace": "shop"}},
        "the Service's name and namespace must be DNS labels",
    ),
    "no base64": ({"url": "https://localhost/", "caBundle": "***"}, "caBundle: "),
}


@pytest.mark.parametrize("what", CLIENTS)
def test_a_client_configuration_that_is_none_denies(tmp_path: Path, what: str) -> None:
    client, words = CLIENTS[what]
    found = decided(tmp_path, definition(client), ASKS, binding())
    assert FAILED in message(found)
    assert words in message(found)


def test_a_webhook_is_reached_by_its_service(tmp_path: Path) -> None:
    with serve({"/convert": converting()}) as server:
        service = {"name": "webhooks", "namespace": "tests", "path": "/convert", "port": 443}
        client = {"service": service, "caBundle": client_of(server)["caBundle"]}
        ports = [{"port": 443, "targetPort": server.port}]
        endpoints = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "w",
                "namespace": "tests",
                "labels": {"kubernetes.io/service-name": "webhooks"},
            },
            "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"port": server.port}],
        }
        there = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "webhooks", "namespace": "tests"},
            "spec": {"ports": ports, "clusterIP": "10.0.0.1"},
        }
        store = ObjectStore([definition(client), there, endpoints], assume_namespaces=True)
        found = decided(tmp_path, store, ASKS, binding())
    assert "failed expression: object.spec.amount > 5" in message(found)
    assert len(server.received) == 1


def test_no_review_version_in_common_denies(tmp_path: Path) -> None:
    with serve({"/convert": converting()}) as server:
        found = decided(tmp_path, definition(client_of(server), "v9"), ASKS, binding())
    assert "no supported conversion review versions" in message(found)
    assert server.received == []


def test_a_chain_that_may_call_no_webhooks_denies(tmp_path: Path) -> None:
    with serve({"/convert": converting()}) as server:
        cluster = definition(client_of(server))
        found = decided(tmp_path, cluster, ASKS, binding(), calls_conversion_webhooks=False)
    assert f"{FAILED}conversion webhooks are not called here" in message(found)
    assert server.received == []


def test_what_is_reviewed_does_not_decide_whom_to_call(tmp_path: Path) -> None:
    with serve({"/convert": converting(), "/other": converting()}) as server:
        cluster, other = (definition(client_of(server, path)) for path in ("/convert", "/other"))
        found = decided(tmp_path, cluster, ASKS, binding(), added=other)
    assert f"{FAILED}only those of CustomResourceDefinitions that the cluster had from the start" in message(
        found
    )
    assert server.received == []


def test_a_conversion_goes_on_while_many_other_webhooks_are_asked() -> None:
    """Each has other authorities, and so connections of its own, of which only some are kept."""
    called, release, others = threading.Event(), threading.Event(), 40

    async def slow(received: Received, writer: asyncio.StreamWriter) -> None:
        called.set()
        await asyncio.to_thread(release.wait, 60)
        await converting()(received, writer)

    async def convert(webhooks: HttpsConversionWebhooks, server: WebhookServer, path: str, name: str) -> JSON:
        client = client_of(server, path)
        bundle = f"# {name}\n".encode() + server.ca_bundle
        client["caBundle"] = base64.b64encode(bundle).decode()
        before = GroupVersionKind(GROUP, "v1", "Order")
        pending = PendingConversionError(
            Document.from_data(ORDER), before, f"{GROUP}/v2", definition(client, "v1")
        )
        return (await webhooks.convert(pending, None)).data["spec"]

    async def scenario(server: WebhookServer) -> None:
        webhooks = HttpsConversionWebhooks(HttpsClients())
        try:
            first = asyncio.ensure_future(convert(webhooks, server, "/slow", "first"))
            assert await asyncio.to_thread(called.wait, 60)
            for number in range(others):
                assert await convert(webhooks, server, "/convert", str(number)) == {"amount": 2}
            release.set()
            assert await first == {"amount": 2}
        finally:
            release.set()
            await webhooks.close()

    with serve({"/slow": slow, "/convert": converting()}) as server:
        asyncio.run(scenario(server))


@pytest.mark.parametrize(
    ("labels", "name"),
    [(1, threading.main_thread().name), (1_000, "pratique-reviews"), (10_000, "pratique-large-reviews")],
)
def test_a_large_answer_is_checked_beside_the_event_loop(labels: int, name: str) -> None:
    document = WatchedDocument(json.dumps(ORDER).encode())

    async def convert(server: WebhookServer) -> Document:
        webhooks = HttpsConversionWebhooks(HttpsClients())
        before, asked = GroupVersionKind(GROUP, "v1", "Order"), definition(client_of(server), "v1")
        try:
            return await webhooks.convert(
                PendingConversionError(document, before, f"{GROUP}/v2", asked), None
            )
        finally:
            await webhooks.close()

    many = {f"l{number}": "x" for number in range(labels)}
    with serve({"/convert": converting(metadata(labels=many))}) as server:
        found = asyncio.run(convert(server))
    assert found.data["metadata"]["labels"] == many
    assert set(document.threads) == {name}
