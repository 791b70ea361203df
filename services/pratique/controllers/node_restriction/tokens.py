"""Tokens: a node asks for tokens of the Pods that it runs, and for the audiences that those use."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.cluster.store import Cluster
from pratique.controllers.node_restriction.requests import (
    Denial,
    NodeRequest,
    find_pod,
    is_kind,
    node_of_pod,
    object_uid,
    unexpected_type,
)
from pratique.pods import pod_spec, volumes

AUDIENCE_VERB = "request-serviceaccounts-token-audience"
"""What a node has to be granted on an audience that its Pod does not use."""


def check_token(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a token; whatever else is done to accounts is not looked at."""
    review = request.review
    if review.operation is not Operation.CREATE or review.subresource != "token":
        return
    if not is_kind(review.object, "TokenRequest"):
        yield unexpected_type(review.object)
    bound = member(review.object, "spec", "boundObjectRef")
    name, uid = (str(member(bound, step) or "") for step in ("name", "uid"))
    if (member(bound, "apiVersion"), member(bound, "kind")) != ("v1", "Pod") or not name:
        yield "node requested token not bound to a pod"
    if not uid:
        yield "node requested token with a pod binding without a uid"
    pod = find_pod(request, name)
    if isinstance(pod, Status):
        yield pod
        return
    if uid != object_uid(pod):
        why = "The object might have been deleted and then recreated"
        yield f"the UID in the bound object reference ({uid}) does not match the UID in record. {why}"
    if node_of_pod(pod) != request.node:
        yield "node requested token bound to a pod scheduled on a different node"
    if request.restricts_audiences:
        yield from _check_audience(request, pod)


def _check_audience(request: NodeRequest, pod: JSONObject) -> Iterator[Denial]:
    audiences = member(request.review.object, "spec", "audiences")
    if isinstance(audiences, list) and len(audiences) > 1:
        yield "node may only request 0 or 1 audiences"
    audience = str(member(audiences, 0) or "")
    faults: list[str] = []
    if _uses_audience(pod, audience, request.review.cluster, faults):
        return
    decision = request.review.authorizer.authorize(_attributes(request, audience))
    if decision.allowed:
        return
    if faults or decision.error:
        reason = statuses.aggregate(faults or [decision.error])
        yield f"error validating audience {go_quoted(audience)}: {reason}"
    who = request.review.user.username
    yield (
        f"audience {go_quoted(audience)} not found in pod spec volume,"
        f" {who} is not authorized to request tokens for this audience"
    )


def _attributes(request: NodeRequest, audience: str) -> AuthorizationAttributes:
    review = request.review
    return AuthorizationAttributes(
        user=review.user, verb=AUDIENCE_VERB, resource=audience, namespace=review.namespace, name=review.name
    )


def _uses_audience(pod: JSONObject, audience: str, cluster: Cluster, faults: list[str]) -> bool:
    """Tell whether a volume needs tokens for the audience; what could not be looked up goes into ``faults``."""
    for _, _, volume in pod_spec.iter_volumes(pod):
        sources = pod_spec.projections(volume)
        if any(_token_audience(source.get("serviceAccountToken")) == audience for source in sources):
            return True
        try:
            driver = volumes.driver_of_volume(pod, volume, cluster)
            if driver and volumes.wants_audience(driver, audience, cluster):
                return True
        except RefusalError as error:
            faults.append(error.status.message)
    return False


def _token_audience(projection: JSON) -> JSON:
    """The audience of a projected token, empty where it is that of the API server; None where there is no token."""
    return (member(projection, "audience") or "") if isinstance(projection, dict) else None
