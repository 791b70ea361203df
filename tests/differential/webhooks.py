"""A family for webhooks: configurations of all kinds, and servers that answer in all ways."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from random import Random

from differential.built_ins import pod
from differential.drawn_expressions import condition
from differential.pairs import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    USUAL,
    VALIDATING_WEBHOOKS,
    Request,
    Setup,
    World,
    made,
)
from differential.plain_requests import config_map, plain_request
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import (
    Behaviour,
    Received,
    WebhookServer,
    allowed,
    answered,
    denied,
    patched,
    respond,
)

_LABELS = "/metadata/labels"


def _patch(*operations: JSONObject) -> Behaviour:
    return patched(list(operations))


def _added(received: Received) -> JSON:
    """A label that another run replaces, whether or not the object has labels."""
    review = received.review
    request = review["request"]
    labels = (request.get("object") or {}).get("metadata", {}).get("labels")
    operations = [] if labels else [{"op": "add", "path": _LABELS, "value": {}}]
    operations.append({"op": "add", "path": f"{_LABELS}/added", "value": received.path.strip("/")})
    patch = base64.b64encode(str(operations).replace("'", '"').encode()).decode()
    response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


_CALM: Mapping[str, Behaviour] = {
    "/allow": allowed(),
    "/warn": allowed(warnings=["first", "second\nline", ""]),
    "/audit": allowed(auditAnnotations={"seen": "yes", "bad key": "no"}),
    "/deny": denied("not today"),
    "/deny-silently": denied(),
    "/deny-404": denied(status={"code": 404, "message": "gone", "reason": "NotFound"}),
    "/deny-200": denied(status={"code": 200, "message": "strange"}),
    "/deny-warning": denied("no", warnings=["and mind this"]),
    "/deny-reason": denied(
        status={"reason": "Because", "details": {"causes": [{"message": "c", "field": "f"}]}}
    ),
    "/wrong-uid": allowed(uid="another"),
    "/not-json": respond(200, b"hello"),
    "/empty": respond(200, b"{}", content_type="application/json"),
    "/list": respond(200, b'{"kind":"List","response":{"allowed":true}}'),
    "/500": respond(500, b"broken"),
    "/404": respond(404, b"nothing here"),
    "/302": respond(302, headers={"Location": "https://localhost/elsewhere"}),
}
_PATCHING: Mapping[str, Behaviour] = {
    "/label": answered(_added),
    "/label-too": answered(_added),
    "/side": _patch(
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}
    ),
    "/image": _patch({"op": "replace", "path": "/spec/containers/0/image", "value": "changed:1"}),
    "/remove": _patch({"op": "remove", "path": "/metadata/labels/app"}),
    "/test": _patch({"op": "test", "path": "/metadata/name", "value": "there"}),
    "/wrong-type": _patch({"op": "add", "path": _LABELS, "value": "x"}),
    "/wrong-label": _patch({"op": "add", "path": f"{_LABELS}", "value": {"a": 1}}),
    "/unknown": _patch({"op": "add", "path": "/spec/nothing", "value": 1}),
    "/kind": _patch({"op": "replace", "path": "/kind", "value": "Secret"}),
    "/name": _patch({"op": "replace", "path": "/metadata/name", "value": "other"}),
    "/not-a-patch": allowed(patchType="JSONPatch", patch=base64.b64encode(b"{}").decode()),
    "/no-type": allowed(patch=base64.b64encode(b"[]").decode()),
    "/deny-with-patch": denied("no", patchType="JSONPatch", patch=base64.b64encode(b"[]").decode()),
    "/null": _patch({"op": "add", "path": "/metadata/annotations", "value": {"a": None}}),
}
BEHAVIOURS: Mapping[str, Behaviour] = {**_CALM, **_PATCHING}
"""What the server does, by path."""
_COMMON = ("/allow", "/warn", "/label", "/label-too", "/side", "/deny", "/audit")


@dataclasses.dataclass(frozen=True, slots=True)
class Webhooks:
    """Creations, updates and deletions with a few webhooks of both kinds."""

    name: str = "webhooks"
    requests: int = 20
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, server: WebhookServer) -> World:
        """Draw a namespace, and webhook configurations for it."""
        namespace = f"w{suffix}"
        labels = random.choice(({}, {"env": "prod"}))
        objects = [
            made(NAMESPACES, namespace, metadata={"labels": labels}),
            made(SERVICE_ACCOUNTS, "default", namespace),
            config_map(namespace),
        ]
        for resource, paths in ((MUTATING_WEBHOOKS, BEHAVIOURS), (VALIDATING_WEBHOOKS, _CALM)):
            for number in range(random.choice((1, 1, 2))):
                webhooks = [
                    _webhook(random, f"h{index}", tuple(paths), namespace, server)
                    for index in range(random.choice((1, 1, 2)))
                ]
                if resource is MUTATING_WEBHOOKS:
                    for webhook in webhooks:
                        webhook["reinvocationPolicy"] = random.choice(("Never", "IfNeeded"))
                objects.append(made(resource, f"c{number}-{suffix}", webhooks=webhooks))
        return World(tuple(objects), namespace)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update or a deletion."""
        return plain_request(random, world, _plain_pod)


def _webhook(
    random: Random, name: str, paths: tuple[str, ...], namespace: str, server: WebhookServer
) -> JSONObject:
    chosen = random.choice([path for path in _COMMON if path in paths]) if random.random() < 0.5 else None
    webhook = drawn_webhook(random, name, f"{server.url}{chosen or random.choice(paths)}")
    webhook["clientConfig"]["caBundle"] = base64.b64encode(server.ca_bundle).decode()
    only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}
    webhook["namespaceSelector"]["matchExpressions"].append(only)
    return webhook


def drawn_webhook(random: Random, name: str, url: str) -> JSONObject:
    """A webhook of any configuration."""
    expressions: list[JSON] = []
    if random.random() < 0.15:
        expressions.append({"key": "env", "operator": random.choice(("Exists", "DoesNotExist"))})
    webhook: JSONObject = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url},
        "rules": [_rule(random)],
        "namespaceSelector": {"matchExpressions": expressions},
        "sideEffects": random.choice(("None", "None", "NoneOnDryRun")),
        "admissionReviewVersions": random.choice((["v1"], ["v1", "v1beta1"], ["v1beta1"], ["v9", "v1"])),
        "failurePolicy": random.choice(("Fail", "Ignore")),
        "timeoutSeconds": random.choice((5, 10)),
    }
    if random.random() < 0.2:
        webhook["objectSelector"] = {"matchLabels": {"app": "web"}}
    if random.random() < 0.3:
        webhook["matchConditions"] = [{"name": "c", "expression": condition(random)}]
    if random.random() < 0.3:
        webhook["matchPolicy"] = random.choice(("Exact", "Equivalent"))
    return webhook


def _plain_pod(random: Random) -> JSONObject:
    """A Pod that plugins have little to say of."""
    drawn = pod(random)
    names = ("containers", "tolerations", "nodeSelector", "terminationGracePeriodSeconds")
    drawn["spec"] = {name: value for name, value in drawn["spec"].items() if name in names}
    return drawn


def _rule(random: Random) -> JSONObject:
    rule: JSONObject = {
        "apiGroups": random.choice(([""], ["*"], ["", "apps"])),
        "apiVersions": random.choice((["v1"], ["*"], ["v1beta1"])),
        "operations": random.choice((["CREATE"], ["CREATE", "UPDATE"], ["*"], ["DELETE"])),
        "resources": random.choice(
            (["pods"], ["*"], ["pods", "configmaps"], ["*/*"], ["deployments", "pods"])
        ),
    }
    if random.random() < 0.3:
        rule["scope"] = random.choice(("Namespaced", "*", "Cluster"))
    return rule
