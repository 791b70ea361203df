"""Schemas: which fields objects of a kind have, of which types, and how two of them are merged."""

from __future__ import annotations

from pratique.schemas.lookups import schema_of
from pratique.schemas.types import ListType, MapType, Merge, Scalar, Structure, Type

__all__ = ["ListType", "MapType", "Merge", "Scalar", "Structure", "Type", "schema_of"]
