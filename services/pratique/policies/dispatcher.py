"""Dispatch policies: find which to evaluate for a request, by which binding and with which parameters.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`` ``Dispatch``;
``validating/dispatcher.go`` does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec

from pratique.admission.matching import MatchContext, MatchedResource
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConversionError, RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import ResourceType
from pratique.cluster.store import is_in_namespace
from pratique.configuration.admissionregistration import PolicyBindingSpec, PolicySpec
from pratique.policies.activation import ReviewActivations
from pratique.policies.compilation import Binding, Policy
from pratique.policies.exceptions import find_exemption
from pratique.policies.matching import (
    Mismatch,
    ParamDocuments,
    PolicySettingError,
    collect_params,
    find_param_type,
)

B = TypeVar("B", bound=PolicyBindingSpec)


class Invocation(msgspec.Struct, Generic[B], frozen=True):
    """A policy to evaluate, once with each of the parameters."""

    binding: Binding[B]
    activations: ReviewActivations
    params: Sequence[JSON]


class Unmatched(msgspec.Struct, Generic[B], frozen=True):
    """A policy or binding that does not match the request."""

    binding: Binding[B] | None
    reason: str
    is_exempted: bool = False
    """Whether it would match, but for an exception."""


class Misconfigured(msgspec.Struct, Generic[B], frozen=True):
    """A policy or binding that cannot be evaluated for the request; the policy's failure policy decides."""

    binding: Binding[B] | None
    reason: str

    @property
    def text(self) -> str:
        """The error in the API server's words."""
        return f"failed to configure {'binding' if self.binding else 'policy'}: {self.reason}"


Dispatch: TypeAlias = Invocation[B] | Unmatched[B] | Misconfigured[B]


class PolicyDispatcher:
    """Dispatches the policies for one review, and shares conversions and lookups between them."""

    def __init__(self, review: Review, *, mutates: bool = False) -> None:
        """Look up nothing yet.

        Args:
            review: The review.
            mutates: Convert objects before looking up parameters, as MutatingAdmissionPolicy does, and report a failed
                conversion as the policy's error.
        """
        self.review = review
        self._mutates = mutates
        self._context = MatchContext(review)
        self._activations: dict[MatchedResource, ReviewActivations] = {}
        self._params: ParamDocuments = {}

    def dispatch(
        self, policy: Policy[PolicySpec], bindings: Sequence[Binding[B]], *, reports_policy: bool = True
    ) -> Iterator[Dispatch[B]]:
        """Find the bindings and parameters with which to evaluate a policy.

        Args:
            policy: The policy.
            bindings: The bindings to try.
            reports_policy: Whether to report that the policy itself does not match or is misconfigured.

        Raises:
            RefusalError: the request's Namespace does not exist, which denies the request whatever policies decide.
            PendingConversionError: a webhook has to convert an object first.
        """
        try:
            matched = policy.matcher.match(self._context)
            if isinstance(matched, Mismatch):
                if reports_policy:
                    yield Unmatched(None, matched.reason)
                return
            kind = self._param_type(policy)
        except PolicySettingError as error:
            if reports_policy:
                yield Misconfigured(None, str(error))
            return
        for binding in bindings:
            yield self._invocation(binding, matched, kind)

    def _invocation(
        self, binding: Binding[B], matched: MatchedResource, kind: ResourceType | None
    ) -> Dispatch[B]:
        review = self.review
        try:
            if unmatched := self._unmatched(binding):
                return unmatched
            if self._mutates:
                self._context.converted(matched)
            params = collect_params(
                kind, binding.spec.param_ref, review.namespace, review.cluster, self._params
            )
        except PolicySettingError as error:
            return Misconfigured(binding, str(error))
        except ConversionError as error:
            return Misconfigured(binding if binding.in_shadow(review) else None, str(error))
        try:
            return self._invocation_with(binding, matched, params)
        except RefusalError as error:
            if not binding.in_shadow(review):
                raise
            return Misconfigured(binding, error.status.message)

    def _invocation_with(
        self, binding: Binding[B], matched: MatchedResource, params: Sequence[JSON]
    ) -> Dispatch[B]:
        try:
            if params:
                return Invocation(binding, self.activations_for(matched), params)
            if not self._mutates:  # MutatingAdmissionPolicy looks up the Namespace only for an invocation
                self._namespace()
        except ConversionError as error:
            return Misconfigured(binding, f"failed to convert object version: {error}")
        return Unmatched(binding, "no params found for policy binding with `Allow` parameterNotFoundAction")

    def _unmatched(self, binding: Binding[B]) -> Unmatched[B] | None:
        """Return why a binding does not apply to a request that its policy matches; None if it does."""
        found = None if binding.matcher is None else binding.matcher.match(self._context)
        if isinstance(found, Mismatch):
            return Unmatched(binding, found.reason)
        told = find_exemption(binding.exemptions, self.review)
        return Unmatched(binding, told, is_exempted=True) if told else None

    def _param_type(self, policy: Policy[PolicySpec]) -> ResourceType | None:
        kind = policy.spec.param_kind
        if kind is None:
            return None
        return find_param_type(kind, self.review.cluster)

    def activations_for(self, matched: MatchedResource) -> ReviewActivations:
        """The activations of policies that see the request as ``matched``.

        Raises:
            RefusalError: the request's Namespace does not exist.
            ConversionError: its objects cannot be converted.
        """
        found = self._activations.get(matched)
        if found is None:
            converted = self._context.converted(matched)
            found = self._activations[matched] = ReviewActivations(converted, self._namespace())
        return found

    def _namespace(self) -> JSONObject | None:
        """The object's Namespace; None if it is cluster-scoped. Raises RefusalError if it does not exist."""
        review = self.review
        if not is_in_namespace(review):
            return None
        namespace = review.cluster.get("", "namespaces", review.namespace)
        if namespace is None:
            raise RefusalError(statuses.not_found("", "namespaces", review.namespace))
        return namespace
