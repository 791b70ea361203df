"""Backends of ImagePolicyWebhook: real HTTPS servers that review images, well or badly, and kubeconfigs that name them.

They are :mod:`webhook_servers`, with another question and another answer.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import trustme

from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import Authority, Behaviour, Received, answered, authority


@functools.cache
def clients() -> Authority:
    """The authority of the callers' certificates, which a server may insist on."""
    return Authority()


@functools.cache
def client_certificate() -> trustme.LeafCert:
    """The certificate of the caller."""
    return clients().issue("kube-apiserver")


def encoded(content: bytes) -> str:
    """Bytes as a kubeconfig holds them."""
    return base64.b64encode(content).decode()


def certificate_user() -> JSONObject:
    """A kubeconfig's user that shows the caller's certificate."""
    certificate = client_certificate()
    return {
        "client-certificate-data": encoded(certificate.cert_chain_pems[0].bytes()),
        "client-key-data": encoded(certificate.private_key_pem.bytes()),
    }


def kubeconfig(url: str, *, user: JSONObject | None = None, cluster: JSONObject | None = None) -> JSONObject:
    """A kubeconfig that names a backend; it trusts the authority of the test servers unless told otherwise."""
    trusted = {"certificate-authority-data": encoded(authority().pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "images", "cluster": {"server": url, **(cluster or trusted)}}],
        "users": [{"name": "caller", "user": certificate_user() if user is None else user}],
        "contexts": [{"name": "images", "context": {"cluster": "images", "user": "caller"}}],
        "current-context": "images",
    }


def written(folder: Path, document: JSONObject) -> str:
    """The path of a file that holds a kubeconfig."""
    file = folder / "kubeconfig.json"
    file.write_text(json.dumps(document))
    return str(file)


def images_of(received: Received) -> list[str]:
    """The images that a backend is asked about."""
    return [container.get("image", "") for container in received.review["spec"].get("containers", ())]


def review(**status: JSON) -> JSONObject:
    """An ImageReview as a backend answers with it."""
    return {"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": status}


def judging(judge: Callable[[list[str]], JSONObject]) -> Behaviour:
    """Answer by the images."""
    return answered(lambda received: review(**judge(images_of(received))))


def good_only() -> Behaviour:
    """Allow what has only images called ``good``."""
    return judging(
        lambda images: (
            {"allowed": True} if set(images) == {"good"} else {"allowed": False, "reason": "not allowed"}
        )
    )


def verdict(**status: JSON) -> Behaviour:
    """Answer always the same."""
    return judging(lambda _: status)


# Backends that mean no good.


def dripping(head: bytes, piece: bytes, seconds: float = 0.01) -> Behaviour:
    """Begin an answer, and go on with it a little at a time, for ever; without a pause where it takes 0 seconds."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _turn in itertools.count():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(seconds)

    return behave
