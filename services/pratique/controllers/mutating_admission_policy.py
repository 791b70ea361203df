"""MutatingAdmissionPolicy: policies written in CEL change objects.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pratique.admission.controllers import MUTATE, Controller, Handler, Handlers, NoSettings
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.configuration.loading import Configurations
from pratique.telemetry.policy_metrics import mutating_policy_metrics


def _allow_without_policies(_: Review) -> Answer:
    """Admit the request: there are no policies."""
    return allow()


class _MutatingPolicySet:
    """The policies that are configured now."""

    def __init__(self) -> None:
        self.checks = mutating_policy_metrics()
        self._admit: Callable[[Review], Answer | Awaitable[Answer]] | None = None

    def use_configurations(self, configurations: Configurations) -> Handler:
        """Switch to these policies; return the handler that goes on using them."""
        if not configurations.mutating_policies or not configurations.mutating_bindings:
            self._admit = None
            return _allow_without_policies
        # CEL is 14 MB of code that only chains with policies need.
        from pratique.cluster import schemas  # noqa: PLC0415
        from pratique.policies.allow_lists import AllowLists  # noqa: PLC0415
        from pratique.policies.exceptions import Exemptions  # noqa: PLC0415
        from pratique.policies.mutating import MutatingPolicies, mutate  # noqa: PLC0415
        from pratique.policies.rollouts import Rollouts  # noqa: PLC0415

        policies = MutatingPolicies(
            configurations.mutating_policies,
            configurations.mutating_bindings,
            Exemptions(configurations.exceptions),
            Rollouts(configurations.rollouts),
            AllowLists(configurations.allow_lists),
        )
        schemas.load()
        self._admit = (lambda review: mutate(policies, review, self.checks)) if policies else None
        return self._admit or _allow_without_policies

    def mutate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Apply all policies that match the request."""
        return allow() if self._admit is None else self._admit(review)


def _build(_: NoSettings) -> Handlers:
    policies = _MutatingPolicySet()
    return Handlers(
        mutate=policies.mutate, use_configurations=policies.use_configurations, collectors=(policies.checks,)
    )


CONTROLLER = Controller(
    name="MutatingAdmissionPolicy",
    summary="Changes objects by policies written in CEL.",
    phases=MUTATE,
    build=_build,
    default=True,
    looks_up=("namespaces",),
    wants_deadline=True,
    trusted=True,
)
