"""Recordings for tests: reviews decided by a configuration, written as a front door writes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.http.codecs import decode_review
from pratique_frontdoor.recording.recorders import LineWriter, RecordedDecision
from support.pods import pod

PATIENCE_SECONDS = 120.0


def create(
    document: JSONObject, resource: str, group: str = "", uid: str = "u", **request: JSON
) -> JSONObject:
    """The AdmissionReview of a creation in namespace ``shop``."""
    kind = {"group": group, "version": "v1", "kind": document["kind"]}
    asked = {
        "uid": uid,
        "kind": kind,
        "resource": {"group": group, "version": "v1", "resource": resource},
        "operation": "CREATE",
        "name": document["metadata"].get("name", ""),
        "namespace": "shop",
        "userInfo": {"username": "jane"},
        "object": document,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}


def deployment(replicas: int = 1, name: str = "web", *env: JSON, **request: Any) -> JSONObject:
    """The creation of a Deployment."""
    containers = [{"name": "web", "image": "web:1", "env": list(env)}]
    spec = {"replicas": replicas, "template": {"spec": {"containers": containers}}}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    return create(document, "deployments", "apps", **request)


def pod_creation(name: str = "web", **request: Any) -> JSONObject:
    """The creation of a Pod."""
    return create(pod(name=name, namespace=""), "pods", **request)


def record(
    reviews: Sequence[JSONObject], to: Path, *config: Path, limit: int = 1 << 20, **chain: Any
) -> Path:
    """Decide reviews by a configuration, and write the recording."""
    settings = ChainSettings(config=config, **chain)

    async def decide() -> list[bytes]:
        store = load_cluster(settings.cluster)
        engine = open_local(settings, store)
        writer = LineWriter(b"k" * 32, limit)
        try:
            lines = []
            for each in reviews:
                received = decode_review(json.dumps(each).encode(), store)
                decision = await engine.decide(received.review, BOTH, Deadline.after(PATIENCE_SECONDS))
                lines.append(
                    writer.write(RecordedDecision(0.0, "/admit", BOTH, received, decision), "sha256:0")
                )
            return lines
        finally:
            await engine.close()

    to.write_bytes(b"".join(asyncio.run(decide())))
    return to


def written(folder: Path, name: str, *documents: JSONObject) -> Path:
    """Write documents to a file of that name."""
    file = folder / name
    file.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
    return file
