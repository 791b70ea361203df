"""The checks of the level ``restricted``.

Source: ``k8s.io/pod-security-admission/policy/check_*.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import JSONObject
from pratique.controllers.pod_security.baseline_checks import (
    CAPABILITIES_BASELINE_ID,
    HOST_PATH_VOLUMES_ID,
    SECCOMP_FIELD,
    SECCOMP_PROFILE_BASELINE_ID,
    SECCOMP_REASON,
    find_forbidden_seccomp_profile,
)
from pratique.controllers.pod_security.checks import (
    CheckResult,
    PodSecurityCheck,
    VersionedCheck,
    as_object,
    bool_field,
    containers,
    int_field,
    object_list,
    pluralize,
    profile_type,
    quoted,
    setters,
    string_field,
    string_list,
    unless_user_namespace,
    unless_windows,
)
from pratique.controllers.pod_security.standards import PodSecurityLevel

if TYPE_CHECKING:
    from pratique.controllers.pod_security.checks import CheckedPod

_ALLOW_PRIVILEGE_ESCALATION = "allowPrivilegeEscalation"


def _find_allow_privilege_escalation(pod: CheckedPod) -> CheckResult | None:
    bad = [
        container.name
        for container in pod.containers
        if bool_field(container.security, _ALLOW_PRIVILEGE_ESCALATION) is not False
    ]
    if not bad:
        return None
    return CheckResult(
        f"{_ALLOW_PRIVILEGE_ESCALATION} != false",
        f"{containers(bad)} must set securityContext.{_ALLOW_PRIVILEGE_ESCALATION}=false",
    )


ALLOW_PRIVILEGE_ESCALATION = PodSecurityCheck(
    "allowPrivilegeEscalation",
    PodSecurityLevel.RESTRICTED,
    (
        VersionedCheck(8, _find_allow_privilege_escalation),
        VersionedCheck(25, unless_windows(_find_allow_privilege_escalation)),
    ),
)


def _find_capabilities(pod: CheckedPod) -> CheckResult | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for container in pod.containers:
        capabilities = as_object(container.security.get("capabilities"), "capabilities")
        if "ALL" not in string_list(capabilities, "drop"):
            keeping.append(container.name)
        extra = set(string_list(capabilities, "add")) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(container.name)
            added |= extra
    details = []
    if keeping:
        details.append(f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = quoted(sorted(added))
        details.append(f"{containers(adding)} must not include {listed} in securityContext.capabilities.add")
    return CheckResult("unrestricted capabilities", "; ".join(details)) if details else None


_CAPABILITIES_OVERRIDES = (CAPABILITIES_BASELINE_ID,)

CAPABILITIES_RESTRICTED = PodSecurityCheck(
    "capabilities_restricted",
    PodSecurityLevel.RESTRICTED,
    (
        VersionedCheck(22, _find_capabilities, _CAPABILITIES_OVERRIDES),
        VersionedCheck(25, unless_windows(_find_capabilities), _CAPABILITIES_OVERRIDES),
    ),
)


_ALLOWED_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_FORBIDDEN_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *(
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
    ),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)
"""If a volume has several sources, the first in this order is reported."""


def _find_restricted_volumes(pod: CheckedPod) -> CheckResult | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in object_list(pod.spec, "volumes"):
        kind = _restricted_volume_type(volume)
        if kind:
            bad.append(string_field(volume, "name"))
            types.add(kind)
    if not bad:
        return None
    uses, what = pluralize("uses", bad, "use"), pluralize("restricted volume type", types)
    detail = f"{pluralize('volume', bad)} {quoted(bad)} {uses} {what} {quoted(sorted(types))}"
    return CheckResult("restricted volume types", detail)


def _restricted_volume_type(volume: JSONObject) -> str:
    """The forbidden type of a volume; empty if its type is allowed."""
    sources = {name for name, value in volume.items() if value is not None} - {"name"}
    # A volume without a source is an emptyDir: pkg/apis/core/v1/defaults.go SetDefaults_Volume.
    if not sources or sources & _ALLOWED_VOLUMES:
        return ""
    return next((name for name in _FORBIDDEN_VOLUMES if name in sources), "unknown")


RESTRICTED_VOLUMES = PodSecurityCheck(
    "restrictedVolumes",
    PodSecurityLevel.RESTRICTED,
    (VersionedCheck(0, _find_restricted_volumes, (HOST_PATH_VOLUMES_ID,)),),
)


_RUN_AS_NON_ROOT = "runAsNonRoot"
_RUN_AS_NON_ROOT_REASON = "runAsNonRoot != true"


def _find_run_as_non_root(pod: CheckedPod) -> CheckResult | None:
    in_pod = bool_field(pod.security, _RUN_AS_NON_ROOT)
    values = [
        (container.name, bool_field(container.security, _RUN_AS_NON_ROOT)) for container in pod.containers
    ]
    refusing = setters([name for name, value in values if value is False], pod=in_pod is False)
    if refusing:
        return CheckResult(
            _RUN_AS_NON_ROOT_REASON, f"{refusing} must not set securityContext.runAsNonRoot=false"
        )
    unset = [name for name, value in values if value is None]
    if unset and not in_pod:
        return CheckResult(
            _RUN_AS_NON_ROOT_REASON, f"pod or {containers(unset)} must set securityContext.runAsNonRoot=true"
        )
    return None


RUN_AS_NON_ROOT = PodSecurityCheck(
    "runAsNonRoot",
    PodSecurityLevel.RESTRICTED,
    (
        VersionedCheck(0, _find_run_as_non_root),
        VersionedCheck(35, unless_user_namespace(_find_run_as_non_root)),
    ),
)


_RUN_AS_USER = "runAsUser"


def _find_run_as_user(pod: CheckedPod) -> CheckResult | None:
    bad = [container.name for container in pod.containers if int_field(container.security, _RUN_AS_USER) == 0]
    who = setters(bad, pod=int_field(pod.security, _RUN_AS_USER) == 0)
    return CheckResult("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


RUN_AS_USER = PodSecurityCheck(
    "runAsUser",
    PodSecurityLevel.RESTRICTED,
    (VersionedCheck(23, _find_run_as_user), VersionedCheck(35, unless_user_namespace(_find_run_as_user))),
)


def _find_seccomp_profile(pod: CheckedPod) -> CheckResult | None:
    forbidden = find_forbidden_seccomp_profile(pod)
    if forbidden is not None or profile_type(pod.security, SECCOMP_FIELD) is not None:
        return forbidden
    unset = [
        container.name
        for container in pod.containers
        if profile_type(container.security, SECCOMP_FIELD) is None
    ]
    if not unset:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return CheckResult(SECCOMP_REASON, f"pod or {containers(unset)} {must}")


_SECCOMP_OVERRIDES = (SECCOMP_PROFILE_BASELINE_ID,)

SECCOMP_PROFILE_RESTRICTED = PodSecurityCheck(
    "seccompProfile_restricted",
    PodSecurityLevel.RESTRICTED,
    (
        VersionedCheck(19, _find_seccomp_profile, _SECCOMP_OVERRIDES),
        VersionedCheck(25, unless_windows(_find_seccomp_profile), _SECCOMP_OVERRIDES),
    ),
)
