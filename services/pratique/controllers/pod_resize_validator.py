"""PodResizeValidator: the node of a running Pod must be able to hold it after a resize.

Sources: ``plugin/pkg/admission/podresize/admission.go``, and ``k8s.io/component-helpers/resource/helpers.go``
``PodRequests``.
"""

from __future__ import annotations

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import StatusCause, StatusDetails, go_quoted
from pratique.pods import pod_spec
from pratique.pods.resource_requirements import (
    container_requirements,
    pod_requirements,
    read_resource_list,
)

_ZERO = Quantity(0)
_UNITS = {"cpu": -3, "memory": 0}
"""What is compared, each with the power of ten of its unit in messages: thousandths of a CPU, and bytes."""


def validate(review: Review) -> Answer:
    """Check a resize that changes the specification of a Pod on a node."""
    pod, old = review.object, review.old_object
    if not pod_spec.is_pod(pod):
        return _deny_wrong_type("a pod", pod)
    node_name = member(pod, "spec", "nodeName")
    if not node_name:
        return allow()
    if not pod_spec.is_pod(old):
        return _deny_wrong_type("an old pod", old)
    # The API server counts a Pod's generation up whenever the specification changes.
    if _generation(pod) == _generation(old):
        return allow()
    node = review.cluster.get("", "nodes", str(node_name))
    if node is None:
        return deny(f"node {go_quoted(str(node_name))} not found")
    return _check_node(review, node)


def _generation(pod: JSON) -> JSON:
    return member(pod, "metadata", "generation") or 0


def _deny_wrong_type(expected: str, document: JSON) -> Deny:
    return deny(status=statuses.bad_request(f"expected {expected} but got a {go_type(document)}"))


def _check_node(review: Review, node: JSONObject) -> Answer:
    system = member(node, "metadata", "labels", "kubernetes.io/os")
    if system is not None and system != "linux":
        name = go_quoted(str(member(node, "metadata", "name")))
        text = f"pod resize is only supported on linux nodes, node {name} is {go_quoted(str(system))}"
        return _deny_with_cause(review, text, "UnsupportedPlatform")
    allocatable = read_resource_list(
        member(node, "status", "allocatable"), FieldPath(("status", "allocatable"))
    )
    requests = _pod_requests(review.object)
    lacking = [
        f"{name}, requested: {requested.ceiling(unit)}, allocatable: {available.ceiling(unit)}"
        for name, unit in _UNITS.items()
        if (requested := requests[name]).compare(available := allocatable.get(name, _ZERO)) > 0
    ]
    if not lacking:
        return allow()
    text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
    return _deny_with_cause(review, text, "NodeCapacity")


def _pod_requests(pod: JSONObject) -> dict[str, Quantity]:
    """What a Pod requests of each compared resource, its overhead included."""
    containers = (container_requirements(pod, field) for field in ("containers", "initContainers"))
    requests = pod_requirements(pod, *containers).requests
    overhead = read_resource_list(member(pod, "spec", "overhead"), FieldPath(("spec", "overhead")))
    return {name: requests.get(name, _ZERO) + overhead.get(name, _ZERO) for name in _UNITS}


def _deny_with_cause(review: Review, text: str, reason: str) -> Deny:
    status = statuses.admission_forbidden(review, text)
    details = status.details or StatusDetails()
    details = msgspec.structs.replace(details, causes=(*details.causes, StatusCause(reason=reason)))
    return deny(status=msgspec.structs.replace(status, details=details))


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="PodResizeValidator",
    summary="Denies resizes of Pods that their nodes cannot hold.",
    phases=VALIDATE,
    rules=(rule("pods/resize", operations=("UPDATE",)),),
    build=_build,
    default=True,
    looks_up=("nodes",),
    trusted=True,
)
