"""Mutating judging: what came of one invocation of a policy, under its failure policy.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`` ``dispatchInvocations``.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pratique.admission_policies.mutating_judgements import Failure, MutationJudgement, key_of
from pratique.measures.policy_checks import PolicyCheck
from pratique.parts import Ending
from pratique.patches import diff
from pratique.statuses import aggregate

if TYPE_CHECKING:
    from pratique.admission_policies.compilation import Binding, Policy
    from pratique.configurations.policies import BindingSpec, MutatingSpec
    from pratique.json_values import JSON, Document
    from pratique.statuses import Status

_INVALID = "Invalid"


class MutationJudging:
    """The judgement of one invocation, in the making; its time runs from here."""

    def __init__(
        self, policy: Policy[MutatingSpec], binding: Binding[BindingSpec] | None, params: JSON = None
    ) -> None:
        """Begin without failures."""
        self._begun = time.perf_counter()
        self._fails_open = policy.spec.fails_open
        name = binding.name if binding else ""
        self._judgement = MutationJudgement(
            policy.name,
            name,
            key_of(policy.name, name, params),
            Ending.UNCHANGED,
            reinvocable=policy.spec.reinvocation_policy == "IfNeeded",
        )
        self._texts: list[str] = []
        self.failures: list[Failure] = []
        """What refuses the request."""

    @property
    def key(self) -> str:
        """Tells the invocation from all others that there can be for one request."""
        return self._judgement.key

    def skip(self, reason: str) -> MutationJudgement:
        """Say that the policy does nothing for the request."""
        return self._concluded(Ending.SKIPPED, reason=reason)

    def misset(self, text: str) -> MutationJudgement:
        """Weigh that the policy cannot be used for the request."""
        self._fail(text, "")
        return self._failed()

    def unweighable(self, text: str) -> MutationJudgement:
        """Weigh that match conditions have no value."""
        self._fail(text, _INVALID)
        return self._failed()

    def fail(self, text: str) -> None:
        """Weigh that one mutation could not be made. Others are made all the same."""
        self._fail(text, _INVALID)

    def refuse(self, status: Status) -> MutationJudgement:
        """Say that the request is refused, whatever the failure policy is."""
        return self._concluded(Ending.FAILED, reason=status.message, ran=True)

    def conclude(self, before: Document, after: Document) -> MutationJudgement:
        """Say what the mutations came to, of which all have been tried."""
        operations = () if after is before else tuple(diff(before.data, after.data))
        judged = dataclasses.replace(self._judgement, operations=operations, ran=True)
        self._judgement = judged
        if self._texts:
            return self._failed()
        return self._concluded(Ending.MUTATED if operations else Ending.UNCHANGED)

    def check(self, error_type: str, seconds: float) -> PolicyCheck:
        """What is to be counted of one mutation: ``dispatchInvocations`` counts all of them."""
        return PolicyCheck(self._judgement.policy, self._judgement.binding, error_type, seconds)

    def _fail(self, text: str, reason: str) -> None:
        self._texts.append(text)
        if not self._fails_open:
            self.failures.append(Failure(self._judgement.policy, self._judgement.binding, text, reason))

    def _failed(self) -> MutationJudgement:
        outcome = Ending.FAILED_OPEN if self._fails_open else Ending.FAILED
        return self._concluded(outcome, reason=aggregate(self._texts))

    def _concluded(self, outcome: Ending, *, reason: str = "", ran: bool | None = None) -> MutationJudgement:
        judged = self._judgement
        return dataclasses.replace(
            judged,
            outcome=outcome,
            reason=reason,
            ran=judged.ran if ran is None else ran,
            seconds=time.perf_counter() - self._begun,
        )
