"""The decisions of MutatingAdmissionPolicies, and the Status of the failures that deny a request.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails, aggregate
from pratique.configuration.admissionregistration import MutatingAdmissionPolicySpec, PolicyBindingSpec
from pratique.policies.compilation import Binding, Policy
from pratique.telemetry.policy_metrics import PolicyCheck


class MutatingPolicyDecision(msgspec.Struct, frozen=True):
    """The decision of one policy through one binding with one parameter."""

    policy: str
    binding: str
    """Empty if the decision does not depend on a binding."""
    key: str
    """Identifies the invocation among all invocations for the request."""
    outcome: OutcomeStatus
    reason: str = ""
    """Why it was skipped or failed."""
    operations: tuple[JSONObject, ...] = ()
    """A JSON Patch from the object before to the object after its mutations."""
    ran: bool = False
    """Whether it counts as invoked, even if every mutation failed."""
    reinvocable: bool = False
    """Whether later changes cause another invocation: ``reinvocationPolicy: IfNeeded``."""
    seconds: float = 0.0
    """How long it took, in seconds."""
    in_shadow: bool = False
    """Whether it has no effect: ``outcome`` and ``operations`` are then what they would have been."""

    @property
    def changed(self) -> bool:
        """Whether it changed the object; earlier reinvocable policies are then invoked again."""
        return bool(self.operations) and not self.in_shadow

    def shadowed(self) -> MutatingPolicyDecision:
        """Return the same decision without any effect."""
        return msgspec.structs.replace(self, ran=False, reinvocable=False, in_shadow=True)


class MutatingPoliciesDecision(msgspec.Struct, frozen=True):
    """The decisions of all policies and the mutated object."""

    document: Document
    """The mutated object; the one received if nothing changed, or if the request is denied whatever the failure
    policy."""
    decisions: tuple[MutatingPolicyDecision, ...] = ()
    """In the order of invocation; skipped ones only with ``explain``."""
    operations: tuple[JSONObject, ...] | None = None
    """The JSON Patch of all mutations together, if one policy made them all; None if a diff must find it."""
    dirty: bool = False
    """Whether any mutation was applied, even without effect: reinvocable policies are then invoked again."""
    refusal: Status | None = None
    """Why the request is denied; None if it goes on."""
    checks: tuple[PolicyCheck, ...] = ()
    """The checks to count in metrics."""
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Which bindings an exception has kept from being used."""


class PolicyFailure(msgspec.Struct, frozen=True):
    """The failure of a policy under failure policy ``Fail``, which denies the request."""

    policy: str
    binding: str
    """Empty if the failure does not depend on a binding."""
    text: str
    reason: str = ""
    """The reason of the Status; empty if the policy or binding is misconfigured."""

    @property
    def message(self) -> str:
        """The message for the user."""
        if self.binding:
            return f"policy '{self.policy}' with binding '{self.binding}' denied request: {self.text}"
        return f"policy {statuses.go_quoted(self.policy)} denied request: {self.text}"


def refusal_status(review: Review, failures: Sequence[PolicyFailure]) -> Status | None:
    """Make one Status of all failures: the first is the message, and all are causes. None without failures."""
    if not failures:
        return None
    first = failures[0]
    status = statuses.admission_forbidden(review, "admission request denied by policy")
    details = status.details or StatusDetails()
    causes = (*details.causes, *(StatusCause(message=failure.message) for failure in failures))
    return replace(
        status,
        message=first.message,
        reason=first.reason or status.reason,
        details=replace(details, causes=causes),
    )


def invocation_key(policy: str, binding: str, params: JSON) -> str:
    """The key of an invocation: ``keyFor`` in ``…/policy/mutating/dispatcher.go``. Names contain no slashes."""
    metadata = params.get("metadata") or {} if isinstance(params, dict) else {}
    return f"{policy}/{binding}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


_INVALID = "Invalid"


class MutatingPolicyDecisionBuilder:
    """Builds the decision of one invocation. Its time runs from its construction."""

    def __init__(
        self,
        policy: Policy[MutatingAdmissionPolicySpec],
        binding: Binding[PolicyBindingSpec] | None,
        params: JSON = None,
    ) -> None:
        """Begin without failures."""
        self._started = time.perf_counter()
        self._policy, self._binding = policy, binding.name if binding else ""
        self.key = invocation_key(policy.name, self._binding, params)
        """Identifies the invocation among all invocations for the request."""
        self._texts: list[str] = []
        self.failures: list[PolicyFailure] = []
        """The failures that deny the request."""

    def skip(self, reason: str) -> MutatingPolicyDecision:
        """Decide that the policy does nothing for the request."""
        return self._decided(OutcomeStatus.SKIPPED, reason=reason)

    def misconfigured(self, text: str) -> MutatingPolicyDecision:
        """Decide about a misconfigured policy or binding by the failure policy."""
        self._fail(text, "")
        return self._failed()

    def conditions_failed(self, text: str) -> MutatingPolicyDecision:
        """Decide about failed match conditions by the failure policy."""
        self._fail(text, _INVALID)
        return self._failed()

    def fail(self, text: str) -> None:
        """Record that a mutation failed. Later mutations still run."""
        self._fail(text, _INVALID)

    def refuse(self, status: Status) -> MutatingPolicyDecision:
        """Decide that the request is denied, whatever the failure policy."""
        return self._decided(OutcomeStatus.FAILED, reason=status.message, ran=True)

    def conclude(self, operations: tuple[JSONObject, ...], reason: str = "") -> MutatingPolicyDecision:
        """Decide after all mutations have been attempted, which together changed the object by ``operations``.

        ``reason`` says what of their changes was dropped.
        """
        if self._texts:
            return self._failed(operations, ran=True)
        outcome = OutcomeStatus.MUTATED if operations else OutcomeStatus.UNCHANGED
        return self._decided(outcome, operations, reason=reason, ran=True)

    def check(self, error_type: str, seconds: float) -> PolicyCheck:
        """The check to count for one mutation: ``dispatchInvocations`` counts every mutation."""
        return PolicyCheck(self._policy.name, self._binding, error_type, seconds)

    def _fail(self, text: str, reason: str) -> None:
        self._texts.append(text)
        if not self._policy.spec.fails_open:
            self.failures.append(PolicyFailure(self._policy.name, self._binding, text, reason))

    def _failed(
        self, operations: tuple[JSONObject, ...] = (), *, ran: bool = False
    ) -> MutatingPolicyDecision:
        fails_open = self._policy.spec.fails_open
        outcome = OutcomeStatus.FAILED_OPEN if fails_open else OutcomeStatus.FAILED
        return self._decided(outcome, operations, reason=aggregate(self._texts), ran=ran)

    def _decided(
        self,
        outcome: OutcomeStatus,
        operations: tuple[JSONObject, ...] = (),
        *,
        reason: str = "",
        ran: bool = False,
    ) -> MutatingPolicyDecision:
        return MutatingPolicyDecision(
            self._policy.name,
            self._binding,
            self.key,
            outcome,
            reason,
            operations,
            ran,
            self._policy.spec.reinvocation_policy == "IfNeeded",
            time.perf_counter() - self._started,
        )
