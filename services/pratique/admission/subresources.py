"""Subresources: what is sent to one, by which operation, and what of it a manifest of the object itself tells.

Source: the ``REST`` types of ``pkg/registry`` (``core/pod/rest/subresources.go``, ``core/pod/storage``,
``core/serviceaccount/storage/token.go``, ``apps/deployment/storage``): those that connect, those that create and
those that update.
"""

from __future__ import annotations

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import ApiResources, built_in_resources

_CREATE_KINDS = frozenset({"Binding", "DeploymentRollback", "Eviction", "TokenRequest"})
_READ_ONLY = frozenset({"log"})
# As kubectl asks and SetDefaults_TokenRequestSpec (pkg/apis/authentication/v1/defaults.go) completes: one hour.
_TOKEN_SPEC: JSONObject = {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None}


def operation_on(type_: ResourceType) -> Operation | None:
    """The operation that a subresource takes; None where it can only be read, which admission never sees."""
    if type_.subresource in _READ_ONLY:
        return None
    if type_.kind.kind.endswith("Options"):
        return Operation.CONNECT
    return Operation.CREATE if type_.kind.kind in _CREATE_KINDS else Operation.UPDATE


def check_operation(type_: ResourceType, operation: Operation, resources: ApiResources) -> None:
    """See that the collection or subresource takes the operation.

    Raises:
        InputError: it does not; the text says which one it does take.
    """
    collection = type_.resource.resource
    if not type_.subresource:
        if operation is Operation.CONNECT:
            raise InputError(
                f"a CONNECT is to a subresource, and names it: {_connect_hint(type_, resources)}"
            )
        return
    path = f"{collection}/{type_.subresource}"
    wanted = operation_on(type_)
    if wanted is None:
        raise InputError(f"{path} can only be read, and what is only read is never reviewed")
    if wanted is not operation:
        raise InputError(f"{path} takes {wanted}, not {operation}: give --operation {wanted}")


def _connect_hint(type_: ResourceType, resources: ApiResources) -> str:
    to = [
        each.subresource
        for each in resources
        if each.resource == type_.resource and each.subresource and operation_on(each) is Operation.CONNECT
    ]
    return (
        f"give --subresource {' or '.join(to)}" if to else f"{type_.resource.resource} has none that connects"
    )


def subresource_object(type_: ResourceType, document: JSONObject) -> JSONObject:
    """What is sent to a collection, or to a subresource, of the object that ``document`` is.

    That is the document, where its kind is the one wanted. Options of connections are made of nothing, as those of
    a request without a query; so are evictions and requests for a token. A Scale has the replicas of the object.

    Raises:
        InputError: it would have to say more than the object does.
    """
    kind = type_.kind
    if document.get("kind") == kind.kind:  # in whatever version: what is stored may be in another one
        return document
    made: JSONObject = {"kind": kind.kind, "apiVersion": kind.api_version}
    if operation_on(type_) is Operation.CONNECT:
        return made
    made["metadata"] = _metadata_subset(document, "name", "namespace")
    match kind.kind:
        case "Eviction":
            return made
        case "TokenRequest":
            return {**made, "spec": _TOKEN_SPEC}
        case "Scale" if built_in_resources().for_resource(type_.resource, type_.subresource) is not None:
            return {**made, **_scale_fields(document)}
    path = f"{type_.resource.resource}/{type_.subresource}"
    raise InputError(
        f'kind "{document["kind"]}" does not say what is sent to {path}: give the {kind.kind} itself, or an'
        " AdmissionReview"
    )


def _scale_fields(document: JSONObject) -> JSONObject:
    # What no manifest says is one replica: SetDefaults_Deployment and its like in pkg/apis/*/v1/defaults.go.
    wanted: JSON = member(document, "spec", "replicas")
    return {
        "metadata": _metadata_subset(
            document, "name", "namespace", "uid", "resourceVersion", "creationTimestamp"
        ),
        "spec": {"replicas": 1 if wanted is None else wanted},
        "status": {"replicas": member(document, "status", "replicas") or 0},
    }


def _metadata_subset(document: JSONObject, *names: str) -> JSONObject:
    return {name: value for name, value in document["metadata"].items() if name in names}
