"""The checks of the level ``restricted``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.controllers.pod_security import baseline_checks
from pratique.controllers.pod_security import baseline_checks as baseline
from pratique.controllers.pod_security.checks import (
    Check,
    Finding,
    Revision,
    containers,
    plural,
    profile_type,
    quoted,
    setters,
    unless_own_users,
    unless_windows,
)
from pratique.controllers.pod_security.pod_shapes import as_object, flag, integer, objects, text, texts
from pratique.controllers.pod_security.standards import Level

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSONObject
    from pratique.controllers.pod_security.pod_shapes import PodShape

_FIELD = "allowPrivilegeEscalation"


def _find_allow_privilege_escalation(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if flag(each.security, _FIELD) is not False]
    if not bad:
        return None
    return Finding(f"{_FIELD} != false", f"{containers(bad)} must set securityContext.{_FIELD}=false")


ALLOW_PRIVILEGE_ESCALATION = Check(
    "allowPrivilegeEscalation",
    Level.RESTRICTED,
    (
        Revision(8, _find_allow_privilege_escalation),
        Revision(25, unless_windows(_find_allow_privilege_escalation)),
    ),
)


def _find_capabilities(pod: PodShape) -> Finding | None:
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
    return Finding("unrestricted capabilities", "; ".join(found)) if found else None


_OVERRIDES = (baseline_checks.CAPABILITIES_BASELINE_ID,)

CAPABILITIES_RESTRICTED = Check(
    "capabilities_restricted",
    Level.RESTRICTED,
    (
        Revision(22, _find_capabilities, _OVERRIDES),
        Revision(25, unless_windows(_find_capabilities), _OVERRIDES),
    ),
)


_ALLOWED = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_FORBIDDEN = (
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


def _find_restricted_volumes(pod: PodShape) -> Finding | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in objects(pod.spec, "volumes"):
        kind = _forbidden_type(volume)
        if kind:
            bad.append(text(volume, "name"))
            types.add(kind)
    if not bad:
        return None
    uses, what = plural("uses", bad, "use"), plural("restricted volume type", types)
    detail = f"{plural('volume', bad)} {quoted(bad)} {uses} {what} {quoted(sorted(types))}"
    return Finding("restricted volume types", detail)


def _forbidden_type(volume: JSONObject) -> str:
    """What a volume comes from that it may not; empty where there is nothing against it."""
    sources = {name for name, value in volume.items() if value is not None} - {"name"}
    # Without any, it is an emptyDir: pkg/apis/core/v1/defaults.go SetDefaults_Volume.
    if not sources or sources & _ALLOWED:
        return ""
    return next((name for name in _FORBIDDEN if name in sources), "unknown")


RESTRICTED_VOLUMES = Check(
    "restrictedVolumes",
    Level.RESTRICTED,
    (Revision(0, _find_restricted_volumes, (baseline_checks.HOST_PATH_VOLUMES_ID,)),),
)


_RUN_AS_NON_ROOT_FIELD = "runAsNonRoot"
_REASON = "runAsNonRoot != true"


def _find_run_as_non_root(pod: PodShape) -> Finding | None:
    in_pod = flag(pod.security, _RUN_AS_NON_ROOT_FIELD)
    said = [(each.name, flag(each.security, _RUN_AS_NON_ROOT_FIELD)) for each in pod.containers]
    refusing = setters([name for name, value in said if value is False], pod=in_pod is False)
    if refusing:
        return Finding(_REASON, f"{refusing} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in said if value is None]
    if silent and not in_pod:
        return Finding(_REASON, f"pod or {containers(silent)} must set securityContext.runAsNonRoot=true")
    return None


RUN_AS_NON_ROOT = Check(
    "runAsNonRoot",
    Level.RESTRICTED,
    (Revision(0, _find_run_as_non_root), Revision(35, unless_own_users(_find_run_as_non_root))),
)


_RUN_AS_USER_FIELD = "runAsUser"


def _find_run_as_user(pod: PodShape) -> Finding | None:
    bad = [each.name for each in pod.containers if integer(each.security, _RUN_AS_USER_FIELD) == 0]
    found = setters(bad, pod=integer(pod.security, _RUN_AS_USER_FIELD) == 0)
    return Finding("runAsUser=0", f"{found} must not set runAsUser=0") if found else None


RUN_AS_USER = Check(
    "runAsUser",
    Level.RESTRICTED,
    (Revision(23, _find_run_as_user), Revision(35, unless_own_users(_find_run_as_user))),
)


def _find_seccomp_profile(pod: PodShape) -> Finding | None:
    forbidden = baseline.find_forbidden(pod)
    if forbidden is not None or profile_type(pod.security, baseline.FIELD) is not None:
        return forbidden
    silent = [each.name for each in pod.containers if profile_type(each.security, baseline.FIELD) is None]
    if not silent:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding(baseline.REASON, f"pod or {containers(silent)} {must}")


_SECCOMP_PROFILE_RESTRICTED_OVERRIDES = (baseline.SECCOMP_PROFILE_BASELINE_ID,)

SECCOMP_PROFILE_RESTRICTED = Check(
    "seccompProfile_restricted",
    Level.RESTRICTED,
    (
        Revision(19, _find_seccomp_profile, _SECCOMP_PROFILE_RESTRICTED_OVERRIDES),
        Revision(25, unless_windows(_find_seccomp_profile), _SECCOMP_PROFILE_RESTRICTED_OVERRIDES),
    ),
)
