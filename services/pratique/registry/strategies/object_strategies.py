"""What the strategies of single kinds fill in, keep and drop.

Sources: ``PrepareForCreate`` and ``PrepareForUpdate`` in ``pkg/registry/*/*/strategy.go`` of Kubernetes 1.37, and of
``k8s.io/apiextensions-apiserver`` and ``k8s.io/kube-aggregator``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.json_values import JSON, Document, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.conversion import convert
from pratique.cluster.go_types import GoType, go_type_of_kind
from pratique.manifests.registry_strategies import name_of_created
from pratique.registry.defaults.defaulting import with_defaults
from pratique.registry.defaults.round_trips import template_generation, with_template_generation
from pratique.registry.go_values import semantically_equal
from pratique.registry.strategies import pod_strategies, service_strategies

Strategy: TypeAlias = Callable[[Review, JSONObject, JSONObject | None], JSONObject]
"""Prepares an object of a review, given the stored one if it is updated; metadata and status are prepared already."""


def same_at(kind: GroupVersionKind, path: tuple[str, ...], one: JSONObject, other: JSONObject) -> bool:
    """Compare a field of two objects of a built-in kind as ``apiequality.Semantic.DeepEqual`` does."""
    type_ = _type_at(kind, path)
    values = member(one, *path), member(other, *path)
    return bool(values[0] == values[1]) if type_ is None else semantically_equal(type_, *values)


@functools.cache
def _type_at(kind: GroupVersionKind, path: tuple[str, ...]) -> GoType | None:
    found = go_type_of_kind(kind)
    for name in path:
        field = None if found is None else found.fields.get(name)
        found = None if field is None else field.type
    return found


def _created_at(written: JSONObject) -> JSON:
    return member(written, "metadata", "creationTimestamp")


def _pod(_: Review, pod: JSONObject, stored: JSONObject | None) -> JSONObject:
    return pod_strategies.created_pod(pod) if stored is None else pod_strategies.updated_pod(pod, stored)


def _service(_: Review, service: JSONObject, stored: JSONObject | None) -> JSONObject:
    if stored is None:
        return service_strategies.created_service(service)
    return service_strategies.updated_service(service, stored)


def _template(*path: str) -> Strategy:
    """A kind with a template of Pods."""

    def prepared(_: Review, written: JSONObject, stored: JSONObject | None) -> JSONObject:
        template = member(written, *path)
        if not isinstance(template, dict):
            return written
        changed = pod_strategies.without_init_container_annotations(template)
        return written if changed is template else _with_value(written, path, changed)

    return prepared


def _with_value(written: JSONObject, path: tuple[str, ...], value: JSON) -> JSONObject:
    name, *rest = path
    inner = _with_value(mapping_at(written, name), tuple(rest), value) if rest else value
    return {**written, name: inner}


_with_template = _template("spec", "template")


def _daemon_set(review: Review, daemon_set: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Count the changes of the template."""
    daemon_set = _with_template(review, daemon_set, stored)
    if stored is None:
        generation = template_generation(daemon_set)
        return daemon_set if generation is None else with_template_generation(daemon_set, max(generation, 1))
    generation = template_generation(stored) or 0
    is_same = same_at(review.kind, ("spec", "template"), daemon_set, stored)
    return with_template_generation(daemon_set, generation + (not is_same))


def _job(review: Review, job: JSONObject, stored: JSONObject | None) -> JSONObject:
    job = _with_template(review, job, stored)
    if stored is not None:
        return job
    return pod_strategies.with_selector_of_job(job, name_of_created(review, job))


_FINALIZER = "kubernetes"


def _namespace(_: Review, namespace: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Add the finalizer that keeps a Namespace until it is empty; only a subresource takes finalizers away."""
    spec = mapping_at(namespace, "spec")
    if stored is not None:
        kept = {name: value for name, value in spec.items() if name != "finalizers"}
        finalizers = list_at(stored, "spec", "finalizers")
        return {**namespace, "spec": kept | ({"finalizers": finalizers} if finalizers else {})}
    finalizers = list_at(namespace, "spec", "finalizers")
    if _FINALIZER not in finalizers:
        finalizers = [*finalizers, _FINALIZER]
    return {**namespace, "spec": {**spec, "finalizers": finalizers}, "status": {"phase": "Active"}}


def _persistent_volume(_: Review, volume: JSONObject, stored: JSONObject | None) -> JSONObject:
    if stored is not None:
        return volume
    status = {"phase": "Pending", "lastPhaseTransitionTime": _created_at(volume)}
    return {**volume, "status": status}


def _claim(_: Review, claim: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Keep both fields that say where the data come from the same: ``NormalizeDataSources``."""
    spec = mapping_at(claim, "spec")
    if stored is None:
        claim = {**claim, "status": {"phase": "Pending"}}
    if spec.get("dataSource") is None and spec.get("dataSourceRef") is None:
        return claim
    old = mapping_at(stored, "spec") if stored is not None else {}
    return {**claim, "spec": _with_data_sources(_without_unknown_sources(spec, old))}


_SOURCES = frozenset({("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")})


def _without_unknown_sources(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Drop sources in other namespaces, and those that ``dataSource`` never could name.

    Source: ``EnforceDataSourceBackwardsCompatibility``.
    """
    dropped = set()
    if member(spec, "dataSourceRef", "namespace") and old.get("dataSourceRef") is None:
        dropped.add("dataSourceRef")
    source, has_reference = spec.get("dataSource"), spec.get("dataSourceRef") is not None
    if source is not None and old.get("dataSource") is None and (not has_reference or dropped):
        named = (member(source, "kind"), member(source, "apiGroup") or "")
        dropped |= set() if named in _SOURCES else {"dataSource"}
    return {name: value for name, value in spec.items() if name not in dropped} if dropped else spec


def _with_data_sources(spec: JSONObject) -> JSONObject:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        return {**spec, "dataSourceRef": dict(source)}
    if reference is not None and source is None and not reference.get("namespace"):
        local = {name: value for name, value in reference.items() if name != "namespace"}
        return {**spec, "dataSource": local}
    return spec


def _service_account(_: Review, account: JSONObject, _stored: JSONObject | None) -> JSONObject:
    """Keep only the names of secrets."""
    secrets = account.get("secrets")
    if not secrets or all(set(secret) <= {"name"} for secret in secrets):
        return account
    named = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]
    return {**account, "secrets": named}


def _limit_range(review: Review, limits: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Name a LimitRange that has no name by a uid."""
    metadata = mapping_at(limits, "metadata")
    if stored is not None or metadata.get("name") or metadata.get("generateName"):
        return limits
    return {**limits, "metadata": {**metadata, "name": metadata.get("uid")}}


def _node(_: Review, node: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Drop what was dynamic configuration of kubelets, unless the Node still has it."""
    spec = mapping_at(node, "spec")
    if "configSource" not in spec or (stored is not None and member(stored, "spec", "configSource")):
        return node
    return {**node, "spec": {name: value for name, value in spec.items() if name != "configSource"}}


_SIGNING_REQUESTER = ("username", "uid", "groups", "extra")


def _signing_request(review: Review, request: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Say who asks for a certificate; what was asked for never changes."""
    if stored is not None:
        return {**request, "spec": mapping_at(stored, "spec")}
    user = review.user
    asking: JSONObject = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }
    spec = mapping_at(request, "spec")
    kept = {name: value for name, value in spec.items() if name not in _SIGNING_REQUESTER}
    return {**request, "spec": kept | {name: value for name, value in asking.items() if value}}


def _endpoint_slice(review: Review, endpoints: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Drop the topology of v1beta1 from endpoints that changed: ``dropTopologyOnV1``."""
    written = list_at(endpoints, "endpoints")
    if not any(isinstance(one, dict) and "deprecatedTopology" in one for one in written):
        return endpoints
    if stored is not None and same_at(review.kind, ("endpoints",), stored, endpoints):
        return endpoints
    kept = [{name: value for name, value in one.items() if name != "deprecatedTopology"} for one in written]
    return {**endpoints, "endpoints": kept}


_NEWEST_AUTOSCALER = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")


def stored_autoscaler(review: Review, autoscaler: JSONObject) -> JSONObject:
    """An autoscaler as it is read from the store: with the defaults of the version in which it is stored."""
    change = functools.partial(convert, resource=review.resource, cluster=review.cluster)
    try:
        newest = change(Document.from_data(autoscaler), kind=_NEWEST_AUTOSCALER).data
        filled = Document.from_data(with_defaults(_NEWEST_AUTOSCALER, newest))
        written: JSONObject = change(filled, kind=review.kind).data
    except ConversionError:
        return autoscaler
    return written


def _definition(_: Review, definition: JSONObject, _stored: JSONObject | None) -> JSONObject:
    """Note the version in which custom resources are stored now."""
    stored_versions = list_at(definition, "status", "storedVersions")
    versions = list_at(definition, "spec", "versions")
    current = next(
        (member(version, "name") or "" for version in versions if member(version, "storage")), None
    )
    if current is None or current in stored_versions:
        return definition
    status = mapping_at(definition, "status") | {"storedVersions": [*stored_versions, current]}
    return {**definition, "status": status}


def _api_service(_: Review, service: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Call an APIService that the API server itself serves available."""
    if stored is not None or member(service, "spec", "service") is not None:
        return service
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": _created_at(service),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    return {**service, "status": {"conditions": [available]}}


def _taint_rule(_: Review, rule: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Note the time at which the effect of a taint changed."""
    if stored is None:
        return rule
    taint, old = mapping_at(rule, "spec", "taint"), mapping_at(stored, "spec", "taint")
    if taint.get("effect") == old.get("effect") or taint.get("timeAdded") != old.get("timeAdded"):
        return rule
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _with_value(rule, ("spec", "taint", "timeAdded"), now)


_DISRUPTION_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
_IMPOSSIBLE: JSONObject = {"matchExpressions": [{"key": _DISRUPTION_LABEL, "operator": "Exists"}]}
_EMPTY_V1BETA1: JSONObject = {"matchExpressions": [{"key": _DISRUPTION_LABEL, "operator": "DoesNotExist"}]}


def _disruption_budget(review: Review, budget: JSONObject, stored: JSONObject | None) -> JSONObject:
    """Drop the label that stands for empty selectors of v1beta1 among others."""
    selector = member(budget, "spec", "selector")
    expressions = list_at(selector, "matchExpressions")
    if not any(member(expression, "key") == _DISRUPTION_LABEL for expression in expressions):
        return budget
    unchanged = stored is not None and same_at(review.kind, ("spec", "selector"), stored, budget)
    if unchanged or selector in (_IMPOSSIBLE, _EMPTY_V1BETA1):
        return budget
    kept = [one for one in expressions if member(one, "key") != _DISRUPTION_LABEL]
    return _with_value(budget, ("spec", "selector", "matchExpressions"), kept)


STRATEGIES: Mapping[tuple[str, str], Strategy] = {
    ("", "limitranges"): _limit_range,
    ("", "namespaces"): _namespace,
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _persistent_volume,
    ("", "pods"): _pod,
    ("", "podtemplates"): _template("template"),
    ("", "replicationcontrollers"): _with_template,
    ("", "serviceaccounts"): _service_account,
    ("", "services"): _service,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _definition,
    ("apiregistration.k8s.io", "apiservices"): _api_service,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _with_template,
    ("apps", "replicasets"): _with_template,
    ("apps", "statefulsets"): _with_template,
    ("batch", "cronjobs"): _template("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): _job,
    ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
    ("discovery.k8s.io", "endpointslices"): _endpoint_slice,
    ("policy", "poddisruptionbudgets"): _disruption_budget,
    ("resource.k8s.io", "devicetaintrules"): _taint_rule,
}
"""By group and resource."""
