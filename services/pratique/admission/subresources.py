"""Subresources: the operation that each takes, and the object that a request sends to it.

Source: the ``REST`` types of ``pkg/registry`` (``core/pod/rest/subresources.go``, ``core/pod/storage``,
``core/serviceaccount/storage/token.go``, ``apps/deployment/storage``): the Connecters,
Creaters and Updaters.
"""

from __future__ import annotations

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.kinds import ResourceType, kind_of
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import ApiResources, built_in_resources

_CREATE_KINDS = frozenset({"Binding", "DeploymentRollback", "Eviction", "TokenRequest"})
_READ_ONLY = frozenset({"log"})
# As kubectl asks and SetDefaults_TokenRequestSpec (pkg/apis/authentication/v1/defaults.go) completes: one hour.
_TOKEN_SPEC: JSONObject = {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None}


def operation_on(type_: ResourceType) -> Operation | None:
    """Return the operation that a subresource takes; None if it can only be read, which admission never reviews."""
    if type_.subresource in _READ_ONLY:
        return None
    if type_.kind.kind.endswith("Options"):
        return Operation.CONNECT
    return Operation.CREATE if type_.kind.kind in _CREATE_KINDS else Operation.UPDATE


def check_operation(type_: ResourceType, operation: Operation, resources: ApiResources) -> None:
    """Check that a resource or subresource takes an operation.

    Raises:
        InputError: it does not; the text names the operation that it takes.
    """
    collection = type_.resource.resource
    if not type_.subresource:
        if operation is Operation.CONNECT:
            raise InputError(f"a CONNECT needs a subresource: {_connect_hint(type_, resources)}")
        return
    path = f"{collection}/{type_.subresource}"
    wanted = operation_on(type_)
    if wanted is None:
        raise InputError(f"{path} can only be read, and reads are never reviewed")
    if wanted is not operation:
        raise InputError(f"{path} takes {wanted}, not {operation}: give --operation {wanted}")


def _connect_hint(type_: ResourceType, resources: ApiResources) -> str:
    names = [
        other.subresource
        for other in resources
        if other.resource == type_.resource and other.subresource and operation_on(other) is Operation.CONNECT
    ]
    if not names:
        return f"{type_.resource.resource} has none that connects"
    return f"give --subresource {' or '.join(names)}"


def subresource_object(type_: ResourceType, document: JSONObject) -> JSONObject:
    """Return the object that a request sends to a resource or subresource of ``document``.

    This is ``document`` itself if it has the right kind. Connection options are empty, as in a request without a query;
    an Eviction or a TokenRequest needs only the object's name. A Scale has the object's replicas and selector.

    Raises:
        InputError: the object does not contain enough to create it.
    """
    kind = type_.kind
    if document.get("kind") == kind.kind:  # in any version, because the stored object may have another one
        return document
    created: JSONObject = {"kind": kind.kind, "apiVersion": kind.api_version}
    if operation_on(type_) is Operation.CONNECT:
        return created
    created["metadata"] = _metadata_subset(document, "name", "namespace")
    match kind.kind:
        case "Eviction":
            return created
        case "TokenRequest":
            return {**created, "spec": _TOKEN_SPEC}
        case "Scale" if built_in_resources().for_resource(type_.resource, type_.subresource) is not None:
            return {**created, **_scale_fields(document)}
    path = f"{type_.resource.resource}/{type_.subresource}"
    raise InputError(
        f'kind "{document["kind"]}" does not say what is sent to {path}: give the {kind.kind} itself, or an'
        " AdmissionReview"
    )


def _scale_fields(document: JSONObject) -> JSONObject:
    # Without the field there is one replica: SetDefaults_Deployment and others in pkg/apis/*/v1/defaults.go.
    replicas: JSON = member(document, "spec", "replicas")
    return {
        "metadata": _metadata_subset(
            document, "name", "namespace", "uid", "resourceVersion", "creationTimestamp"
        ),
        "spec": {"replicas": 1 if replicas is None else replicas},
        "status": {"replicas": member(document, "status", "replicas") or 0, **_scale_selector(document)},
    }


def _scale_selector(document: JSONObject) -> JSONObject:
    """The selector as a text: that of a ReplicationController has labels alone."""
    selector = mapping_at(document, "spec", "selector")
    if kind_of(document).group == "":
        selector = {"matchLabels": selector}
    requirements = [
        (key, f"{key}={value}") for key, value in sorted(mapping_at(selector, "matchLabels").items())
    ]
    for expression in list_at(selector, "matchExpressions"):
        key = str(expression.get("key"))
        requirements.append((key, _requirement_text(key, expression)))
    text = ",".join(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))
    return {"selector": text} if text else {}


def _requirement_text(key: str, expression: JSONObject) -> str:
    """``Requirement.String`` of ``k8s.io/apimachinery/pkg/labels``."""
    values = ",".join(sorted(map(str, list_at(expression, "values"))))
    match expression.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
    return key


def _metadata_subset(document: JSONObject, *names: str) -> JSONObject:
    return {name: value for name, value in mapping_at(document, "metadata").items() if name in names}
