"""Canaries: texts that are to be found nowhere but where they were put, one for each position of a review."""

from __future__ import annotations

import base64
from typing import Any

PREFIX = "canary"
NAMED = ("name", "namespace", "username")
"""Positions that Kubernetes' own words of a refusal name; they may be in an answer, and nowhere else."""


def canary(position: str) -> str:
    """The canary of one position: in small letters and hyphens, so that it can stand where names do."""
    return f"{PREFIX}-{position}-7f3e"


CONFIGURED = ("token", "basic-password", "ledger-password", "cluster-secret", "broken-secret", "token-header")
"""Positions in what the operator configures, and in headers of clients."""


def review(mode: str, kind: str = "pods") -> dict[str, Any]:
    """The AdmissionReview of an update, with a canary in every text that its sender is free to choose."""
    pods = kind == "pods"
    document = _pod(mode) if pods else _secret(mode)
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
            "kind": {"group": "", "version": "v1", "kind": document["kind"]},
            "resource": {"group": "", "version": "v1", "resource": kind},
            "operation": "CREATE",
            "name": canary("name"),
            "namespace": canary("namespace"),
            "userInfo": {
                "username": canary("username"),
                "uid": canary("user-uid"),
                "groups": [canary("group")],
                "extra": {canary("extra-key"): [canary("extra-value")]},
            },
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {
                "apiVersion": "meta.k8s.io/v1",
                "kind": "CreateOptions",
                "fieldManager": canary("field-manager"),
            },
        },
    }


def update(mode: str) -> dict[str, Any]:
    """The same of an update, whose old object has canaries of its own."""
    document = review(mode, "secrets")
    old = _secret(mode)
    old["data"] = {canary("old-key"): _encoded("old-data")}
    old["metadata"]["annotations"] = {canary("old-annotation-key"): canary("old-annotation")}
    document["request"] |= {"operation": "UPDATE", "oldObject": old}
    return document


def nameless(mode: str) -> dict[str, Any]:
    """The review of a Secret whose object does not say what it is."""
    document = review(mode, "secrets")
    del document["request"]["object"]["kind"], document["request"]["object"]["apiVersion"]
    return document


def _metadata(mode: str) -> dict[str, Any]:
    return {
        "name": canary("name"),
        "namespace": canary("namespace"),
        "labels": {"mode": mode, canary("label-key"): canary("label")},
        "annotations": {canary("annotation-key"): canary("annotation")},
        "finalizers": [f"example.com/{canary('finalizer')}"],
        "managedFields": [{"manager": canary("manager"), "operation": "Update"}],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": canary("owner"), "uid": canary("owner-uid")}
        ],
    }


def _secret(mode: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(mode),
        "type": f"example.com/{canary('secret-type')}",
        "data": {canary("data-key"): _encoded("data")},
        "stringData": {canary("string-data-key"): canary("string-data")},
    }


def _pod(mode: str) -> dict[str, Any]:
    container = {
        "name": canary("container"),
        "image": canary("image"),
        "command": [canary("command")],
        "args": [canary("argument")],
        "workingDir": f"/{canary('working-dir')}",
        "env": [{"name": canary("env-name"), "value": canary("env-value")}],
        "envFrom": [{"secretRef": {"name": canary("env-from")}}],
        "volumeMounts": [{"name": canary("mount"), "mountPath": f"/{canary('mount-path')}"}],
        "livenessProbe": {
            "httpGet": {
                "port": 80,
                "httpHeaders": [{"name": canary("probe-header"), "value": canary("probe-value")}],
            }
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(mode),
        "spec": {
            "containers": [container],
            "initContainers": [{"name": canary("init"), "image": canary("init-image")}],
            "imagePullSecrets": [{"name": canary("pull-secret")}],
            "nodeSelector": {canary("node-key"): canary("node-value")},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [canary("host")]}],
            "volumes": [{"name": canary("mount"), "secret": {"secretName": canary("volume-secret")}}],
        },
        "status": {"message": canary("status-message")},
    }


def _encoded(position: str) -> str:
    return base64.b64encode(canary(position).encode()).decode()


def planted() -> set[str]:
    """Every canary that a review or a configuration holds."""
    texts = repr([review("allow"), update("allow")])
    pieces = texts.replace("'", " ").replace("/", " ").split()
    found = {piece for piece in pieces if piece.startswith(f"{PREFIX}-")}
    return found | {canary(position) for position in (*CONFIGURED, "data", "old-data", "exception")}


def found_in(text: str) -> set[str]:
    """The canaries that a text holds, be they encoded."""
    encoded = {canary(name): _encoded(name) for name in ("data", "old-data", "string-data")}
    return {one for one in planted() if one in text or encoded.get(one, one) in text}
