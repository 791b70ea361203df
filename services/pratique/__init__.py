"""Pratique: Kubernetes admission control. This is what the author of a policy imports.

A policy is one callable that is given a :class:`Review` and answers with :func:`allow`, :func:`deny`,
:func:`patch` or :func:`warn`; :func:`validator` and :func:`mutator` make a :class:`Controller` of it.
Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.admission.controllers import (
        Controller,
        Handler,
        Handlers,
        NoSettings,
        Phase,
        mutator,
        validator,
    )
    from pratique.admission.edits import Edits
    from pratique.admission.results import Allow, Answer, Deny, Patch, allow, deny, patch, warn
    from pratique.admission.reviews import Review
    from pratique.admission.rules import EVERYTHING, Rule, rule
    from pratique.apimachinery.errors import ConfigurationError, RefusalError
    from pratique.apimachinery.json_values import JSON, member
    from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
    from pratique.apimachinery.requests import Operation, UserInfo
    from pratique.apimachinery.statuses import Status
    from pratique.cluster.store import Cluster

__all__ = [
    "EVERYTHING",
    "JSON",
    "Allow",
    "Answer",
    "Cluster",
    "ConfigurationError",
    "Controller",
    "Deny",
    "Edits",
    "GroupVersionKind",
    "GroupVersionResource",
    "Handler",
    "Handlers",
    "NoSettings",
    "Operation",
    "Patch",
    "Phase",
    "RefusalError",
    "Review",
    "Rule",
    "Status",
    "UserInfo",
    "allow",
    "deny",
    "member",
    "mutator",
    "patch",
    "rule",
    "validator",
    "warn",
]

_HOMES = {
    "admission.results": ("Allow", "Answer", "Deny", "Patch", "allow", "deny", "patch", "warn"),
    "cluster.store": ("Cluster",),
    "admission.controllers": (
        "Controller",
        "Handler",
        "Handlers",
        "NoSettings",
        "Phase",
        "mutator",
        "validator",
    ),
    "admission.edits": ("Edits",),
    "apimachinery.errors": ("ConfigurationError", "RefusalError"),
    "apimachinery.json_values": ("JSON", "member"),
    "admission.reviews": ("Review",),
    "apimachinery.requests": ("Operation", "UserInfo"),
    "apimachinery.kinds": ("GroupVersionKind", "GroupVersionResource"),
    "admission.rules": ("EVERYTHING", "Rule", "rule"),
    "apimachinery.statuses": ("Status",),
}
"""In which module each public name is defined."""


if not TYPE_CHECKING:  # type checkers would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a public name from the module that defines it."""
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
