"""A family for custom resources of two versions, which are converted as they are or by a webhook."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

from differential.pairs import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    RESOURCES,
    SERVICE_ACCOUNTS,
    USUAL,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    Request,
    Resource,
    Setup,
    User,
    World,
    made,
)
from differential.webhooks import drawn_webhook
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import Behaviour, Received, WebhookServer, answered, respond

CONVERT = "/convert"
"""The path of the webhook that converts."""
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
_VERSIONS = ("v1", "v2")
_STORED = "there"
_MUTATING = ("/allow", "/label", "/label-too", "/remove", "/test", "/unknown", "/warn", "/deny")
_VALIDATING = ("/allow", "/deny", "/deny-404", "/warn", "/audit", "/500")
_TRUTHS = (
    "object.spec.size > 1",
    "object.apiVersion.endsWith('/v1')",
    "oldObject == null || object.spec.size >= oldObject.spec.size",
    "object.metadata == 'x' || object.spec == {'size': 1}",
    "!has(object.spec.converted)",
    "request.kind.version == request.resource.version",
    "request.requestKind.version == 'v2'",
    "object.kind == 'Thing' && object.spec.names.all(n, n != 'a')",
    "object.spec.names == 'a' || object.spec.names[0.0] == 'a'",
    "object.spec.missing == 1",
)
_MUTATIONS = (
    "[JSONPatch{op: 'add', path: '/spec/size', value: 5}]",
    "[JSONPatch{op: 'add', path: '/spec/more', value: object.spec}]",
    "[JSONPatch{op: 'remove', path: '/spec/names'}]",
    "object.spec == 'x' ? [JSONPatch{op: 'remove', path: '/spec'}] : []",
)


_Change: TypeAlias = "Callable[[JSONObject], JSONObject]"


def _converting(change: _Change = lambda converted: converted, /, **response: JSON) -> Behaviour:
    """A webhook that marks what it converts, and changes it; ``response`` replaces members of its response."""

    def converted(received: Received) -> JSON:
        review = received.review
        request = review["request"]
        objects = [
            change({**item, "apiVersion": request["desiredAPIVersion"], "spec": _marked(item)})
            for item in request["objects"]
        ]
        usual = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return {**_TYPE, "apiVersion": review["apiVersion"], "response": usual | response}

    return answered(converted)


def _marked(item: JSONObject) -> JSON:
    spec = item.get("spec")
    return {**spec, "converted": True} if isinstance(spec, dict) else spec


def _metadata(**fields: JSON) -> _Change:
    """Replace fields of the metadata; None takes one away."""

    def changed(converted: JSONObject) -> JSONObject:
        metadata = {**converted["metadata"], **fields}
        return {
            **converted,
            "metadata": {name: value for name, value in metadata.items() if value is not None},
        }

    return changed


_TYPE = {"kind": "ConversionReview"}
CONVERTING: Mapping[str, Behaviour] = {
    CONVERT: _converting(),
    f"{CONVERT}/labels": _converting(_metadata(labels={"converted": "yes"}, annotations={"by": "webhook"})),
    f"{CONVERT}/bad-label": _converting(_metadata(labels={"a b": "c d"})),
    f"{CONVERT}/bad-annotation": _converting(_metadata(annotations={"a b": "c"})),
    f"{CONVERT}/number-label": _converting(_metadata(labels={"a": 1})),
    f"{CONVERT}/list-labels": _converting(_metadata(labels=["a"])),
    f"{CONVERT}/generation": _converting(_metadata(finalizers=["example.com/x"], generation=7)),
    f"{CONVERT}/name": _converting(_metadata(name="other")),
    f"{CONVERT}/namespace": _converting(_metadata(namespace="other")),
    f"{CONVERT}/uid": _converting(_metadata(uid="0")),
    f"{CONVERT}/no-metadata": _converting(lambda converted: {**converted, "metadata": None}),
    f"{CONVERT}/kind": _converting(lambda converted: {**converted, "kind": "Other"}),
    f"{CONVERT}/version": _converting(lambda converted: {**converted, "apiVersion": "example.com/v9"}),
    f"{CONVERT}/wrong-uid": _converting(uid="another"),
    f"{CONVERT}/nothing": _converting(convertedObjects=[]),
    f"{CONVERT}/failed": _converting(result={"status": "Failure", "message": "no such size"}),
    f"{CONVERT}/failed-silently": _converting(result={"status": "Failure"}),
    f"{CONVERT}/no-result": _converting(result=None),
    f"{CONVERT}/500": respond(500, b"broken"),
    f"{CONVERT}/empty": respond(200, b""),
    f"{CONVERT}/not-json": respond(200, b"hello"),
    f"{CONVERT}/other": respond(200, b'{"kind": "ConversionReview", "apiVersion": "example.com/v1"}'),
    f"{CONVERT}/no-response": answered(
        lambda received: {**_TYPE, "apiVersion": received.review["apiVersion"]}
    ),
}
"""What the server does, by path."""


@dataclasses.dataclass(frozen=True, slots=True)
class CustomResources:
    """Custom resources created, changed and deleted in both versions, under webhooks and policies."""

    name: str = "custom resources"
    requests: int = 12
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, server: WebhookServer) -> World:
        """Draw a definition with a stored object, webhooks and policies."""
        namespace, group = f"w{suffix}", f"g{suffix}.example.com"
        by_webhook = random.random() < 0.75
        for version in _VERSIONS:
            resource = Resource(group, version, "things", "Thing")
            RESOURCES[resource.api_version, resource.kind] = resource
        objects = [
            made(NAMESPACES, namespace),
            made(SERVICE_ACCOUNTS, "default", namespace),
            _definition(random, group, server if by_webhook else None),
            _thing(random, f"{group}/v1", namespace, _STORED),
        ]
        for resource, paths in ((MUTATING_WEBHOOKS, _MUTATING), (VALIDATING_WEBHOOKS, _VALIDATING)):
            webhooks = []
            for number in range(random.choice((1, 2))):
                webhook = drawn_webhook(random, f"h{number}", f"{server.url}{random.choice(paths)}")
                webhook["clientConfig"]["caBundle"] = base64.b64encode(server.ca_bundle).decode()
                webhook["rules"] = [_rule(random, group)]
                webhook["matchPolicy"] = random.choice(("Exact", "Equivalent"))
                webhook.pop("matchConditions", None)
                webhooks.append(webhook)
            objects.append(made(resource, f"c-{suffix}", webhooks=webhooks))
        objects += _policies(random, suffix, group)
        return World(tuple(objects), namespace)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update or a deletion, in either version."""
        group = next(
            item["spec"]["group"] for item in world.objects if item["kind"] == "CustomResourceDefinition"
        )
        resource = RESOURCES[f"{group}/{random.choice(_VERSIONS)}", "Thing"]
        user, drawn = random.choice((User.ADMIN, User.AUTHOR)), random.random()
        if drawn < 0.15:
            return Request(user, "DELETE", resource, world.namespace, _STORED, {})
        name = f"t{random.randrange(99)}" if drawn < 0.6 else _STORED
        body = _thing(random, resource.api_version, world.namespace, name)
        if name != _STORED:
            return Request(user, "POST", resource, world.namespace, name, body)
        stored = next(item for item in world.objects if item["kind"] == "Thing")
        body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        return Request(user, "PUT", resource, world.namespace, name, body)


def _definition(random: Random, group: str, server: WebhookServer | None) -> JSONObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in _VERSIONS
    ]
    spec: JSONObject = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": versions,
    }
    if server is not None:
        bundle = base64.b64encode(server.ca_bundle).decode()
        path = random.choice((CONVERT, *CONVERTING))
        client = {"url": f"{server.url}{path}", "caBundle": bundle}
        accepted = random.choice((["v1"], ["v1", "v1beta1"], ["v1beta1"], ["v9", "v1"]))
        webhook = {"clientConfig": client, "conversionReviewVersions": accepted}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return made(DEFINITIONS, f"things.{group}", spec=spec)


def _thing(random: Random, api_version: str, namespace: str, name: str) -> JSONObject:
    labels = random.choice(({"app": "web"}, {"app": "web", "team": "db"}))
    spec = {"size": random.randrange(4), "names": random.choice((["a"], ["b", "c"]))}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": api_version, "kind": "Thing", "metadata": metadata, "spec": spec}


def _rule(random: Random, group: str) -> JSONObject:
    return {
        "apiGroups": [group],
        "apiVersions": random.choice((["v1"], ["v2"], ["v1", "v2"], ["*"])),
        "operations": random.choice((["*"], ["CREATE", "UPDATE"])),
        "resources": ["things"],
    }


def _policies(random: Random, suffix: str, group: str) -> list[JSONObject]:
    specs = []
    for _ in range(2):
        rule = _rule(random, group)
        if rule["operations"] == ["*"]:
            rule["operations"] = ["CREATE", "UPDATE"]
        policy = random.choice(("Exact", "Equivalent"))
        constraints = {"resourceRules": [rule], "matchPolicy": policy}
        specs.append({"matchConstraints": constraints, "failurePolicy": random.choice(("Fail", "Ignore"))})
    validations = [{"expression": expression} for expression in random.sample(_TRUTHS, 2)]
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": random.choice(_MUTATIONS)}}
    mutations = {"reinvocationPolicy": random.choice(("Never", "IfNeeded")), "mutations": [mutation]}
    name = f"p-{suffix}"
    actions = random.choice((["Deny"], ["Warn"]))
    return [
        made(VALIDATING_POLICIES, name, spec={**specs[0], "validations": validations}),
        made(VALIDATING_BINDINGS, name, spec={"policyName": name, "validationActions": actions}),
        made(MUTATING_POLICIES, name, spec={**specs[1], **mutations}),
        made(MUTATING_BINDINGS, name, spec={"policyName": name}),
    ]
