"""DenyExecOnPrivileged: denies exec and attach to Pods that have a privileged container.

Source: ``plugin/pkg/admission/exec/admission.go`` of 1.20, the last release that had it.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Deny
from pratique.admission.reviews import Review
from pratique.controllers.deny_escalating_exec import RULES, connected_pod, refuse_privileged


def validate(review: Review) -> Answer:
    """Deny if the Pod has a privileged container, whichever container the request names."""
    pod = connected_pod(review)
    return pod if isinstance(pod, Deny) else refuse_privileged(pod)


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="DenyExecOnPrivileged",
    summary="Denies exec and attach to Pods that have a privileged container.",
    phases=VALIDATE,
    rules=RULES,
    build=_build,
    looks_up=("pods",),
    deprecated_in="1.14",
    removed_in="1.21",
    replaced_by="PodSecurity",
    trusted=True,
)
