"""Pods and their containers, made short for tests."""

from __future__ import annotations

from collections.abc import Mapping

from pratique.apimachinery.json_values import JSON, JSONObject


def container(name: str = "app", image: str = "app:1", **fields: JSON) -> JSONObject:
    """A container with these fields."""
    return {"name": name, "image": image, **fields}


def pod(
    *containers: JSONObject,
    name: str = "web",
    namespace: str = "shop",
    labels: Mapping[str, str] | None = None,
    annotations: JSON = None,
    metadata: Mapping[str, JSON] | None = None,
    **spec: JSON,
) -> JSONObject:
    """A Pod with these containers, or with one if you name none.

    ``metadata`` adds fields to its metadata, and replaces those of the same name. An empty namespace is left out.
    """
    written: JSONObject = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **({} if labels is None else {"labels": dict(labels)}),
        **({} if annotations is None else {"annotations": annotations}),
        **(metadata or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": written,
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def pod_with_metadata(**metadata: JSON) -> JSONObject:
    """A Pod that has only this metadata."""
    return {**pod(), "metadata": metadata}
