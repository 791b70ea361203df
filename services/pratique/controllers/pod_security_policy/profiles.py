"""Profiles: seccomp and AppArmor, of which policies speak in their annotations.

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
"""The runtime's own profile, under its name and the one that it had at first."""


def default_app_armor(policy: PodSecurityPolicy, pod: Pod, container: Container) -> tuple[str, str] | None:
    """The annotation that gives a container its AppArmor profile; None where nothing is to be written."""
    key = APP_ARMOR_CONTAINER_PREFIX + (container.name or "")
    profile = policy.annotations.get(APP_ARMOR_DEFAULT_ANNOTATION)
    return (key, profile) if profile and not pod.annotations.get(key) else None


def app_armor_errors(policy: PodSecurityPolicy, pod: Pod, container: Container) -> Iterator[FieldError]:
    """What is wrong with the AppArmor profile of a container."""
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
    """The profile to annotate a Pod with; empty where it stays as it is.

    An API server has written down in the annotation what the field says before it comes to admission. Args:
        fields: Look at the field, as since 1.19.
    """
    if pod.annotations.get(SECCOMP_POD_ANNOTATION) or (
        fields and pod.spec.context.seccomp_profile is not None
    ):
        return ""
    return policy.annotations.get(SECCOMP_DEFAULT_ANNOTATION, "")


def pod_seccomp_errors(policy: PodSecurityPolicy, pod: Pod, *, fields: bool) -> Iterator[FieldError]:
    """What is wrong with the seccomp profile of a Pod."""
    profile = pod.annotations.get(SECCOMP_POD_ANNOTATION, "")
    if fields and not profile and pod.spec.context.seccomp_profile is not None:
        profile = _annotation_value(pod.spec.context.seccomp_profile)
    yield from _seccomp_errors(policy, profile, _POD_ANNOTATIONS.key(SECCOMP_POD_ANNOTATION), fields=fields)


def container_seccomp_errors(
    policy: PodSecurityPolicy, pod: Pod, container: Container, *, fields: bool
) -> Iterator[FieldError]:
    """What is wrong with the seccomp profile of a container."""
    key = SECCOMP_CONTAINER_PREFIX + (container.name or "")
    profile = _container_profile(pod, container, key, fields=fields)
    yield from _seccomp_errors(policy, profile, _POD_ANNOTATIONS.key(key), fields=fields)


def _container_profile(pod: Pod, container: Container, key: str, *, fields: bool) -> str:
    """The container's own profile, else the Pod's; fields before annotations."""
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
        # Fields have one word for both, so that who allows the one has allowed the other.
        allowed |= _RUNTIME_DEFAULTS
    if profile not in allowed:
        detail = f"{profile} is not an allowed seccomp profile. Valid values are {listed}"
        yield forbidden(path, detail)


def _annotation_value(profile: SeccompProfile) -> str:
    """What annotations call a profile; empty for one that they have no name for."""
    if profile.type == "Localhost" and profile.localhost_profile is not None:
        return f"localhost/{profile.localhost_profile}"
    return {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}.get(profile.type or "", "")
