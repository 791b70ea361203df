"""Sights: a review as the expressions of policies see it, made once for all policies that see it so.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/cel``: ``activation.go`` and ``condition.go``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.cel.activation import VARIABLES, LazyVariables
from pratique.cel.costs import InlineBudget
from pratique.cel.expressions import Expression
from pratique.cel.policy_compiler import AdmissionActivation, request_variable
from pratique.cel.values import Value

_NAMESPACE_METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)
"""What of a Namespace's metadata expressions see: ``CreateNamespaceObject``."""
_AUTHORIZER = frozenset({"authorizer", "authorizer.requestResource"})


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """How long, and with how much patience, expressions are evaluated."""

    until: float | None = None
    """When they are cut off, by ``time.monotonic``; None means never."""
    inline_budget: InlineBudget | None = None
    """What may be spent where they run; None means all that they may cost."""


UNLIMITED = EvaluationLimits()
"""As long as it takes."""


class Activation(dict[str, "Value"]):
    """The variables of one evaluation: its own, and those that it shares with others."""

    __slots__ = ("_hidden", "_shared")

    def __init__(self, own: Mapping[str, Value], shared: Mapping[str, Value], hidden: frozenset[str]) -> None:
        """Show what is ``own`` and what is ``shared`` but not ``hidden``."""
        super().__init__(own)
        self._shared = shared
        self._hidden = hidden

    def __missing__(self, name: str) -> Value:
        """Take a variable from those that are shared. Raises KeyError where there is none of that name."""
        if name in self._hidden:
            raise KeyError(name)
        value = self[name] = self._shared[name]
        return value


class ReviewActivations:
    """A review in the version that policies matched it in, and its namespace."""

    def __init__(self, review: Review, namespace: JSONObject | None) -> None:
        """Look at nothing yet.

        Args:
            review: In the version that is wanted.
            namespace: The Namespace that the object is in; None where it is in none.
        """
        self.review = review
        self._namespace = namespace
        self._shared = AdmissionActivation(review, review.authorizer)

    def changed(self, review: Review) -> ReviewActivations:
        """The same sight of an object that a policy has changed."""
        other = ReviewActivations(review, self._namespace)
        other._namespace_object = self._namespace_object  # made once: it is the same namespace
        return other

    @functools.cached_property
    def _request(self) -> JSONObject:
        """``request`` as all but match conditions have it: ``resource`` is the one that was matched."""
        resource = self.review.resource
        matched = {"group": resource.group, "version": resource.version, "resource": resource.resource}
        return {**request_variable(self.review), "resource": matched}

    @functools.cached_property
    def _namespace_object(self) -> JSON:
        return None if self._namespace is None else namespace_object_of(self._namespace)

    def for_conditions(self, params: JSON) -> Mapping[str, Value]:
        """What match conditions see: no ``namespaceObject``, and ``request.resource`` as it was requested."""
        return Activation({"params": params}, self._shared, frozenset())

    def for_expressions(
        self,
        params: JSON,
        variables: Mapping[str, Expression],
        limits: EvaluationLimits,
        *,
        has_authorizer: bool,
    ) -> tuple[Mapping[str, Value], LazyVariables]:
        """What all other expressions see, and the variables of the policy among it, none evaluated yet."""
        own = {"params": params, "request": self._request, "namespaceObject": self._namespace_object}
        hidden = frozenset() if has_authorizer else _AUTHORIZER
        activation = Activation(own, self._shared, hidden)
        composition = LazyVariables(
            variables, activation, until=limits.until, inline_budget=limits.inline_budget
        )
        activation[VARIABLES] = composition
        return activation, composition


def namespace_object_of(namespace: JSONObject) -> JSONObject:
    """What expressions see of a Namespace; what is empty in its metadata is absent."""
    metadata = {name: member(namespace, "metadata", name) for name in _NAMESPACE_METADATA}
    return {
        "metadata": {name: value for name, value in metadata.items() if value not in (None, "", 0, {}, [])},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
