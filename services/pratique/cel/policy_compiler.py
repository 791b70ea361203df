"""Compile the expressions of a policy, and give them the variables of an admission request."""

from __future__ import annotations

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.cel.activation import declared_type, mentioned_variables
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import Expression, compile_expression
from pratique.cel.libraries.authorizers import AuthorizerValue, ResourceCheck
from pratique.cel.values import Value
from pratique.cluster.authorization import Authorizer


class AdmissionActivation(dict[str, "Value"]):
    """The variables of an admission request by name, each computed when an expression first uses it.

    Objects are the review's own parsed JSON, without conversion; expressions cannot change them.
    """

    def __init__(self, review: Review, authorizer: Authorizer, namespace: JSONObject | None = None) -> None:
        """Take the variables from ``review``; ``namespace`` becomes ``namespaceObject``, always null for webhooks."""
        super().__init__(namespaceObject=namespace)
        self._review = review
        self._authorizer = authorizer

    def __missing__(self, name: str) -> Value:
        """Compute a variable. Raises KeyError if none has that name."""
        value = self[name] = self._make(name)
        return value

    def _make(self, name: str) -> Value:
        match name:
            case "object":
                return self._review.object
            case "oldObject":
                return self._review.old_object
            case "request":
                return request_variable(self._review)
            case "authorizer":
                return AuthorizerValue(self._authorizer, self._review.user)
            case "authorizer.requestResource":
                return self._request_resource()
            case _:
                raise KeyError(name)

    def _request_resource(self) -> ResourceCheck:
        review = self._review
        resource = review.request_resource or review.resource
        return ResourceCheck(
            authorizer=AuthorizerValue(self._authorizer, review.user),
            group=resource.group,
            resource=resource.resource,
            subresource=review.subresource,
            namespace=review.namespace,
            name=review.name,
        )


def request_variable(review: Review) -> JSONObject:
    """Compute the variable ``request``; empty fields are absent, as in the JSON of an AdmissionRequest.

    ``kind`` is the kind of ``object`` after conversion, ``resource`` the requested one: so does the API server here,
    unlike in the AdmissionReviews that it sends.
    """
    resource = _resource(review.request_resource or review.resource)
    request: JSONObject = {
        "kind": _kind(review.kind),
        "resource": resource,
        "subResource": review.subresource,
        "requestKind": _kind(review.request_kind or review.kind),
        "requestResource": resource,
        "requestSubResource": review.request_subresource or review.subresource,
        "name": review.name,
        "namespace": review.namespace,
        "operation": str(review.operation),
        "userInfo": _user(review),
        "dryRun": review.dry_run,
        "options": review.options,
    }
    return {name: value for name, value in request.items() if value not in ("", None)}


def _kind(kind: GroupVersionKind) -> JSONObject:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: GroupVersionResource) -> JSONObject:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


def _user(review: Review) -> JSONObject:
    user = review.user
    info: JSONObject = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {name: value for name, value in info.items() if value}


class PolicyCompiler(msgspec.Struct):
    """Compiles the expressions of one policy, one after another."""

    has_params: bool
    """Whether there is a variable ``params``."""
    types: dict[str, str] | None
    """The types of the policy's variables so far, by name; None if there is no variable ``variables``."""

    def compile(
        self,
        source: str,
        *result_types: str,
        has_authorizer: bool = True,
        has_patches: bool = False,
        has_variables: bool = True,
    ) -> Expression:
        """Compile an expression. Raises CompilationError in the API server's words."""
        types = self.types if has_variables else None
        environment = Environment(
            has_params=self.has_params,
            has_authorizer=has_authorizer,
            has_patches=has_patches,
            composited=None if types is None else mentioned_variables(source, types),
        )
        return compile_expression(source, environment, *result_types)

    def add_variable(self, name: str, source: str) -> Expression:
        """Compile a variable, which sees those before it; expressions compiled from now on see it.

        Raises:
            CompilationError: it does not compile; later expressions then see it with type ``dyn``.
        """
        types = self.types = {} if self.types is None else self.types
        try:
            expression = self.compile(source)
        except CompilationError:
            types[name] = "dyn"
            raise
        types[name] = declared_type(expression.result_type)
        return expression
