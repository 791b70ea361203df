"""Requests to subresources, for the family ``objects``: what controllers, kubelets and schedulers send."""

from __future__ import annotations

import copy
import functools
from pathlib import Path as FilePath
from random import Random

import yaml

from differential.drawn_changes import change
from differential.pairs import Request, User, resource_of
from pratique.admission.subresources import subresource_object
from pratique.apimachinery.json_values import JSONObject, mapping_at
from pratique.cluster.api_resources import built_in_resources

_STATUSES = FilePath(__file__).with_name("base_statuses.yaml")
_SCALED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
_OF_PODS = ("resize", "ephemeralcontainers", "binding", "eviction")
_KEPT = frozenset(
    {("apiVersion",), ("kind",), ("metadata",)}
    | {("metadata", name) for name in ("namespace", "name", "uid", "resourceVersion")}
)


_LATER = {
    "eviction": ("deleteOptions", ("orphanDependents", "preconditions", "propagationPolicy")),
}
"""Fields that an API server asks about once admission is over."""
_WEBHOOK = {
    "kind": "ValidatingWebhookConfiguration",
    "apiVersion": "admissionregistration.k8s.io/v1",
    "name": "x",
}
_BONDS: tuple[JSONObject, ...] = (
    {},
    {},
    {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
    {"boundObjectRef": _WEBHOOK, "attestations": {"admissionReviewAPIGroups": ["*"]}},
)
"""What tokens are bound to; what may be bound to is asked for once admission is over."""
_UNBOUND = frozenset({"Node", "Pod", "Secret"})


@functools.cache
def _statuses() -> dict[str, list[JSONObject]]:
    found: dict[str, list[JSONObject]] = {}
    for written in yaml.safe_load_all(_STATUSES.read_text()):
        found.setdefault(written["kind"], []).append(written["status"])
    return found


def with_status(random: Random, body: JSONObject) -> JSONObject:
    """An object with a status of its kind, some of the time; the same one if none is known."""
    statuses = _statuses().get(body["kind"])
    if not statuses or random.random() < 0.4:
        return body
    return body | {"status": copy.deepcopy(random.choice(statuses))}


def subresource_request(random: Random, there: list[JSONObject]) -> tuple[Request, JSONObject | None]:
    """A request to a subresource of what is there, with what is stored if it is an update."""
    old = random.choice([item for item in there if _subresources(item["kind"])])
    subresource = random.choice(_subresources(old["kind"]))
    if subresource == "binding" and old["spec"].get("schedulingGates"):
        subresource = "eviction"
    resource = resource_of(old["apiVersion"], old["kind"])
    name, namespace = old["metadata"]["name"], old["metadata"].get("namespace", "")
    body = _sent(random, old, subresource)
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        _, body = change(random, body, _KEPT)
    holder, fields = _LATER.get(subresource, ("", ()))
    for field in fields:
        mapping_at(body, holder).pop(field, None)
    if subresource == "token" and str(mapping_at(body, "spec", "boundObjectRef").get("kind")) in _UNBOUND:
        del body["spec"]["boundObjectRef"]
    is_created = subresource in {"binding", "eviction", "token"}
    method = "POST" if is_created else "PUT"
    request = Request(User.ADMIN, method, resource, namespace, name, body, subresource)
    return request, None if is_created else old


def _subresources(kind: str) -> tuple[str, ...]:
    found: tuple[str, ...] = ("status",) if kind in _statuses() else ()
    found += ("scale",) if kind in _SCALED else ()
    found += _OF_PODS if kind == "Pod" else ()
    found += ("finalize",) if kind == "Namespace" else ()
    found += ("approval",) if kind == "CertificateSigningRequest" else ()
    return found + (("token",) if kind == "ServiceAccount" else ())


def _sent(random: Random, old: JSONObject, subresource: str) -> JSONObject:
    body = copy.deepcopy(old)
    match subresource:
        case "status" | "approval":
            return with_status(random, body)
        case "scale" | "eviction":
            at = resource_of(old["apiVersion"], old["kind"])
            (type_,) = (
                known
                for known in built_in_resources()
                if known.subresource == subresource
                and (known.resource.group, known.resource.version, known.resource.resource)
                == (at.group, at.version, at.plural)
            )
            return subresource_object(type_, body)
        case "binding":
            metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
            target = {"kind": "Node", "name": "n"}
            return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        case "token":
            spec = {"audiences": ["a"], "expirationSeconds": 3600, **copy.deepcopy(random.choice(_BONDS))}
            return {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "metadata": {},
                "spec": spec,
            }
        case "ephemeralcontainers":
            container = {"name": "debug", "image": "x", "targetContainerName": "c"}
            body["spec"].setdefault("ephemeralContainers", []).append(container)
        case "resize":
            resources = body["spec"]["containers"][0].setdefault("resources", {})
            resources.setdefault("requests", {})["cpu"] = random.choice(("100m", "200m", "2"))
    return body
