"""The checks of the level ``restricted``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import JSONObject
from pratique.controllers.pod_security import baseline_checks
from pratique.controllers.pod_security import baseline_checks as baseline
from pratique.controllers.pod_security.checks import (
    CheckResult,
    PodSecurityCheck,
    VersionedCheck,
    as_object,
    containers,
    flag,
    integer,
    objects,
    pluralize,
    profile_type,
    quoted,
    setters,
    text,
    texts,
    unless_user_namespace,
    unless_windows,
)
from pratique.controllers.pod_security.standards import PodSecurityLevel

if TYPE_CHECKING:
    from pratique.controllers.pod_security.checks import CheckedPod

_ALLOW_PRIVILEGE_ESCALATION = "allowPrivilegeEscalation"


def _find_allow_privilege_escalation(pod: CheckedPod) -> CheckResult | None:
    bad = [
        each.name for each in pod.containers if flag(each.security, _ALLOW_PRIVILEGE_ESCALATION) is not False
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
    for each in pod.containers:
        capabilities = as_object(each.security.get("capabilities"), "capabilities")
        if "ALL" not in texts(capabilities, "drop"):
            keeping.append(each.name)
        extra = set(texts(capabilities, "add")) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(each.name)
            added |= extra
    found = []
    if keeping:
        found.append(f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = quoted(sorted(added))
        found.append(f"{containers(adding)} must not include {listed} in securityContext.capabilities.add")
    return CheckResult("unrestricted capabilities", "; ".join(found)) if found else None


_CAPABILITIES_OVERRIDES = (baseline_checks.CAPABILITIES_BASELINE_ID,)

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
"""In the order in which one is named where a volume has several."""


def _find_restricted_volumes(pod: CheckedPod) -> CheckResult | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in objects(pod.spec, "volumes"):
        kind = _restricted_volume_type(volume)
        if kind:
            bad.append(text(volume, "name"))
            types.add(kind)
    if not bad:
        return None
    uses, what = pluralize("uses", bad, "use"), pluralize("restricted volume type", types)
    detail = f"{pluralize('volume', bad)} {quoted(bad)} {uses} {what} {quoted(sorted(types))}"
    return CheckResult("restricted volume types", detail)


def _restricted_volume_type(volume: JSONObject) -> str:
    """What a volume comes from that it may not; empty where there is nothing against it."""
    sources = {name for name, value in volume.items() if value is not None} - {"name"}
    # Without any, it is an emptyDir: pkg/apis/core/v1/defaults.go SetDefaults_Volume.
    if not sources or sources & _ALLOWED_VOLUMES:
        return ""
    return next((name for name in _FORBIDDEN_VOLUMES if name in sources), "unknown")


RESTRICTED_VOLUMES = PodSecurityCheck(
    "restrictedVolumes",
    PodSecurityLevel.RESTRICTED,
    (VersionedCheck(0, _find_restricted_volumes, (baseline_checks.HOST_PATH_VOLUMES_ID,)),),
)


_RUN_AS_NON_ROOT = "runAsNonRoot"
_RUN_AS_NON_ROOT_REASON = "runAsNonRoot != true"


def _find_run_as_non_root(pod: CheckedPod) -> CheckResult | None:
    in_pod = flag(pod.security, _RUN_AS_NON_ROOT)
    said = [(each.name, flag(each.security, _RUN_AS_NON_ROOT)) for each in pod.containers]
    refusing = setters([name for name, value in said if value is False], pod=in_pod is False)
    if refusing:
        return CheckResult(
            _RUN_AS_NON_ROOT_REASON, f"{refusing} must not set securityContext.runAsNonRoot=false"
        )
    silent = [name for name, value in said if value is None]
    if silent and not in_pod:
        return CheckResult(
            _RUN_AS_NON_ROOT_REASON, f"pod or {containers(silent)} must set securityContext.runAsNonRoot=true"
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
    bad = [each.name for each in pod.containers if integer(each.security, _RUN_AS_USER) == 0]
    found = setters(bad, pod=integer(pod.security, _RUN_AS_USER) == 0)
    return CheckResult("runAsUser=0", f"{found} must not set runAsUser=0") if found else None


RUN_AS_USER = PodSecurityCheck(
    "runAsUser",
    PodSecurityLevel.RESTRICTED,
    (VersionedCheck(23, _find_run_as_user), VersionedCheck(35, unless_user_namespace(_find_run_as_user))),
)


def _find_seccomp_profile(pod: CheckedPod) -> CheckResult | None:
    forbidden = baseline.find_forbidden_seccomp_profile(pod)
    if forbidden is not None or profile_type(pod.security, baseline.SECCOMP_FIELD) is not None:
        return forbidden
    silent = [
        each.name for each in pod.containers if profile_type(each.security, baseline.SECCOMP_FIELD) is None
    ]
    if not silent:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return CheckResult(baseline.SECCOMP_REASON, f"pod or {containers(silent)} {must}")


_SECCOMP_OVERRIDES = (baseline.SECCOMP_PROFILE_BASELINE_ID,)

SECCOMP_PROFILE_RESTRICTED = PodSecurityCheck(
    "seccompProfile_restricted",
    PodSecurityLevel.RESTRICTED,
    (
        VersionedCheck(19, _find_seccomp_profile, _SECCOMP_OVERRIDES),
        VersionedCheck(25, unless_windows(_find_seccomp_profile), _SECCOMP_OVERRIDES),
    ),
)
