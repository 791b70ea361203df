"""PodSecurityPolicy: defaults and validates Pods by a policy that their account or author may use.

Source: ``plugin/pkg/admission/security/podsecuritypolicy/admission.go`` of 1.24, the last release that had it. The
settings are here; :mod:`.admission` decides.
"""

from __future__ import annotations

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.rules import rule
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.field_errors import ROOT, not_supported

_EARLY_RELEASE = "1.10"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    release: str = ""
    """``1.10``: its messages, and sysctls and seccomp profiles only by annotations. Empty: as 1.24."""


def build(settings: Settings) -> Handlers:
    """Make the controller."""
    if settings.release not in ("", _EARLY_RELEASE):
        raise ConfigurationError(str(not_supported(ROOT / "release", settings.release, [_EARLY_RELEASE])))
    # Imported late: most chains have no such policies.
    from pratique.controllers.pod_security_policy.admission import PodSecurityPolicyAdmission  # noqa: PLC0415
    from pratique.controllers.pod_security_policy.providers import RELEASE_1_10, RELEASE_1_24  # noqa: PLC0415

    policies = PodSecurityPolicyAdmission(RELEASE_1_10 if settings.release else RELEASE_1_24)
    return Handlers(mutate=policies.mutate, validate=policies.validate)


CONTROLLER = Controller(
    name="PodSecurityPolicy",
    summary="Defaults and validates Pods by a policy that their account or author may use.",
    phases=BOTH,
    rules=(rule("pods"),),
    build=build,
    settings=Settings,
    looks_up=("podsecuritypolicies",),
    may_look_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    deprecated_in="1.21",
    removed_in="1.25",
    replaced_by="PodSecurity",
    trusted=True,
)
