"""What becomes of an object that is converted to Kubernetes' internal version of its kind and back.

An API server does so with every object: in the internal version, some fields stand for others.

Sources: ``pkg/apis/{core,apps}/v1/conversion.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template."""
_ROLLBACK_TO = "deprecated.deployment.rollback.to"


def converted_back(kind: GroupVersionKind, written: JSONObject) -> JSONObject:
    """An object of a built-in kind as it is after both conversions; the same one if nothing changes."""
    change = _ROUND_TRIPS.get((kind.group, kind.version, kind.kind))
    return written if change is None else change(written)


def _secret(secret: JSONObject) -> JSONObject:
    """Encode texts among the data."""
    if "stringData" not in secret:
        return secret
    texts = {
        name: base64.b64encode(text.encode()).decode() for name, text in (secret["stringData"] or {}).items()
    }
    kept = {name: value for name, value in secret.items() if name != "stringData"}
    return {**kept, "data": {**(secret.get("data") or {}), **texts}} if texts else kept


def _node(node: JSONObject) -> JSONObject:
    """Keep the first range of addresses of a Node the same in both fields."""
    spec = node.get("spec") or {}
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        return {**node, "spec": {**spec, "podCIDRs": [first]}}
    if ranges and ranges[0] and not first:
        return {**node, "spec": {**spec, "podCIDR": ranges[0]}}
    return node


_CLAIM: JSONObject = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _stateful_set(stateful_set: JSONObject) -> JSONObject:
    """Name the kind of the templates of claims."""
    spec = stateful_set.get("spec") or {}
    claims = spec.get("volumeClaimTemplates") or []
    if all(claim.get("kind") == _CLAIM["kind"] and claim.get("apiVersion") == "v1" for claim in claims):
        return stateful_set
    return {
        **stateful_set,
        "spec": {**spec, "volumeClaimTemplates": [{**claim, **_CLAIM} for claim in claims]},
    }


_NO_UPDATE: JSONObject = {"maxUnavailable": 0, "maxSurge": 0}


def _daemon_set(daemon_set: JSONObject) -> JSONObject:
    """Count the changes of the template, and say both numbers of a rolling update, even of one that is not made."""
    spec = daemon_set.get("spec") or {}
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if rolling is not None and any(rolling.get(name) is None for name in _NO_UPDATE):
        given = {name: value for name, value in rolling.items() if value is not None}
        strategy = {**strategy, "rollingUpdate": {**_NO_UPDATE, **given}}
        daemon_set = {**daemon_set, "spec": {**spec, "updateStrategy": strategy}}
    generation = template_generation(daemon_set)
    return daemon_set if generation is None else with_template_generation(daemon_set, generation)


def template_generation(daemon_set: JSONObject) -> int | None:
    """How often the template of a DaemonSet has changed; None if what is written is no number."""
    annotations = (daemon_set.get("metadata") or {}).get("annotations") or {}
    written = annotations.get(TEMPLATE_GENERATION)
    if written is None:
        return 0
    try:
        return parse_int64(written)
    except ValueError:
        return None


def with_template_generation(daemon_set: JSONObject, generation: int) -> JSONObject:
    """The DaemonSet with another count of the changes of its template."""
    metadata = daemon_set.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if annotations.get(TEMPLATE_GENERATION) == str(generation):
        return daemon_set
    annotations = {**annotations, TEMPLATE_GENERATION: str(generation)}
    return {**daemon_set, "metadata": {**metadata, "annotations": annotations}}


def _deployment(deployment: JSONObject) -> JSONObject:
    """Write the revision to roll back to as a number, and leave it out if it is empty."""
    metadata = deployment.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    revision = annotations.get(_ROLLBACK_TO)
    kept = {name: value for name, value in annotations.items() if name != _ROLLBACK_TO}
    try:
        if revision:
            kept[_ROLLBACK_TO] = str(parse_int64(revision))
    except ValueError:
        return deployment
    return (
        deployment if kept == annotations else {**deployment, "metadata": {**metadata, "annotations": kept}}
    )


_ROUND_TRIPS: Mapping[tuple[str, str, str], Callable[[JSONObject], JSONObject]] = {
    ("", "v1", "Node"): _node,
    ("", "v1", "Secret"): _secret,
    ("apps", "v1", "DaemonSet"): _daemon_set,
    ("apps", "v1", "Deployment"): _deployment,
    ("apps", "v1", "StatefulSet"): _stateful_set,
}
