"""A family for custom resources of two versions, which the API server converts by itself or by a webhook.

Pratique calls no conversion webhooks. Where there is one, nothing asks for another version than that of the request.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from random import Random

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
from support.webhook_servers import Behaviour, Received, WebhookServer, answered

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


def _converted(received: Received) -> JSON:
    review = received.review
    wanted = review["request"]["desiredAPIVersion"]
    objects = [
        {**item, "apiVersion": wanted, "spec": {**item["spec"], "converted": True}}
        for item in review["request"]["objects"]
    ]
    response = {
        "uid": review["request"]["uid"],
        "convertedObjects": objects,
        "result": {"status": "Success"},
    }
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


CONVERTING: Mapping[str, Behaviour] = {CONVERT: answered(_converted)}
"""What the server does, by path."""


@dataclasses.dataclass(frozen=True, slots=True)
class CustomResources:
    """Custom resources created, changed and deleted in both versions, under webhooks and policies."""

    name: str = "custom resources"
    requests: int = 40
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, server: WebhookServer) -> World:
        """Draw a definition with a stored object, webhooks and policies."""
        namespace, group = f"w{suffix}", f"g{suffix}.example.com"
        by_webhook = random.random() < 0.5
        for version in _VERSIONS:
            resource = Resource(group, version, "things", "Thing")
            RESOURCES[resource.api_version, resource.kind] = resource
        objects = [
            made(NAMESPACES, namespace),
            made(SERVICE_ACCOUNTS, "default", namespace),
            _definition(group, server if by_webhook else None),
            _thing(random, f"{group}/v1", namespace, _STORED),
        ]
        for resource, paths in ((MUTATING_WEBHOOKS, _MUTATING), (VALIDATING_WEBHOOKS, _VALIDATING)):
            webhooks = []
            for number in range(random.choice((1, 2))):
                webhook = drawn_webhook(random, f"h{number}", f"{server.url}{random.choice(paths)}")
                webhook["clientConfig"]["caBundle"] = base64.b64encode(server.ca_bundle).decode()
                webhook["rules"] = [_rule(random, group)]
                webhook["matchPolicy"] = _match_policy(random, by_webhook=by_webhook)
                webhook.pop("matchConditions", None)
                webhooks.append(webhook)
            objects.append(made(resource, f"c-{suffix}", webhooks=webhooks))
        objects += _policies(random, suffix, group, by_webhook=by_webhook)
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


def _definition(group: str, server: WebhookServer | None) -> JSONObject:
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
        client = {"url": f"{server.url}{CONVERT}", "caBundle": bundle}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
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


def _match_policy(random: Random, *, by_webhook: bool) -> str:
    return "Exact" if by_webhook else random.choice(("Exact", "Equivalent"))


def _policies(random: Random, suffix: str, group: str, *, by_webhook: bool) -> list[JSONObject]:
    specs = []
    for _ in range(2):
        rule = _rule(random, group)
        if rule["operations"] == ["*"]:
            rule["operations"] = ["CREATE", "UPDATE"]
        policy = _match_policy(random, by_webhook=by_webhook)
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
