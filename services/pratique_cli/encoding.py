"""JSON and YAML as commands write them. YAML is imported late, because it takes a tenth of a second."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.patterns import pattern
from pratique_cli.terminal import COMMANDS

if TYPE_CHECKING:
    import yaml

_NEVER_FOLD = 1 << 30
"""Columns: never fold strings, or one changed word would look like several changed lines."""


_JSON_COMMANDS = pattern(COMMANDS.pattern.encode())
_YAML_COMMANDS = pattern(r"##(?:\[|vso\[)|^[^\S\n]*::", re.MULTILINE)
"""What a CI system could take for a command to itself; ``::`` counts at the start of a line, of which YAML has many."""


def without_commands(text: bytes) -> bytes:
    """Write JSON so that no CI system takes a text in it for a command; its value is the same."""
    # One byte is found ten times as fast as two.
    return _JSON_COMMANDS.sub(rb"\\u0023", text) if b"#" in text and b"##" in text else text


def indented_json(value: JSON) -> bytes:
    """Encode a value as indented JSON, with a line feed at the end."""
    return without_commands(msgspec.json.format(encode(value), indent=2)) + b"\n"


def json_line(value: JSON) -> bytes:
    """Encode a value as one line of JSON."""
    return without_commands(encode(value)) + b"\n"


def encode_document(document: JSONObject, output: str) -> bytes:
    """Encode one document as ``json``, ``jsonl`` or ``yaml``."""
    if output == "yaml":
        return dump_yaml(document).encode()
    return indented_json(document) if output == "json" else json_line(document)


def encode_list(documents: Sequence[JSONObject], output: str) -> bytes:
    """Encode documents as ``json`` or ``yaml`` (one array), or as ``jsonl`` (one line each)."""
    if output == "jsonl":
        return b"".join(map(json_line, documents))
    return dump_yaml(list(documents)).encode() if output == "yaml" else indented_json(list(documents))


def dump_yaml(value: JSON, *, sort: bool = False) -> str:
    """Encode a value as YAML; ``sort`` sorts members, so that objects can be compared line by line."""
    import yaml  # noqa: PLC0415 - see above

    text: str = yaml.dump(value, Dumper=_dumper(), sort_keys=sort, allow_unicode=True, width=_NEVER_FOLD)
    return COMMANDS.sub(r"\\x23", text) if "##" in text else text  # all of them are in double quotes


@functools.cache
def _dumper() -> type[yaml.SafeDumper]:
    """Make the dumper: libyaml's if PyYAML has it, without aliases, and with strings quoted as kubectl reads them."""
    import yaml  # noqa: PLC0415 - see above

    from pratique.apimachinery.yaml_values import resolve  # noqa: PLC0415 - imports YAML

    base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc, valid-type]  # chosen at run time
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
            return True

    def represent_string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # kubectl reads more strings as numbers than PyYAML does, such as 0E0.
        plain = isinstance(resolve(text), str)
        style = "|" if "\n" in text else None if plain else "'"
        if _YAML_COMMANDS.search(text):
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_string)
    return Dumper
