"""Sysctls: the kernel parameters that a Pod may have set.

Source: ``pkg/security/podsecuritypolicy/sysctl`` of 1.24, and of 1.10 for those in annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import ROOT, FieldError, FieldPath, forbidden, invalid
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.pod_security_policies.security_contexts import Pod
    from pratique.pod_security_policies.specs import Policy, Spec

SAFE = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
"""Those that concern no other Pod, and that every policy allows that does not forbid them."""

ANNOTATION = "security.alpha.kubernetes.io/sysctls"
"""Up to 1.10: at a Pod, sysctls as ``name=value,…``; at a policy, those that it allows."""
UNSAFE_ANNOTATION = "security.alpha.kubernetes.io/unsafe-sysctls"
"""Up to 1.10: at a Pod, those that a node has to be told to set."""

_PATH = ROOT / "pod" / "spec" / "securityContext" / "sysctls"


def faults(spec: Spec, pod: Pod) -> Iterator[FieldError]:
    """What is wrong with the sysctls of a Pod."""
    for index, sysctl in enumerate(pod.spec.context.sysctls or ()):
        name = sysctl.name or ""
        if _matches(name, spec.forbidden_sysctls):
            yield forbidden(_PATH / index, f"sysctl {go_quoted(name)} is not allowed")
        elif name not in SAFE and not _matches(name, spec.allowed_unsafe_sysctls):
            yield forbidden(_PATH / index, f"unsafe sysctl {go_quoted(name)} is not allowed")


def faults_of_annotations(policy: Policy, pod: Pod) -> Iterator[FieldError]:
    """What is wrong with the sysctls in a Pod's annotations, safe ones among them, as 1.10 sees it."""
    listed = policy.annotations.get(ANNOTATION)
    allowed = ["*"] if listed is None else listed.split(",") if listed else []
    for key in (ANNOTATION, UNSAFE_ANNOTATION):
        path = (ROOT / "pod" / "metadata" / "annotations").key(key)
        yield from _faults_of_text(pod.annotations.get(key, ""), path, allowed)


def _faults_of_text(text: str, path: FieldPath, allowed: Sequence[str]) -> Iterator[FieldError]:
    if not text:
        return
    settings = [setting.split("=") for setting in text.split(",")]
    malformed = next((each for each in settings if len(each) != 2 or not each[0]), None)
    if malformed is not None:
        yield invalid(
            path, text, f"sysctl {go_quoted('='.join(malformed))} not of the format sysctl_name=value"
        )
    elif not allowed:
        yield invalid(path, text, "sysctls are not allowed")
    else:
        for index, (name, _) in enumerate(settings):
            if not _matches(name, allowed):
                # The index stands behind the key, which a path of its own cannot say.
                at = (ROOT / "pod" / "metadata" / "annotations").key(f"{path.subscript}][{index}")
                yield forbidden(at, f"sysctl {go_quoted(name)} is not allowed")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Tell whether any pattern is the name, or ends in ``*`` and begins as the name does."""
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)
