"""Seccomp and AppArmor profiles, which policies control by their annotations.

Source: ``pkg/security/podsecuritypolicy/{seccomp,apparmor}`` of 1.24.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, forbidden
from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.pod_security_policy.api_types import (
    Container,
    Pod,
    PodSecurityPolicy,
    SeccompProfile,
)

SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
SECCOMP_DEFAULT_ANNOTATION = "seccomp.security.alpha.kubernetes.io/defaultProfileName"
SECCOMP_ALLOWED_ANNOTATION = "seccomp.security.alpha.kubernetes.io/allowedProfileNames"
APP_ARMOR_CONTAINER_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
APP_ARMOR_DEFAULT_ANNOTATION = "apparmor.security.beta.kubernetes.io/defaultProfileName"
APP_ARMOR_ALLOWED_ANNOTATION = "apparmor.security.beta.kubernetes.io/allowedProfileNames"

_POD_ANNOTATIONS = ROOT / "pod" / "metadata" / "annotations"
_RUNTIME_DEFAULTS = frozenset({"runtime/default", "docker/default"})
"""The runtime's default profile, under its current and its original name."""


def default_app_armor(policy: PodSecurityPolicy, pod: Pod, container: Container) -> tuple[str, str] | None:
    """The annotation that sets a container's default AppArmor profile; None if there is nothing to set."""
    key = APP_ARMOR_CONTAINER_PREFIX + (container.name or "")
    profile = policy.annotations.get(APP_ARMOR_DEFAULT_ANNOTATION)
    return (key, profile) if profile and not pod.annotations.get(key) else None


def app_armor_errors(policy: PodSecurityPolicy, pod: Pod, container: Container) -> Iterator[FieldError]:
    """The errors in the AppArmor profile of a container."""
    allowed = policy.annotations.get(APP_ARMOR_ALLOWED_ANNOTATION)
    if allowed is None:
        return
    key = APP_ARMOR_CONTAINER_PREFIX + (container.name or "")
    profile = pod.annotations.get(key)
    if not profile:
        yield forbidden(_POD_ANNOTATIONS.key(key), "AppArmor profile must be set")
    elif profile not in allowed.split(","):
        detail = f"{profile} is not an allowed profile. Allowed values: {go_quoted(allowed)}"
        yield forbidden(_POD_ANNOTATIONS.key(key), detail)


def default_seccomp(policy: PodSecurityPolicy, pod: Pod, *, fields: bool) -> str:
    """The seccomp profile to annotate a Pod with; empty to leave the Pod unchanged.

    Before admission, an API server copies the field into the annotation.

    Args:
        policy: The policy.
        pod: The Pod.
        fields: Read the field too, as since 1.19.
    """
    if pod.annotations.get(SECCOMP_POD_ANNOTATION) or (
        fields and pod.spec.context.seccomp_profile is not None
    ):
        return ""
    return policy.annotations.get(SECCOMP_DEFAULT_ANNOTATION, "")


def pod_seccomp_errors(policy: PodSecurityPolicy, pod: Pod, *, fields: bool) -> Iterator[FieldError]:
    """The errors in the seccomp profile of a Pod."""
    profile = pod.annotations.get(SECCOMP_POD_ANNOTATION, "")
    if fields and not profile and pod.spec.context.seccomp_profile is not None:
        profile = _annotation_value(pod.spec.context.seccomp_profile)
    yield from _seccomp_errors(policy, profile, _POD_ANNOTATIONS.key(SECCOMP_POD_ANNOTATION), fields=fields)


def container_seccomp_errors(
    policy: PodSecurityPolicy, pod: Pod, container: Container, *, fields: bool
) -> Iterator[FieldError]:
    """The errors in the seccomp profile of a container."""
    key = SECCOMP_CONTAINER_PREFIX + (container.name or "")
    profile = _container_profile(pod, container, key, fields=fields)
    yield from _seccomp_errors(policy, profile, _POD_ANNOTATIONS.key(key), fields=fields)


def _container_profile(pod: Pod, container: Container, key: str, *, fields: bool) -> str:
    """The container's own profile, otherwise the Pod's. Fields take precedence over annotations."""
    if fields and container.context.seccomp_profile is not None:
        return _annotation_value(container.context.seccomp_profile)
    if key in pod.annotations:
        return pod.annotations[key]
    if fields and pod.spec.context.seccomp_profile is not None:
        return _annotation_value(pod.spec.context.seccomp_profile)
    return pod.annotations.get(SECCOMP_POD_ANNOTATION, "")


def _seccomp_errors(
    policy: PodSecurityPolicy, profile: str, path: FieldPath, *, fields: bool
) -> Iterator[FieldError]:
    listed = policy.annotations.get(SECCOMP_ALLOWED_ANNOTATION)
    allowed = set() if listed is None else set(listed.split(","))
    if "*" in allowed:
        return
    if not allowed:
        if profile:
            yield forbidden(path, "seccomp may not be set")
        return
    if fields and allowed & _RUNTIME_DEFAULTS:
        # Fields have one value for both, so a policy that allows either annotation allows the field.
        allowed |= _RUNTIME_DEFAULTS
    if profile not in allowed:
        detail = f"{profile} is not an allowed seccomp profile. Valid values are {listed}"
        yield forbidden(path, detail)


def _annotation_value(profile: SeccompProfile) -> str:
    """The annotation's value for a profile; empty if there is none."""
    if profile.type == "Localhost" and profile.localhost_profile is not None:
        return f"localhost/{profile.localhost_profile}"
    return {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}.get(profile.type or "", "")
