"""The addresses and address families of Services.

Source: ``ValidateServiceClusterIPsRelatedFields`` and ``validateUpgradeDowngrade…`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.addresses import is_ipv6, validate_legacy_ip

_IPS, _FAMILIES, _POLICY = (ROOT / "spec" / name for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"))
_FAMILY_NAMES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_EXTERNAL_NAME, _SINGLE = "ExternalName", "SingleStack"
_UNCHANGEABLE = "may not change once set"


def is_headless(spec: JSONObject) -> bool:
    """Tell whether a Service has no address of its own: ``isHeadlessService``."""
    return (spec.get("clusterIPs") or [spec.get("clusterIP")]) == ["None"]


def validate_cluster_ips(spec: JSONObject, old_spec: JSONObject | None) -> list[FieldError]:
    """Validate addresses and families of a Service together."""
    if spec.get("type") == _EXTERNAL_NAME:
        return []
    ips, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    errors = _validate_first(spec.get("clusterIP") or "", ips)
    seen = set()
    for index, family in enumerate(families):
        if family not in _FAMILY_NAMES:
            errors.append(not_supported(_FAMILIES / index, family, _FAMILY_NAMES))
        if family in seen:
            errors.append(duplicate(_FAMILIES / index, family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported(_POLICY, policy, _POLICIES))
    malformed = _validate_each(ips, frozenset((old_spec or {}).get("clusterIPs") or ()))
    errors += malformed
    if len(ips) > 2:
        errors.append(invalid(_IPS, ips, "may only hold up to 2 values"))
    return errors if malformed else errors + _validate_stack(spec, ips, families)


def _validate_first(ip: str, ips: Sequence[str]) -> list[FieldError]:
    if not ip:
        message = "must be empty when `clusterIP` is not specified"
        return [invalid(_IPS, list(ips), message)] if ips else []
    if not ips:
        return [required(_IPS)]
    return [] if ips[0] == ip else [invalid(_IPS, list(ips), "first value must match `clusterIP`")]


def _validate_each(ips: Sequence[str], accepted: AbstractSet[str]) -> list[FieldError]:
    errors = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == "None":
            if len(ips) > 1:
                errors.append(invalid(_IPS, list(ips), "'None' must be the first and only value"))
        else:
            errors += validate_legacy_ip(ip, _IPS / index, accepted)
    return errors


def _validate_stack(spec: JSONObject, ips: list[str], families: Sequence[str]) -> list[FieldError]:
    errors = []
    if len(ips) > 1 and len({is_ipv6(ip) for ip in ips}) < 2:
        errors.append(invalid(_IPS, ips, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return errors
    for index, (ip, family) in enumerate(zip(ips, families, strict=False)):
        found = _FAMILY_NAMES[is_ipv6(ip)]
        if family in _FAMILY_NAMES and family != found:
            message = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(_IPS / index, ip, message))
    return errors


def validate_family_counts(spec: JSONObject, old_spec: JSONObject | None) -> list[FieldError]:
    """Validate how many addresses and families a Service names, once they are valid: ``initIPFamilyFields``."""
    if spec.get("type") == _EXTERNAL_NAME:
        return []
    policy, errors = spec.get("ipFamilyPolicy"), []
    for name, one, several in (
        ("clusterIPs", "secondary cluster IP", "cluster IPs"),
        ("ipFamilies", "secondary IP family", "IP families"),
    ):
        count, before = (len((held or {}).get(name) or ()) for held in (spec, old_spec))
        if policy != _SINGLE and 0 < count < before:
            errors.append(invalid(_POLICY, policy, f"must be 'SingleStack' to release the {one}"))
        elif policy == _SINGLE and count == 2:
            detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
            errors.append(invalid(_POLICY, policy, detail))
    return errors


def validate_cluster_ips_update(spec: JSONObject, old_spec: JSONObject) -> list[FieldError]:
    """Validate that an update keeps the addresses of a Service."""
    if _EXTERNAL_NAME in {spec.get("type"), old_spec.get("type")}:
        return []
    if is_headless(spec) and is_headless(old_spec):
        return []
    ips, old = spec.get("clusterIPs") or [], old_spec.get("clusterIPs") or []
    if len(ips) == len(old):
        return [
            invalid(_IPS / index, ips, _UNCHANGEABLE)
            for index, (ip, before) in enumerate(zip(ips, old, strict=True))
            if ip != before
        ]
    errors = []
    if not ips:
        errors.append(invalid(_IPS / 0, ips, "primary clusterIP can not be unset"))
    elif old and ips[0] != old[0]:
        errors.append(invalid(_IPS / 0, ips, _UNCHANGEABLE))
    if len(ips) == 1 and len(old) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        message = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid(_POLICY, spec.get("ipFamilyPolicy"), message))
    return errors


def validate_families_update(spec: JSONObject, old_spec: JSONObject) -> list[FieldError]:
    """Validate that an update keeps the first address family of a Service."""
    if _EXTERNAL_NAME in {spec.get("type"), old_spec.get("type")}:
        return []
    if is_headless(spec) or is_headless(old_spec):
        return []
    families, old = spec.get("ipFamilies") or [], old_spec.get("ipFamilies") or []
    ips = spec.get("clusterIPs") or []
    if len(families) == len(old):
        return [
            invalid(_FAMILIES / 0, families, _UNCHANGEABLE)
            for family, before in zip(families, old, strict=True)
            if family != before
        ]
    errors = []
    if len(old) > len(families) and not ips:
        errors.append(invalid(_FAMILIES / 0, families, "primary ipFamily can not be unset"))
    if families and old and families[0] != old[0]:
        errors.append(invalid(_FAMILIES / 0, ips, _UNCHANGEABLE))
    if len(families) == 1 and len(old) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        message = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid(_POLICY, spec.get("ipFamilyPolicy"), message))
    return errors
