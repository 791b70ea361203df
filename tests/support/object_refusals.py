"""Why object validation refuses an object."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ANY_NAMESPACE, Cluster
from pratique.manifests.requests import review_of_manifest
from pratique.registry.object_validation import ObjectRefusedError, receive, store

_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()


def causes(
    manifest: JSONObject, old: JSONObject | None = None, cluster: Cluster = ANY_NAMESPACE
) -> list[str]:
    """The causes for which an object is refused, and after them its warnings."""
    operation = Operation.CREATE if old is None else Operation.UPDATE
    if old is not None:
        old = {**old, "metadata": {**old["metadata"], "resourceVersion": "1"}}
        manifest = {**manifest, "metadata": {"resourceVersion": "1", **manifest["metadata"]}}
    review = review_of_manifest(
        manifest,
        cluster.resources,
        operation=operation,
        old=old,
        cluster=cluster,
        object_validation=True,
    )
    try:
        return [f"warning: {text}" for text in store(receive(review), _NOW).warnings]
    except ObjectRefusedError as error:
        details = error.status.details
        return [f"{cause.field}: {cause.message}" for cause in details.causes] if details else []


def refusal(manifest: JSONObject, cluster: Cluster = ANY_NAMESPACE) -> tuple[int, Any] | None:
    """The code and the Status, as JSON, with which a new object is refused; None if it is not."""
    review = review_of_manifest(manifest, cluster.resources, cluster=cluster, object_validation=True)
    try:
        store(receive(review), _NOW)
    except ObjectRefusedError as error:
        return error.status.code, msgspec.to_builtins(error.status)
    return None
