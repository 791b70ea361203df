"""JSON values as YAML for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml

from pratique import yaml_scalars

if TYPE_CHECKING:
    from pratique.json_values import JSON

_Base = cast("type[yaml.SafeDumper]", getattr(yaml, "CSafeDumper", yaml.SafeDumper))

_NEVER_FOLD = 1 << 30
"""Columns; folded strings would make one changed word look like several changed lines."""


class _Dumper(_Base):  # type: ignore[misc, valid-type]  # libyaml's dumper where PyYAML has it
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML knows fewer ways to write a number than kubectl does: 0E0 is one.
    plain = isinstance(yaml_scalars.resolve(text), str)
    style = "|" if "\n" in text else None if plain else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: JSON, *, sort: bool = False) -> str:
    """Write a JSON value as YAML, members in their own order, or sorted, so that objects can be compared."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=sort, allow_unicode=True, width=_NEVER_FOLD)
    return text
