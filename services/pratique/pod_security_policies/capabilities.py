"""Capabilities: what of root's power a container may have, and what it must do without.

Source: ``pkg/security/podsecuritypolicy/capabilities`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, GoLiteral, go_strings, invalid
from pratique.pod_security_policies import go_values
from pratique.pod_security_policies.security_contexts import Capabilities

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.pod_security_policies.specs import Spec

_ALL = "*"
_NONE = Capabilities()


def filled(spec: Spec, asked: Capabilities | None) -> Capabilities | None:
    """What a container gets in place of what it asked for; None where that stays as it is.

    A capability that is added unless somebody says otherwise is not added where the container drops it.
    """
    asked = asked or _NONE
    add, drop = set(asked.add or ()), set(asked.drop or ())
    all_added = (set(spec.default_add_capabilities) - drop) | add
    all_dropped = set(spec.required_drop_capabilities) | drop
    if all_added == add and all_dropped == drop:
        return None
    return Capabilities(sorted(all_added), sorted(all_dropped))


def faults(spec: Spec, path: FieldPath, found: Capabilities | None) -> Iterator[FieldError]:
    """What is wrong with the capabilities at ``path``."""
    if found is None:
        if spec.default_add_capabilities or spec.required_drop_capabilities:
            yield invalid(path, go_values.NIL, "required capabilities are not set on the securityContext")
        return
    if _ALL in spec.allowed_capabilities:
        return
    for capability in found.add or ():
        if capability not in spec.default_add_capabilities + spec.allowed_capabilities:
            yield invalid(path / "add", capability, "capability may not be added")
    for capability in spec.required_drop_capabilities:
        if capability not in (found.drop or ()):
            detail = f"{capability} is required to be dropped but was not found"
            yield invalid(path / "drop", _printed(found.drop), detail)


def _printed(names: Sequence[str] | None) -> GoLiteral:
    if names is not None and not names:
        return GoLiteral("[]core.Capability{}")
    return GoLiteral(go_strings("core.Capability", names or ()))
