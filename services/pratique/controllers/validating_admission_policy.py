"""ValidatingAdmissionPolicy: policies written in CEL refuse requests, warn, or write to the audit log.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.answers import Answer, allow
from pratique.admission.controllers import VALIDATE, Controller, Halves, NoSettings
from pratique.telemetry.policy_metrics import validating_checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pratique.admission.controllers import Half
    from pratique.admission.reviews import Review
    from pratique.configuration.loading import Configurations


def _nothing(_: Review) -> Answer:
    """Ask no policies."""
    return allow()


class _Policies:
    """The policies that are configured now."""

    def __init__(self) -> None:
        self.checks = validating_checks()
        self._judge: Callable[[Review], Answer | Awaitable[Answer]] | None = None

    def use(self, configurations: Configurations) -> Half:
        """Ask these policies from now on; gives the half that goes on asking them."""
        if not configurations.validating_policies or not configurations.validating_bindings:
            self._judge = None
            return _nothing
        # CEL is 14 MB of code that only those who have policies need.
        from pratique.policies.validating import ValidatingPolicies, judge  # noqa: PLC0415

        policies = ValidatingPolicies(configurations.validating_policies, configurations.validating_bindings)
        self._judge = (lambda review: judge(policies, review, self.checks)) if policies else None
        return self._judge or _nothing

    def validate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Ask all policies that mean the request."""
        return allow() if self._judge is None else self._judge(review)


def _build(_: NoSettings) -> Halves:
    policies = _Policies()
    return Halves(validate=policies.validate, use=policies.use, collectors=(policies.checks,))


CONTROLLER = Controller(
    name="ValidatingAdmissionPolicy",
    summary="Has policies written in CEL refuse requests, warn, or write to the audit log.",
    phases=VALIDATE,
    build=_build,
    default=True,
    looks_up=("namespaces",),
    timed=True,
    trusted=True,
)
