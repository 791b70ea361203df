"""Pratique: Kubernetes admission control. This is what the author of a policy imports.

A policy is one callable that is given a :class:`Review` and answers with :func:`allow`, :func:`deny`,
:func:`patch` or :func:`warn`; :func:`validator` and :func:`mutator` make a :class:`Controller` of it.
Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.answers import Allow, Answer, Deny, Patch, allow, deny, patch, warn
    from pratique.clusters import Cluster
    from pratique.definitions import Controller, Half, Halves, NoSettings, Phase
    from pratique.edits import Edits
    from pratique.errors import ConfigurationError, RefusalError
    from pratique.json_values import JSON, member
    from pratique.policies import mutator, validator
    from pratique.reviews import (
        GroupVersionKind,
        GroupVersionResource,
        Operation,
        Review,
        UserInfo,
    )
    from pratique.rules import EVERYTHING, Rule, rule
    from pratique.statuses import Status

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
    "Half",
    "Halves",
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
    "answers": ("Allow", "Answer", "Deny", "Patch", "allow", "deny", "patch", "warn"),
    "clusters": ("Cluster",),
    "definitions": ("Controller", "Half", "Halves", "NoSettings", "Phase"),
    "edits": ("Edits",),
    "errors": ("ConfigurationError", "RefusalError"),
    "json_values": ("JSON", "member"),
    "policies": ("mutator", "validator"),
    "reviews": ("GroupVersionKind", "GroupVersionResource", "Operation", "Review", "UserInfo"),
    "rules": ("EVERYTHING", "Rule", "rule"),
    "statuses": ("Status",),
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
