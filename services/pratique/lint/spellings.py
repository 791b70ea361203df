"""Spellings from old documentation that a release of Kubernetes does not read.

An API server silently stores such an annotation or key, and silently drops such a field. Its author believes that it
has an effect, so every command that reads files warns about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster
from pratique.configuration.settings import CURRENT_RELEASE, Release
from pratique.controllers.default_toleration_seconds import ALPHA_KEYS, NOT_READY, UNREACHABLE
from pratique.controllers.pod_security.pods import WORKLOADS

_NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
_ANNOTATIONS = {
    "scheduler.kubernetes.io/node-selector": _NODE_SELECTOR,
    "scheduler.kubernetes.io/nodeSelector": _NODE_SELECTOR,
}
"""Namespace annotations that Kubernetes' documentation gave up to 1.10 and no release has read, and the right ones."""

_TOLERATIONS = (
    "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
)
"""Namespace annotations that hold tolerations as JSON text."""

_ALPHA_TAINTS = dict(zip(ALPHA_KEYS, (NOT_READY, UNREACHABLE), strict=True))
"""The taint keys of 1.6 to 1.8, and those that replaced them in 1.9."""

_ALPHA_TAINTS_UNTIL = Release(1, 8)

_EXECUTION = "requiredDuringSchedulingRequiredDuringExecution"
_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
"""The field that exists, instead of the former, which the documentation gave and no release has had."""

_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_TEMPLATES: Mapping[str, tuple[str, ...]] = dict(WORKLOADS.values())
_CHECKED_RESOURCES = (("", "namespaces"), ("", "nodes"), ("", "pods"), *WORKLOADS)


def unread_spellings(document: JSON, release: Release | None) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Yield the path and the problem of each spelling in an object that the release does not read.

    None means the current release.
    """
    if not isinstance(document, dict):
        return
    kind = document.get("kind")
    if kind == "Namespace":
        yield from _in_namespace(document, release)
    elif kind == "Node":
        yield from _in_keys(document, ("spec", "taints"), release)
    elif kind == "Pod":
        yield from _in_pod(document, (), release)
    elif isinstance(kind, str) and kind in _TEMPLATES:
        yield from _in_pod(document, _TEMPLATES[kind], release)


def unread_in_cluster(cluster: Cluster, release: Release | None) -> Iterator[str]:
    """Yield such spellings in the objects of a cluster, one line each, with the object's name."""
    for group, resource in _CHECKED_RESOURCES:
        for document in cluster.list(group, resource):
            name, namespace = (member(document, "metadata", field) for field in ("name", "namespace"))
            owner = f"{kind_of(document).kind} {go_quoted(f'{namespace}/{name}' if namespace else str(name))}"
            for path, problem in unread_spellings(document, release):
                yield f"{owner}: {FieldPath(path)}: {problem}"


def unread_in_settings(configurations: Mapping[str, JSON], release: Release | None) -> Iterator[str]:
    """Yield such spellings in the settings of controllers, one line each, with the controller's name."""
    restriction = configurations.get("PodTolerationRestriction")
    for field in ("default", "whitelist"):
        for path, problem in _in_keys(restriction, (field,), release):
            yield f"the configuration of PodTolerationRestriction: {FieldPath(path)}: {problem}"


def _in_namespace(namespace: JSON, release: Release | None) -> Iterator[tuple[tuple[Step, ...], str]]:
    path = ("metadata", "annotations")
    annotations = member(namespace, *path)
    if not isinstance(annotations, dict):
        return
    for name, right in _ANNOTATIONS.items():
        if name in annotations:
            yield (*path, name), f"no release of Kubernetes reads this annotation; write {go_quoted(right)}"
    for name in _TOLERATIONS:
        yield from (
            ((*path, name), problem)
            for key in _ALPHA_TAINTS
            if key in str(annotations.get(name, "")) and (problem := _key_problem(key, release))
        )


def _in_pod(
    document: JSON, template: tuple[str, ...], release: Release | None
) -> Iterator[tuple[tuple[Step, ...], str]]:
    yield from _in_keys(document, (*template, "spec", "tolerations"), release)
    for affinity in _AFFINITIES:
        path = (*template, "spec", "affinity", affinity)
        terms = member(document, *path)
        if isinstance(terms, dict) and _EXECUTION in terms:
            yield (*path, _EXECUTION), f"no release of Kubernetes has this field; write {_SCHEDULING}"


def _in_keys(
    document: JSON, path: tuple[str, ...], release: Release | None
) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Check the keys of tolerations or taints."""
    items = member(document, *path)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        problem = _key_problem(member(item, "key"), release)
        if problem:
            yield (*path, index, "key"), problem


def _key_problem(key: JSON, release: Release | None) -> str:
    if (
        not isinstance(key, str)
        or key not in _ALPHA_TAINTS
        or (release or CURRENT_RELEASE) <= _ALPHA_TAINTS_UNTIL
    ):
        return ""
    right = go_quoted(_ALPHA_TAINTS[key])
    return (
        f"Kubernetes reads {go_quoted(key)} only up to {_ALPHA_TAINTS_UNTIL}; write {right},"
        f" or follow that release with --release {_ALPHA_TAINTS_UNTIL}"
    )
