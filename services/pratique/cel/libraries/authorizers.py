"""Authorizers: authorization checks in expressions.

Source: ``k8s.io/apiserver/pkg/cel/library/authz.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.requests import UserInfo
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, UnansweredEvaluationError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value
from pratique.cluster.authorization import (
    AuthorizationAttributes,
    AuthorizationDecision,
    Authorizer,
    UnansweredError,
)

__all__ = [
    "LIBRARY",
    "AuthorizationAttributes",
    "AuthorizationDecision",
    "Authorizer",
    "AuthorizerValue",
    "ResourceCheck",
]

_PREFIX = "kubernetes.authorization"


class AuthorizerValue(msgspec.Struct, frozen=True):
    """The variable ``authorizer``."""

    cel_type: ClassVar[str] = f"{_PREFIX}.Authorizer"
    authorizer: Authorizer
    user: UserInfo


class PathCheck(msgspec.Struct, frozen=True):
    """``authorizer.path(…)``."""

    cel_type: ClassVar[str] = f"{_PREFIX}.PathCheck"
    authorizer: AuthorizerValue
    path: str


class GroupCheck(msgspec.Struct, frozen=True):
    """``authorizer.group(…)``."""

    cel_type: ClassVar[str] = f"{_PREFIX}.GroupCheck"
    authorizer: AuthorizerValue
    group: str


class ResourceCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``authorizer.group(…).resource(…)`` with the attributes that narrow the check."""

    cel_type: ClassVar[str] = f"{_PREFIX}.ResourceCheck"
    authorizer: AuthorizerValue
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


def _path(_: Frame, authorizer: Value, path: Value) -> PathCheck:
    require_types((AuthorizerValue, str), authorizer, path)
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _group(_: Frame, authorizer: Value, group: Value) -> GroupCheck:
    require_types((AuthorizerValue, str), authorizer, group)
    return GroupCheck(authorizer, group)


def _service_account(_: Frame, authorizer: Value, namespace: Value, name: Value) -> AuthorizerValue:
    require_types((AuthorizerValue, str, str), authorizer, namespace, name)
    if names.check_dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.check_dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    user = UserInfo(username=f"system:serviceaccount:{namespace}:{name}", groups=groups)
    return AuthorizerValue(authorizer.authorizer, user)


def _resource(_: Frame, check: Value, resource: Value) -> ResourceCheck:
    require_types((GroupCheck, str), check, resource)
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(authorizer=check.authorizer, group=check.group, resource=resource)


def _with_field(field: str) -> Callable[[Frame, Value, Value], ResourceCheck]:
    def run(_: Frame, check: Value, value: Value) -> ResourceCheck:
        require_types((ResourceCheck, str), check, value)
        narrowed: ResourceCheck = msgspec.structs.replace(check, **{field: value})
        return narrowed

    return run


def _check(_: Frame, check: Value, verb: Value) -> AuthorizationDecision:
    require_types((PathCheck if type(check) is PathCheck else ResourceCheck, str), check, verb)
    authorizer = check.authorizer
    if type(check) is PathCheck:
        attributes = AuthorizationAttributes(user=authorizer.user, verb=verb, path=check.path)
    else:
        attributes = AuthorizationAttributes(
            user=authorizer.user,
            verb=verb,
            group=check.group,
            resource=check.resource,
            subresource=check.subresource,
            namespace=check.namespace,
            name=check.name,
            field_selector=check.field_selector,
            label_selector=check.label_selector,
        )
    try:
        return authorizer.authorizer.authorize(attributes)  # type: ignore[no-any-return] # a CEL value is Any
    except UnansweredError as error:
        raise UnansweredEvaluationError(error.answer) from None


def _decision_field(read: Callable[[AuthorizationDecision], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, decision: Value) -> Value:
        require_types((AuthorizationDecision,), decision)
        return read(decision)

    return run


_A, _P, _G, _R, _D = (
    f"{_PREFIX}.{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
LIBRARY = Library(
    overloads=(
        Overload("authorizer_path", f"{_A}.path(string)", _P),
        Overload("authorizer_group", f"{_A}.group(string)", _G),
        Overload("authorizer_serviceaccount", f"{_A}.serviceAccount(string,string)", _A),
        Overload("groupcheck_resource", f"{_G}.resource(string)", _R),
        Overload("resourcecheck_subresource", f"{_R}.subresource(string)", _R),
        Overload("resourcecheck_namespace", f"{_R}.namespace(string)", _R),
        Overload("resourcecheck_name", f"{_R}.name(string)", _R),
        Overload("authorizer_fieldselector", f"{_R}.fieldSelector(string)", _R),
        Overload("authorizer_labelselector", f"{_R}.labelSelector(string)", _R),
        Overload("pathcheck_check", f"{_P}.check(string)", _D),
        Overload("resourcecheck_check", f"{_R}.check(string)", _D),
        Overload("decision_errored", f"{_D}.errored()", "bool"),
        Overload("decision_error", f"{_D}.error()", "string"),
        Overload("decision_allowed", f"{_D}.allowed()", "bool"),
        Overload("decision_reason", f"{_D}.reason()", "string"),
    ),
    functions={
        "path": _path,
        "group": _group,
        "serviceAccount": _service_account,
        "resource": _resource,
        "subresource": _with_field("subresource"),
        "namespace": _with_field("namespace"),
        "name": _with_field("name"),
        "fieldSelector": _with_field("field_selector"),
        "labelSelector": _with_field("label_selector"),
        "check": _check,
        "errored": _decision_field(lambda decision: bool(decision.error)),
        "error": _decision_field(lambda decision: decision.error),
        "allowed": _decision_field(lambda decision: decision.allowed),
        "reason": _decision_field(lambda decision: decision.reason),
    },
)
