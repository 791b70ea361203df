"""ValidatingAdmissionPolicy: policies written in CEL deny requests, warn, or write to the audit log.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pratique.admission.controllers import VALIDATE, Controller, Handler, Handlers, NoSettings
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.configuration.loading import Configurations
from pratique.telemetry.policy_metrics import validating_policy_metrics


def _allow_without_policies(_: Review) -> Answer:
    """Admit the request: there are no policies."""
    return allow()


class _ValidatingPolicySet:
    """The policies that are configured now."""

    def __init__(self) -> None:
        self.checks = validating_policy_metrics()
        self._judge: Callable[[Review], Answer | Awaitable[Answer]] | None = None

    def use_configurations(self, configurations: Configurations) -> Handler:
        """Switch to these policies; return the handler that goes on using them."""
        if not configurations.validating_policies or not configurations.validating_bindings:
            self._judge = None
            return _allow_without_policies
        # CEL is 14 MB of code that only chains with policies need.
        from pratique.policies.exceptions import Exemptions  # noqa: PLC0415
        from pratique.policies.rollouts import Rollouts  # noqa: PLC0415
        from pratique.policies.validating import ValidatingPolicies, validate  # noqa: PLC0415

        policies = ValidatingPolicies(
            configurations.validating_policies,
            configurations.validating_bindings,
            Exemptions(configurations.exceptions),
            Rollouts(configurations.rollouts),
        )
        self._judge = (lambda review: validate(policies, review, self.checks)) if policies else None
        return self._judge or _allow_without_policies

    def validate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Evaluate all policies that match the request."""
        return allow() if self._judge is None else self._judge(review)


def _build(_: NoSettings) -> Handlers:
    policies = _ValidatingPolicySet()
    return Handlers(
        validate=policies.validate,
        use_configurations=policies.use_configurations,
        collectors=(policies.checks,),
    )


CONTROLLER = Controller(
    name="ValidatingAdmissionPolicy",
    summary="Denies requests, warns, or writes to the audit log by policies written in CEL.",
    phases=VALIDATE,
    build=_build,
    default=True,
    looks_up=("namespaces",),
    wants_deadline=True,
    trusted=True,
)
