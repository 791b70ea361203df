"""Families for ImagePolicyWebhook: Pods whose images a backend allows, denies, or has no good answer about."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from random import Random

from differential.built_ins import create, pod
from differential.drawn_pods import pod_spec
from differential.pairs import NAMESPACES, PODS, SERVICE_ACCOUNTS, Request, Setup, User, World, made
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import Behaviour, Received, WebhookServer, answered, respond

BACKEND = "/images"
"""Where the webhooks' server stands in for the backend."""
_IMAGES = ("nginx", "allowed:1", "denied:1", "denied/why:2", "broken:1", "empty:1", "html:1", "noted:1")
_WHY = {"denied/why:2": "no such images\nhere", "denied:1": ""}


def _setup(*, default_allow: bool) -> Setup:
    policy: JSONObject = {
        "kubeConfigFile": "$FOLDER/backend.kubeconfig",
        "allowTTL": -1,
        "denyTTL": -1,
        "retryBackoff": 1,
        "defaultAllow": default_allow,
    }
    configuration: JSONObject = {"imagePolicy": policy}
    return Setup(("ImagePolicyWebhook", "AlwaysPullImages"), {"ImagePolicyWebhook": configuration})


_CLOSED, _OPEN = _setup(default_allow=False), _setup(default_allow=True)


@dataclasses.dataclass(frozen=True, slots=True)
class ImageReviews:
    """Pods with images of all kinds; nothing is cached, so that each one is asked about."""

    name: str = "ImagePolicyWebhook"
    requests: int = 40
    setup: Setup = _CLOSED

    def world(self, _random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a namespace with a Pod to change."""
        namespace = f"w{suffix}"
        spec: JSONObject = {"containers": [{"name": "c", "image": "nginx"}], "serviceAccountName": "default"}
        stored = made(PODS, "there", namespace, spec=spec)
        return World(
            (made(NAMESPACES, namespace), made(SERVICE_ACCOUNTS, "default", namespace), stored), namespace
        )

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update, or an ephemeral container."""
        drawn = random.random()
        if drawn < 0.75:
            return create(random, PODS, world.namespace, _drawn(random))
        body = next(item for item in world.objects if item["kind"] == "Pod")
        body = {name: body[name] for name in ("apiVersion", "kind", "spec")}
        body["metadata"] = {"name": "there", "namespace": world.namespace}
        image = random.choice(_IMAGES)
        if drawn < 0.9:
            containers = [{**body["spec"]["containers"][0], "image": image}]
            changed = {**body, "spec": {**body["spec"], "containers": containers}}
            return Request(User.AUTHOR, "PUT", PODS, world.namespace, "there", changed)
        extra = [{"name": "e", "image": image}]
        changed = {**body, "spec": {**body["spec"], "ephemeralContainers": extra}}
        return Request(User.AUTHOR, "PUT", PODS, world.namespace, "there", changed, "ephemeralcontainers")


@dataclasses.dataclass(frozen=True, slots=True)
class OpenImageReviews(ImageReviews):
    """The same, where the backend's silence lets Pods through."""

    name: str = "ImagePolicyWebhook, open by default"
    setup: Setup = _OPEN


def _drawn(random: Random) -> JSONObject:
    drawn = pod(random)
    spec = pod_spec(random)
    names = ("containers", "initContainers")
    drawn["spec"] = {name: spec[name] for name in names if name in spec}
    for name in names:
        for container in drawn["spec"].get(name, []):
            if random.random() < 0.7:
                container["image"] = random.choice(_IMAGES)
    if random.random() < 0.3:
        key = random.choice(("mine.image-policy.k8s.io/ticket", "image-policy.k8s.io/x", "other/x"))
        drawn["metadata"].setdefault("annotations", {})[key] = "1"
    return drawn


def _status(received: Received) -> JSON:
    review: JSONObject = received.review
    images = [container["image"] for container in review["spec"]["containers"]]
    reasons = [_WHY[image] for image in images if image in _WHY]
    status: JSONObject = {"allowed": not reasons}
    if reasons and reasons[0]:
        status["reason"] = reasons[0]
    if "noted:1" in images:
        status["auditAnnotations"] = {"seen": "yes", "bad key": "no"}
    return {"apiVersion": review["apiVersion"], "kind": "ImageReview", "status": status}


_ODD: Mapping[str, Behaviour] = {
    "broken:1": respond(500, b"broken"),
    "empty:1": respond(200, b"{}", content_type="application/json"),
    "html:1": respond(200, b"<html>hello</html>", content_type="text/html"),
}


async def review_images(received: Received, writer: asyncio.StreamWriter) -> None:
    """What the backend does: the first image that has an odd answer decides."""
    images = [container["image"] for container in received.review["spec"]["containers"]]
    odd = next((_ODD[image] for image in images if image in _ODD), None)
    await (odd or answered(_status))(received, writer)
