"""Unit tests of policies in Python: make a review from a manifest, and assert on what is decided about it.

:func:`make_review` makes the request, :func:`admit` asks one policy, and :class:`PolicyChain` asks it as part of a
whole chain. :mod:`pratique.testing.plugin` is the plugin that gives pytest fixtures of them. Names are loaded on first
use, because pytest loads that plugin wherever Pratique is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.testing.chains import PolicyChain, admit
    from pratique.testing.reviews import Manifest, make_review

__all__ = ["Manifest", "PolicyChain", "admit", "make_review"]

_MODULES = {"chains": ("PolicyChain", "admit"), "reviews": ("Manifest", "make_review")}
"""The module that defines each public name."""


if not TYPE_CHECKING:  # with this function, type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Load a public name from its module."""
        for module, names in _MODULES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
