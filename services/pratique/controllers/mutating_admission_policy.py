"""MutatingAdmissionPolicy: policies written in CEL change objects.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.answers import Answer, allow
from pratique.admission.controllers import MUTATE, Controller, Halves, NoSettings
from pratique.telemetry.policy_metrics import mutating_checks

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
        self.checks = mutating_checks()
        self._admit: Callable[[Review], Answer | Awaitable[Answer]] | None = None

    def use(self, configurations: Configurations) -> Half:
        """Ask these policies from now on; gives the half that goes on asking them."""
        if not configurations.mutating_policies or not configurations.mutating_bindings:
            self._admit = None
            return _nothing
        # CEL is 14 MB of code that only those who have policies need.
        from pratique.cluster import schemas  # noqa: PLC0415
        from pratique.policies.mutating import MutatingPolicies  # noqa: PLC0415
        from pratique.policies.validating import admit  # noqa: PLC0415

        policies = MutatingPolicies(configurations.mutating_policies, configurations.mutating_bindings)
        schemas.load()
        self._admit = (lambda review: admit(policies, review, self.checks)) if policies else None
        return self._admit or _nothing

    def mutate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Have all policies that mean the request change its object."""
        return allow() if self._admit is None else self._admit(review)


def _build(_: NoSettings) -> Halves:
    policies = _Policies()
    return Halves(mutate=policies.mutate, use=policies.use, collectors=(policies.checks,))


CONTROLLER = Controller(
    name="MutatingAdmissionPolicy",
    summary="Has policies written in CEL change objects.",
    phases=MUTATE,
    build=_build,
    default=True,
    looks_up=("namespaces",),
    timed=True,
    trusted=True,
)
