"""The difference between the object that came in and the one that came out, as ``kubectl diff`` shows it."""

from __future__ import annotations

import difflib
import itertools
from typing import TYPE_CHECKING

from pratique_cli.outputs.changes import is_secret
from pratique_cli.yaml_texts import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON, JSONObject

_CONTEXT = 3
"""Unchanged lines around each change, as diff and kubectl show them."""


def difference(before: JSON, after: JSON) -> Iterator[str]:
    """Compare two objects as sorted YAML: lines with ``+``, ``-`` or a blank, and ``@@`` between places."""
    if is_secret(before) and is_secret(after):
        before, after = _masked(before, after)
    lines = difflib.unified_diff(_lines(before), _lines(after), n=_CONTEXT, lineterm="")
    return itertools.islice(lines, 2, None)  # the first two name files, and there are none


def _lines(value: JSON) -> list[str]:
    return dump_yaml(value, sort=True).splitlines() if value is not None else []


def _masked(before: JSONObject, after: JSONObject) -> tuple[JSONObject, JSONObject]:
    """Hide a Secret's values and keep visible which of them change."""
    masked_before, masked_after = dict(before), dict(after)
    for field in ("data", "stringData"):
        old, new = _entries(before, field), _entries(after, field)
        changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
        _mask(masked_before, field, changed, " (before)")
        _mask(masked_after, field, changed, " (after)")
    return masked_before, masked_after


def _mask(secret: JSONObject, field: str, changed: set[str], remark: str) -> None:
    entries = _entries(secret, field)
    if entries:
        secret[field] = {key: "***" + remark * (key in changed) for key in entries}


def _entries(secret: JSONObject, field: str) -> JSONObject:
    entries = secret.get(field)
    return entries if isinstance(entries, dict) else {}
