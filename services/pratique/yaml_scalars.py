"""What a YAML scalar means: the rules of the YAML library that Kubernetes reads files with.

They are YAML 1.1's without dates and sexagesimal numbers, and with Go's integers: ``yes``, ``on`` and ``y``
are true, ``010`` is 8, ``0o10`` is 8, ``1_000`` is 1000, and ``2001-01-01`` is text.
Source: ``sigs.k8s.io/yaml/goyaml.v2/resolve.go``, and ``yaml.go`` for what becomes of keys.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON

MERGE_KEY = "<<"

_TAG_PREFIX = "tag:yaml.org,2002:"
_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_CONSTANTS: Mapping[str, JSON] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_TEXT_BUT_MAYBE_CONSTANT = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS = frozenset("+-0123456789.")
STARTS = _TEXT_BUT_MAYBE_CONSTANT | _NUMBER_STARTS
"""The first characters of all that is no text where it stands without quotes; nothing at all is none, either."""

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)"
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO](?P<octal>[0-7]+)|0[bB](?P<binary>[01]+)"
    r"|0(?P<old_octal>[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "octal": 8, "binary": 2, "old_octal": 8, "decimal": 10}
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")  # a quirk of the library: the sign may stand behind the prefix
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")


def resolve(text: str) -> JSON:
    """Read a scalar that stands there without quotes and without a tag.

    The answer may be an infinite number or none at all (NaN), which JSON cannot hold.
    """
    first = text[:1]
    if first in _NUMBER_STARTS:
        return _CONSTANTS[text] if text in _CONSTANTS else _resolve_number(text)
    if not first or first in _TEXT_BUT_MAYBE_CONSTANT:
        return _CONSTANTS.get(text, text)
    return text


def resolve_tagged(tag: str, text: str) -> JSON:
    """Read a scalar with a tag.

    Raises:
        ValueError: the tag is none of YAML's own scalar tags, or the text is not what the tag says.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if name == "binary":
        return _decode_binary(text)
    if name in {"str", "timestamp"}:
        return text
    types = _TAG_TYPES.get(name) if name != tag else None
    if types is None:
        raise ValueError(f"the tag {_shown(tag)} is not supported; leave it out")
    value = resolve(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value) not in types:
        raise ValueError(f"cannot decode `{text}` as a {_shown(tag)}")
    return value


def check_collection_tag(tag: str | None, own: str) -> None:
    """Refuse a mapping or sequence whose tag is not its ``own``, ``map`` or ``seq``.

    Raises:
        ValueError: it is another.
    """
    if tag not in {None, "!", f"{_TAG_PREFIX}{own}"}:
        raise ValueError(f"the tag {_shown(tag or '')} is not supported; leave it out")


def key_text(value: JSON) -> str:
    """Turn a key into the text that JSON needs there.

    Raises:
        ValueError: the key is null, a list or an object.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 2**63:
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    raise ValueError("a key must be text, a number or a boolean")


def _resolve_number(text: str) -> JSON:
    if text[0] == ".":
        return _parse_float(text, text) if _POINT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    if (integer := _parse_integer(plain)) is not None:
        return integer
    if _FLOAT.fullmatch(plain):
        return _parse_float(plain, text)
    if quirk := _SIGNED_BINARY.fullmatch(plain):
        value = int(quirk[1], 2)
        return value if -(2**63) <= value < 2**63 else text
    return text


def _parse_integer(plain: str) -> int | None:
    """Read an int64 or, without a sign, a uint64; None where it is neither."""
    found = _INTEGER.fullmatch(plain)
    if found is None or found.lastgroup is None:
        return None
    digits = found[found.lastgroup]
    if len(digits) > 64:  # no base has more digits in 64 bits, leading zeros aside
        digits = digits.lstrip("0")
    if len(digits) > 64:
        return None
    value = int(digits or "0", _BASES[found.lastgroup])
    if found["sign"]:
        value = -value if found["sign"] == "-" else value
        return value if -(2**63) <= value < 2**63 else None
    return value if value < 2**64 else None


def _parse_float(number: str, text: str) -> JSON:
    value = float(number)
    return text if math.isinf(value) else value


def _decode_binary(text: str) -> str:
    try:
        raw = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error:
        raise ValueError("!!binary value contains invalid base64 data") from None
    return raw.decode("utf-8", "replace")


def _float_text(value: float) -> str:
    """Print as Go's ``FormatFloat(value, 'g', -1, 32)``: the shortest text with that value in 32 bits."""
    if math.isnan(value):
        return ".nan"
    single = _single_precision(value)
    if math.isinf(single):
        return ".inf" if value > 0 else "-.inf"
    digits = next(n for n in range(1, 10) if _single_precision(float(f"{single:.{n}g}")) == single)
    mantissa, exponent = f"{single:.{digits - 1}e}".split("e")
    if -4 <= int(exponent) < 6:
        return f"{single:.{max(0, digits - 1 - int(exponent))}f}"
    return f"{mantissa}e{exponent}"


def _single_precision(value: float) -> float:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)


def _shown(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG_PREFIX)}" if tag.startswith(_TAG_PREFIX) else tag


_TAG_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "null": (type(None),),
}
