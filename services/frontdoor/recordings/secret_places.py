"""Secret places: where in a review, and in what text, something stands that nobody else is to read.

What is known by its place is a Secret's data, a variable of an environment, a member with the name of a credential,
and an annotation that repeats an object. Everywhere else a text is searched for what keys and tokens look like.
"""

from __future__ import annotations

import base64
import binascii
import enum
import functools
import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is: members by name, items by position."""


class Place(enum.Enum):
    """What stands at a place."""

    OPEN = enum.auto()
    """Nothing that is secret as a whole."""
    TEXT = enum.auto()
    """A text that is secret."""
    BASE64 = enum.auto()
    """A secret in base64."""
    OBJECT = enum.auto()
    """An object, as JSON in a text, that is secret as a whole."""


_CREDENTIALS = frozenset(
    {
        "accesskey", "accesstoken", "apikey", "authtoken", "bearertoken", "clientsecret", "clienttoken", "idtoken",
        "passphrase", "passwd", "password", "privatekey", "refreshtoken", "secretaccesskey", "secretkey", "token",
    }
)  # fmt: skip
"""Names of members that hold a credential, whatever their case and without ``-`` and ``_``."""

_APPLIED = "last-applied-configuration"


def place_of(path: Path, value: object, *, in_secret: bool) -> Place:
    """Tell what stands at a path; ``in_secret``: within a Secret."""
    name = path[-1] if path else ""
    parent = path[-2] if len(path) > 1 else ""
    if in_secret and (found := _in_secret(parent, name, value)) is not Place.OPEN:
        return found
    if name == "value" and isinstance(parent, int) and len(path) > 2 and path[-3] == "env":
        return Place.TEXT
    if not isinstance(name, str) or not isinstance(value, str):
        return Place.OPEN
    if parent == "annotations" and (name.endswith(_APPLIED) or _repeats_object(value)):
        return Place.OBJECT
    return Place.TEXT if _is_credential(name) else Place.OPEN


@functools.lru_cache(maxsize=1024)
def _is_credential(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "") in _CREDENTIALS


def _in_secret(parent: str | int, name: str | int, value: object) -> Place:
    if parent == "data":
        return Place.BASE64
    if parent == "stringData" or (name in ("data", "stringData") and not isinstance(value, dict)):
        return Place.TEXT
    return Place.OPEN


def _repeats_object(text: str) -> bool:
    return text.lstrip().startswith("{") and '"kind"' in text and '"apiVersion"' in text


def is_secret(value: object) -> bool:
    """True for a Secret, wherever it stands."""
    return isinstance(value, dict) and value.get("kind") == "Secret"


_KEY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
_JWT = r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
_BEARER = r"(?<=\b[Bb]earer )[^\s\"',;]+"
_URL = r"(?<=://)[^\s/@\"]+(?=@)"
_BASE64 = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/=_-])"
"""40: shorter than the base64 of any key of 256 bits with its padding, 44, and longer than names and uids."""

_NAMES = ("password", "passwd", "-token", "_token", "-secret", "_secret", "api-key", "api_key")
"""How names end of what is given a credential by ``=``: a program's flag, or a parameter of a URL."""
_GIVEN = "|".join(rf"(?<={name}=)[^\s\"',;&]+" for name in _NAMES)
_PATTERNS = re.compile(f"{_KEY}|{_JWT}|{_BEARER}|{_GIVEN}|{_URL}|(?P<base64>{_BASE64})", re.DOTALL)
_HINT = re.compile(r"-----BEGIN|eyJ|earer |=|://|[A-Za-z0-9+/_-]{40}")
"""Without one of these a text holds none of them; most texts have none."""
_SHORTEST = 7
"""``a://b@c``: nothing that is shorter can hold one."""


def replace_secrets(text: str, cover: Callable[[str, bool], str]) -> str:
    """Replace what looks like a key or a token.

    ``cover`` gets it, and whether it is base64, and gives what stands for it.
    """
    if len(text) < _SHORTEST or not _HINT.search(text):
        return text

    def replacement(found: re.Match[str]) -> str:
        whole = found[0]
        if found["base64"] is None:
            return cover(whole, False)
        return cover(whole, decoded(whole) is not None) if _looks_random(whole) else whole

    return _PATTERNS.sub(replacement, text)


def _looks_random(text: str) -> bool:
    """Names, digests and paths have no three kinds of characters; what certifies is for everybody to read."""
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(map(kind, text)) for kind in kinds):
        return False
    plain = decoded(text) or ""
    return not plain.startswith("-----BEGIN CERTIFICATE") or "PRIVATE KEY" in plain


def decoded(text: str) -> str | None:
    """Read base64, as text; None where it is none."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return None
