"""Spellings that no release, or not this one, reads."""

from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import Release
from pratique.lint.spellings import unread_in_cluster, unread_in_settings, unread_spellings
from support.pods import pod

UNREACHABLE = "node.alpha.kubernetes.io/unreachable"
TOLERATION = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
RIGHT = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
AFFINITY: JSONObject = {"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": []}}


def namespace(**annotations: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}


def deployment(**spec: object) -> JSONObject:
    made = {"template": {"spec": spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": made}


def node(key: str) -> JSONObject:
    taints = {"taints": [{"key": key, "effect": "NoExecute"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": taints}


OLD_KEY = [
    (pod(tolerations=[RIGHT, TOLERATION]), "spec.tolerations[1].key"),
    (deployment(tolerations=[TOLERATION]), "spec.template.spec.tolerations[0].key"),
    (node("node.alpha.kubernetes.io/notReady"), "spec.taints[0].key"),
    (
        namespace(**{"scheduler.alpha.kubernetes.io/defaultTolerations": f'[{{"key":"{UNREACHABLE}"}}]'}),
        "metadata.annotations.scheduler.alpha.kubernetes.io/defaultTolerations",
    ),
]
NEVER_READ = [
    (
        namespace(**{"scheduler.kubernetes.io/node-selector": "a=b"}),
        "metadata.annotations.scheduler.kubernetes.io/node-selector",
    ),
    (
        namespace(**{"scheduler.kubernetes.io/nodeSelector": "a=b"}),
        "metadata.annotations.scheduler.kubernetes.io/nodeSelector",
    ),
    (
        pod(affinity=AFFINITY),
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution",
    ),
]


def places(document: JSONObject, release: Release | None) -> list[str]:
    return [str(FieldPath(path)) for path, _ in unread_spellings(document, release)]


@pytest.mark.parametrize("release", [None, Release(1, 9), Release(1, 10), Release(1, 36)], ids=str)
@pytest.mark.parametrize(("document", "place"), OLD_KEY + NEVER_READ)
def test_spellings_that_the_release_does_not_read_are_found(
    document: JSONObject, place: str, release: Release | None
) -> None:
    assert places(document, release) == [place]


@pytest.mark.parametrize(("document", "place"), OLD_KEY)
def test_spellings_that_the_release_reads_are_accepted(document: JSONObject, place: str) -> None:
    assert place
    assert places(document, Release(1, 8)) == []


@pytest.mark.parametrize(("document", "place"), NEVER_READ)
def test_spellings_that_no_release_reads_are_found_in_the_oldest(document: JSONObject, place: str) -> None:
    assert places(document, Release(1, 0)) == [place]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": None},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"tolerations": [None, {"key": 1}], "affinity": []}},
        namespace(**{"scheduler.alpha.kubernetes.io/node-selector": "a=b"}),
        pod(
            tolerations=[RIGHT],
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
        ),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "spec": {"tolerations": [TOLERATION]},
        },
    ],
)
def test_correct_spellings_are_accepted(document: object) -> None:
    assert list(unread_spellings(document, None)) == []


def test_findings_in_a_cluster_name_the_object() -> None:
    [reported] = unread_in_cluster(ObjectStore([pod(tolerations=[TOLERATION])]), None)
    assert reported.startswith('Pod "shop/web": spec.tolerations[0].key: Kubernetes reads ')
    assert reported.endswith(
        'only up to 1.8; write "node.kubernetes.io/unreachable", or follow that release with --release 1.8'
    )


def test_findings_in_settings_name_the_controller() -> None:
    configurations = {"PodTolerationRestriction": {"whitelist": [RIGHT, TOLERATION]}}
    [reported] = unread_in_settings(configurations, None)
    assert reported.startswith("the configuration of PodTolerationRestriction: whitelist[1].key: ")
    assert list(unread_in_settings(configurations, Release(1, 8))) == []
