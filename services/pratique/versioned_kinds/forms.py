"""Forms: how one version of a kind is led to the form that all its versions share, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pratique.json_values import JSONObject

Change: TypeAlias = Callable[[JSONObject], JSONObject]
"""Makes another object of one, and leaves that one as it is. Raises ConversionError where it cannot."""


class Form(NamedTuple):
    """One version of a kind."""

    to_shared: Change
    """From this version to the form that all versions share."""
    from_shared: Change
    """And back."""


Family: TypeAlias = Mapping[str, Form]
"""All versions of a kind, by ``apiVersion``."""


def as_it_is(document: JSONObject) -> JSONObject:
    """Change nothing."""
    return document


SHARED = Form(as_it_is, as_it_is)
"""The version that is the shared form."""
