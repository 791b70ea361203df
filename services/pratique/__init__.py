"""Pratique: Kubernetes admission control. Policies import everything that they need from here.

A policy is a callable that takes a :class:`Review` and returns :func:`allow`, :func:`deny`, :func:`patch` or
:func:`warn`; :func:`validator` and :func:`mutator` turn it into a :class:`Controller`. Names are loaded on first use,
so that importing the package costs next to nothing.
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
    )
    from pratique.admission.function_policies import mutator, validator
    from pratique.admission.results import Allow, Answer, Deny, Edits, Patch, allow, deny, patch, warn
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

_MODULES = {
    "admission.results": ("Allow", "Answer", "Deny", "Edits", "Patch", "allow", "deny", "patch", "warn"),
    "cluster.store": ("Cluster",),
    "admission.controllers": (
        "Controller",
        "Handler",
        "Handlers",
        "NoSettings",
        "Phase",
    ),
    "admission.function_policies": ("mutator", "validator"),
    "apimachinery.errors": ("ConfigurationError", "RefusalError"),
    "apimachinery.json_values": ("JSON", "member"),
    "admission.reviews": ("Review",),
    "apimachinery.requests": ("Operation", "UserInfo"),
    "apimachinery.kinds": ("GroupVersionKind", "GroupVersionResource"),
    "admission.rules": ("EVERYTHING", "Rule", "rule"),
    "apimachinery.statuses": ("Status",),
}
"""The module that defines each public name."""


if not TYPE_CHECKING:  # with this function, type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Load a public name from its module."""
        for module, names in _MODULES.items():
            if name in names:
                value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
