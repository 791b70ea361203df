"""AlwaysPullImages."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.admission.controllers import Phase
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.always_pull_images import CONTROLLER
from support import vector_cases
from support.admissions import BOTH, admit, pod_review, review_of
from support.expectations import check
from support.pods import container, pod
from support.strategies.pods import pods

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}


@pytest.mark.parametrize("case", vector_cases.plugin("AlwaysPullImages"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review_of(case["request"]), phases=phases), case["expected"])


def pod_with_policy(policy: str = "Never", image: str = "nginx", **spec: JSON) -> JSONObject:
    return pod(container("c", image, imagePullPolicy=policy), **spec)


def test_every_container_and_image_volume_gets_the_policy_always() -> None:
    reviewed = pod_with_policy(
        initContainers=[{"name": "i", "image": "init"}],
        ephemeralContainers=[{"name": "e", "image": "debug", "imagePullPolicy": "Always"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}, {"name": "w", "emptyDir": {}}],
    )
    assert admit(CONTROLLER, pod_review(reviewed)).operations == (
        {"op": "add", "path": "/spec/initContainers/0/imagePullPolicy", "value": "Always"},
        {"op": "replace", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"},
        {"op": "add", "path": "/spec/volumes/0/image/pullPolicy", "value": "Always"},
    )


def refused(reviewed: JSON) -> tuple[int, str, str]:
    status = admit(CONTROLLER, pod_review(reviewed), phases=[Phase.VALIDATE]).status
    assert status is not None
    return status.code, status.reason, status.message


def test_another_pull_policy_is_denied_with_its_field() -> None:
    assert refused(pod_with_policy("Never")) == (
        500,
        "",
        (
            'pods "web" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never":'
            ' supported values: "Always"'
        ),
    )


def test_all_other_pull_policies_are_denied_in_one_message() -> None:
    reviewed = pod_with_policy(
        "IfNotPresent",
        initContainers=[{"name": "i", "image": "init"}],
        ephemeralContainers=[{"name": "e", "image": "debug", "imagePullPolicy": "Never"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}],
    )
    wrong = [
        'initContainers[0].imagePullPolicy: Unsupported value: ""',
        'containers[0].imagePullPolicy: Unsupported value: "IfNotPresent"',
        'ephemeralContainers[0].imagePullPolicy: Unsupported value: "Never"',
        'volumes[0].image.pullPolicy: Unsupported value: ""',
    ]
    messages = (f'pods "web" is forbidden: spec.{text}: supported values: "Always"' for text in wrong)
    assert refused(reviewed) == (500, "", f"[{', '.join(messages)}]")


@pytest.mark.parametrize("phase", BOTH)
@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None, "pod", []])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON, phase: Phase) -> None:
    status = admit(CONTROLLER, pod_review(reviewed), phases=[phase]).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "Resource was marked with kind Pod but was unable to be converted"


VOLUME = [{"name": "v", "image": {"reference": "data", "pullPolicy": "Never"}}]


@pytest.mark.parametrize(
    ("old", "new", "forced"),
    [
        (pod_with_policy(), pod_with_policy(), False),
        (pod_with_policy(), pod_with_policy(image="other"), True),
        (pod_with_policy(), pod_with_policy(initContainers=[{"name": "i", "image": "nginx"}]), False),
        (pod_with_policy(initContainers=[{"name": "i", "image": "init"}]), pod_with_policy(), False),
        (pod_with_policy(volumes=VOLUME), pod_with_policy(volumes=VOLUME), False),
        (pod_with_policy(), pod_with_policy(volumes=VOLUME), True),
        ({"kind": "Service"}, pod_with_policy(), True),
    ],
)
def test_an_update_is_checked_only_if_it_adds_an_image(old: JSON, new: JSON, *, forced: bool) -> None:
    found = admit(CONTROLLER, pod_review(new, operation="UPDATE", old=old))
    assert found.allowed
    assert bool(found.operations) is forced


@pytest.mark.parametrize("subresource", ["status", "exec", "ephemeralcontainers"])
def test_subresources_are_ignored(subresource: str) -> None:
    assert admit(CONTROLLER, pod_review(pod_with_policy(), subresource=subresource)).operations == ()


@pytest.mark.parametrize(
    "spec", [None, "x", [], {"containers": "x"}, {"containers": ["x", None]}, {"volumes": [1]}]
)
def test_a_malformed_pod_causes_no_failure(spec: JSON) -> None:
    found = admit(CONTROLLER, pod_review({"kind": "Pod", "spec": spec}))
    assert found.allowed
    assert found.operations == ()


@given(pods())
def test_a_second_pass_changes_nothing(reviewed: JSON) -> None:
    once = admit(CONTROLLER, pod_review(reviewed))
    assert once.allowed
    assert admit(CONTROLLER, pod_review(once.object)).operations == ()
