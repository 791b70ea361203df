"""``seLinuxOptions``: only SELinux types made for containers, and no user and role of one's own.

Source: ``k8s.io/pod-security-admission/policy/check_seLinuxOptions.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, plural, quoted, setters
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import as_object, text

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.pod_security.checks.definitions import Find
    from pratique.pod_security.pod_shapes import PodShape

_FIELD = "seLinuxOptions"
_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_TYPES_1_31 = _TYPES | {"container_engine_t"}


def _finder(allowed: frozenset[str]) -> Find:
    def find(pod: PodShape) -> Finding | None:
        own = _forbidden(pod.security, allowed)
        named = [(each.name, _forbidden(each.security, allowed)) for each in pod.containers]
        bad = [name for name, found in named if found]
        who = setters(bad, pod=bool(own))
        if not who:
            return None
        what = "; ".join(_described(set(own).union(*(found for _, found in named))))
        return Finding(_FIELD, f"{who} set forbidden securityContext.seLinuxOptions: {what}")

    return find


def _forbidden(security: JSONObject, allowed: frozenset[str]) -> set[tuple[str, str]]:
    """What is set and may not be: ``type`` with its value, ``user`` and ``role``."""
    options = as_object(security.get(_FIELD), _FIELD)
    kind = text(options, "type")
    found = set() if kind in allowed else {("type", kind)}
    return found | {(name, "") for name in ("user", "role") if text(options, name)}


def _described(found: set[tuple[str, str]]) -> list[str]:
    types = sorted(value for name, value in found if name == "type")
    described = [f"{plural('type', types)} {quoted(types)}"] if types else []
    return described + [f"{name} may not be set" for name in ("user", "role") if (name, "") in found]


CHECK = Check(_FIELD, Level.BASELINE, (Revision(0, _finder(_TYPES)), Revision(31, _finder(_TYPES_1_31))))
