"""Bypasses of controllers that compare words in Pods: every list of containers, and every spelling.

The expected decisions are Kubernetes': it compares byte by byte, and looks into every list.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.store import ObjectStore
from pratique.controllers import always_pull_images, pod_security_policy
from pratique.controllers.image_policy_webhook.image_reviews import review_spec
from pratique.pods.pod_spec import CONTAINER_FIELDS
from support.admissions import admit, pod_review
from support.lookalike_words import spellings
from support.pod_security_policies import policy, roles_of
from support.pods import container, pod

DIGEST = "sha256:" + "0" * 64
IMAGES = [
    *spellings("registry.example.com/team/app"),
    *(
        "app",
        "app:latest",
        "library/app",
        "docker.example.com/library/app:latest",
        "APP:Latest",
        f"app@{DIGEST}",
    ),
    *(
        f"app:1@{DIGEST}",
        f"registry.example.com:5000/app@{DIGEST}",
        "app:",
        "app@",
        ":",
        "@",
        "//app",
        "app//a",
    ),
]
ANN = UserInfo("ann", groups=("system:authenticated",))
LISTS = pytest.mark.parametrize("field", CONTAINER_FIELDS)


def pod_with_container_in(field: str, **fields: object) -> JSONObject:
    spec: JSONObject = {"containers": [container("other", "other", imagePullPolicy="Always")]}
    spec[field] = [*spec.get(field, []), {"name": "c", **fields}]
    return pod(**spec)


@LISTS
def test_every_spelling_of_an_image_gets_the_policy_always(field: str) -> None:
    for image in IMAGES:
        for deleted in ({}, {"deletionTimestamp": "2001-01-01T00:00:00Z"}):
            given = pod_with_container_in(field, image=image, imagePullPolicy="IfNotPresent")
            given["metadata"] = {"name": "web", **deleted}
            found = admit(always_pull_images.CONTROLLER, pod_review(given), phases=[Phase.MUTATE])
            assert found.object["spec"][field][-1]["imagePullPolicy"] == "Always", image


@LISTS
def test_only_the_exact_spelling_of_always_passes(field: str) -> None:
    words = dict.fromkeys([*spellings("Always"), *spellings("IfNotPresent"), *spellings("Never")])
    passed = [
        word
        for word in words
        if admit(
            always_pull_images.CONTROLLER,
            pod_review(pod_with_container_in(field, image="a", imagePullPolicy=word)),
            phases=[Phase.VALIDATE],
        ).allowed
    ]
    assert passed == ["Always"]


@LISTS
def test_the_backend_sees_every_image_exactly_as_written(field: str) -> None:
    subresource = "ephemeralcontainers" if field == "ephemeralContainers" else ""
    for image in IMAGES:
        spec = json.loads(
            review_spec(pod_review(pod_with_container_in(field, image=image), subresource=subresource))
        )
        assert spec["containers"][-1] == ({"image": image} if image else {})


@LISTS
def test_every_spelling_of_a_capability_is_checked(field: str) -> None:
    cluster = ObjectStore(
        [policy("p", allowedCapabilities=["CHOWN"], volumes=["*"]), *roles_of({"default": "allow"})],
        assume_namespaces=True,
    )
    for word in dict.fromkeys([*spellings("CHOWN"), *spellings("SYS_ADMIN"), "ALL", "*"]):
        given = pod_with_container_in(field, image="a", securityContext={"capabilities": {"add": [word]}})
        review = msgspec.structs.replace(pod_review(given), cluster=cluster, user=ANN)
        found = admit(pod_security_policy.CONTROLLER, review)
        assert found.allowed is (word == "CHOWN"), word
