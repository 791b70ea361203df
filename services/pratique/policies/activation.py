"""Activations: the variables of a review for the expressions of policies, and the limits of their evaluation.

Policies that see a review in the same version share its activations.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/cel``: ``activation.go`` and ``condition.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from pratique.admission.results import Answer
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.cel.activation import AS_JSON, VARIABLES, LazyVariables
from pratique.cel.costs import InlineBudget
from pratique.cel.errors import SlowEvaluationError
from pratique.cel.expressions import Expression
from pratique.cel.policy_compiler import AdmissionActivation, request_variable
from pratique.cel.values import Value
from pratique.cluster.authorization import continue_evaluation
from pratique.cluster.conversion import PendingConversionError, fulfil_conversion
from pratique.processes.review_threads import work_beside_loop

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
"""The metadata fields of ``namespaceObject``: ``CreateNamespaceObject``."""
_AUTHORIZER = frozenset({"authorizer", "authorizer.requestResource"})


_INVOCATION_COST = 15
"""What one policy costs besides its expressions, in their unit of 0.2 µs: 3 µs."""


class EvaluationLimits(msgspec.Struct, frozen=True):
    """The limits of evaluating expressions, besides their cost budget."""

    until: float | None = None
    """The deadline, by ``time.monotonic``; None means none."""
    inline_budget: InlineBudget | None = None
    """What they may spend where they block others; None means all that they may cost."""

    def begin_invocation(self) -> None:
        """Spend what one policy costs besides its expressions.

        Raises:
            SlowEvaluationError: that exceeds the inline budget.
        """
        budget = self.inline_budget
        if budget is None:
            return
        if budget.cost < _INVOCATION_COST:
            raise SlowEvaluationError
        budget.spend(_INVOCATION_COST, 0)


UNLIMITED = EvaluationLimits()
"""No deadline and no inline budget."""


INLINE_COST = 10_000
"""The most that all policies may cost on the event loop for one review, about 2 ms; beyond that, a thread evaluates
them. That costs a review hardly anything, and lets others go on: beside a caller whose reviews take 10 ms, small ones
took 0.8 ms with a thread, and 11 ms where the event loop evaluated 2 ms at a time."""


def answer_within_limits(
    decide: Callable[[EvaluationLimits], Answer], review: Review
) -> Answer | Awaitable[Answer]:
    """Decide at once, or in a thread if that exceeds the inline budget or an authorizer has to ask first.

    ``decide`` is called again in the thread, and can continue where it was; so it is when a webhook has converted an
    object for it.
    """
    until = review.deadline.at if review.deadline is not None else None
    pending: PendingConversionError | None = None
    reason: BaseException
    try:
        return decide(EvaluationLimits(until, InlineBudget(INLINE_COST, INLINE_COST)))
    except SlowEvaluationError as error:
        reason = error
    except PendingConversionError as error:
        reason = pending = error
    in_thread = functools.partial(_decide_in_thread, decide, review, EvaluationLimits(until), pending)
    return continue_evaluation(in_thread, reason, until)


async def _decide_in_thread(
    decide: Callable[[EvaluationLimits], Answer],
    review: Review,
    limits: EvaluationLimits,
    pending: PendingConversionError | None = None,
) -> Answer:
    while True:
        if pending is not None:
            await fulfil_conversion(pending, review.conversion_webhooks, limits.until)
        try:
            return await work_beside_loop(review.received_values, decide, limits)
        except PendingConversionError as error:
            pending = error


class Activation(dict[str, "Value"]):
    """The variables of evaluations: some of their own, and others of the review, found when they are first used."""

    __slots__ = ("_find",)

    def __init__(self, own: Mapping[str, Value], find: Callable[[str], Value]) -> None:
        """Combine the ``own`` variables with those that ``find`` knows, which raises KeyError for all others."""
        super().__init__(own)
        self._find = find

    def __missing__(self, name: str) -> Value:
        """Find a variable. Raises KeyError if none has that name."""
        value = self[name] = self._find(name)
        return value


class _SharedState(msgspec.Struct):
    """What the activations of a review and of its changed objects have in common."""

    namespace_object: JSON = None
    """None until it is needed."""
    are_conditions_evaluated: bool = False


_OBJECTS = ("object", "oldObject")


class ReviewActivations:
    """The activations of a review in the version that policies matched, with its namespace.

    Evaluations without parameters share them, so evaluate policies one after another.
    """

    def __init__(self, review: Review, namespace: JSONObject | None) -> None:
        """Compute nothing yet.

        Args:
            review: The review, converted to the version that policies matched.
            namespace: The object's Namespace; None if it is cluster-scoped.
        """
        self.review = review
        self._namespace = namespace
        self._shared = AdmissionActivation(review, review.authorizer)
        self._state = _SharedState()
        self._for_conditions: Activation | None = None  # these two without parameters
        self._for_expressions: dict[bool, Activation] = {}  # by whether they have the authorizer

    def changed(self, review: Review) -> ReviewActivations:
        """The activations of the same review with a changed object."""
        other = ReviewActivations(review, self._namespace)
        other._state = self._state  # the namespace is the same
        return other

    @functools.cached_property
    def _request(self) -> JSONObject:
        """``request`` for all expressions but match conditions: ``resource`` is the matched one."""
        resource = self.review.resource
        matched = {"group": resource.group, "version": resource.version, "resource": resource.resource}
        return {**request_variable(self.review), "resource": matched}

    def _namespace_object(self) -> JSON:
        if self._namespace is None:
            return None
        if self._state.namespace_object is None:
            self._state.namespace_object = namespace_object_of(self._namespace)
        return self._state.namespace_object

    def _find_for_conditions(self, name: str) -> Value:
        return self._shared[name]

    def _find_with_authorizer(self, name: str) -> Value:
        if name == "request":
            return self._request
        return self._namespace_object() if name == "namespaceObject" else self._shared[name]

    def _find_without_authorizer(self, name: str) -> Value:
        if name in _AUTHORIZER:
            raise KeyError(name)
        return self._find_with_authorizer(name)

    def for_conditions(self, params: JSON) -> Mapping[str, Value]:
        """The activation of match conditions: a null ``namespaceObject``, and ``request.resource`` as requested."""
        self._state.are_conditions_evaluated = True
        if params is not None:
            return Activation({"params": params}, self._find_for_conditions)
        if self._for_conditions is None:
            self._for_conditions = Activation({"params": None}, self._find_for_conditions)
        return self._for_conditions

    def for_expressions(
        self,
        params: JSON,
        variables: Mapping[str, Expression] | None,
        limits: EvaluationLimits,
        *,
        has_authorizer: bool,
        mutates: bool = False,
    ) -> tuple[Mapping[str, Value], LazyVariables | None]:
        """The activation of all other expressions, and the policy's variables in it, none of them evaluated yet.

        It is valid until you ask for another, which may be the same one with the variables of another policy.
        An API server gives mutations objects as JSON until the conditions of any policy have seen them as values of Go.
        """
        activation = self._expressions_activation(params, has_authorizer=has_authorizer)
        if mutates:
            activation[AS_JSON] = () if self._state.are_conditions_evaluated else _OBJECTS
        if variables is None:
            return activation, None
        composition = LazyVariables(
            variables, activation, until=limits.until, inline_budget=limits.inline_budget
        )
        activation[VARIABLES] = composition
        return activation, composition

    def _expressions_activation(self, params: JSON, *, has_authorizer: bool) -> Activation:
        found = self._for_expressions.get(has_authorizer) if params is None else None
        if found is None:
            find = self._find_with_authorizer if has_authorizer else self._find_without_authorizer
            found = Activation({"params": params}, find)
            if params is None:
                self._for_expressions[has_authorizer] = found
        return found


def namespace_object_of(namespace: JSONObject) -> JSONObject:
    """The value of ``namespaceObject``; empty metadata fields are absent."""
    metadata = {name: member(namespace, "metadata", name) for name in _NAMESPACE_METADATA}
    return {
        "metadata": {name: value for name, value in metadata.items() if value not in (None, "", 0, {}, [])},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
