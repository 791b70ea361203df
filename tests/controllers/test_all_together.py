"""All mutating handlers together: a second pass leaves their result as it is."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import assume, given

from pratique.admission.controllers import MUTATE, Phase
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.hosting.catalogue import load_catalogue
from support import pod_security_policies
from support.chains import decided, pod_review
from support.strategies.pods import pods

REFUSING = {"AlwaysDeny"}
CONTROLLERS = [
    controller
    for controller in load_catalogue()
    if controller.hosted and Phase.MUTATE in controller.phases and controller.name not in REFUSING
]
LIMITS = {"cpu": "500m", "memory": "128Mi"}
CLUSTER = ObjectStore(
    [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": "shop",
                "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd"},
            },
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "limits", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "default": LIMITS, "defaultRequest": LIMITS}]},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "usual"},
            "value": 100,
            "globalDefault": True,
        },
        pod_security_policies.policy(
            "usual",
            volumes=["*"],
            fsGroup={"rule": "MustRunAs", "ranges": [{"min": 1000, "max": 2000}]},
            requiredDropCapabilities=["NET_RAW"],
        ),
        *pod_security_policies.roles_of({"default": "allow"}),
    ]
)


def test_most_mutating_controllers_are_covered() -> None:
    names = {controller.name for controller in CONTROLLERS}
    assert {
        "LimitRanger",
        "ServiceAccount",
        "Priority",
        "DefaultTolerationSeconds",
        "PodNodeSelector",
    } <= names


@given(pods())
def test_a_second_pass_of_any_mutating_controller_changes_nothing(pod: JSONObject) -> None:
    async def both() -> None:
        review = pod_review(pod, cluster=CLUSTER)
        once = await decided(review, CONTROLLERS, phases=MUTATE)
        assume(once.allowed)
        seen = msgspec.structs.replace(review, object_document=Document.from_data(once.object_document.data))
        again = await decided(seen, CONTROLLERS, phases=MUTATE)
        assert again.allowed, again.status
        assert again.patch == ()

    asyncio.run(both())
