"""Spellings of old documentation that a release of Kubernetes does not read.

An API server stores such an annotation or key, or drops such a field, and says nothing. Whoever wrote it believes that
it does something, so everything that reads files for people warns of it.
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
"""Annotations of Namespaces that Kubernetes' own page named up to 1.10 and no release has read, and the right ones."""

_TOLERATIONS = (
    "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
)
"""Annotations of Namespaces that hold tolerations, as a text."""

_ALPHA_TAINTS = dict(zip(ALPHA_KEYS, (NOT_READY, UNREACHABLE), strict=True))
"""The keys of taints in 1.6 to 1.8, and those that took their place in 1.9."""

_ALPHA_TAINTS_UNTIL = Release(1, 8)

_EXECUTION = "requiredDuringSchedulingRequiredDuringExecution"
_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
"""What there is in place of the former, which the page names and no release has had."""

_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_TEMPLATES: Mapping[str, tuple[str, ...]] = dict(WORKLOADS.values())
_CHECKED_RESOURCES = (("", "namespaces"), ("", "nodes"), ("", "pods"), *WORKLOADS)


def unread_spellings(document: JSON, release: Release | None) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Find what an object says in a spelling that the release does not read: where, and what is wrong with it.

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
    """Find such spellings in the objects of a cluster; each line names its object."""
    for group, resource in _CHECKED_RESOURCES:
        for each in cluster.list(group, resource):
            name, namespace = (member(each, "metadata", field) for field in ("name", "namespace"))
            owner = f"{kind_of(each).kind} {go_quoted(f'{namespace}/{name}' if namespace else str(name))}"
            for path, problem in unread_spellings(each, release):
                yield f"{owner}: {FieldPath(path)}: {problem}"


def unread_in_settings(configurations: Mapping[str, JSON], release: Release | None) -> Iterator[str]:
    """Find such spellings in the settings of controllers, by their names; each line names its controller."""
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
    """Look at the keys of tolerations or taints."""
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
        f"Kubernetes reads {go_quoted(key)} up to {_ALPHA_TAINTS_UNTIL} alone; write {right},"
        f" or follow that release with --release {_ALPHA_TAINTS_UNTIL}"
    )
