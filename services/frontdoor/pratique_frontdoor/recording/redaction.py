"""Redaction: finds the secrets of a review, and replaces them in it and in its decision."""

from __future__ import annotations

import base64
import binascii
import enum
import functools
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pratique.apimachinery.go_formats import is_index
from pratique.apimachinery.json_values import JSON, JSONObject, decode, encode, go_json, unescape
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

Path: TypeAlias = tuple[str | int, ...]
"""The path of a value: members by name, items by index."""


class SecretKind(enum.Enum):
    """The kind of secret at a path."""

    OPEN = enum.auto()
    """Not secret as a whole."""
    TEXT = enum.auto()
    """A secret string."""
    BASE64 = enum.auto()
    """A secret in base64."""
    OBJECT = enum.auto()
    """An object as JSON in a string, secret as a whole."""


_CREDENTIALS = frozenset(
    {
        "accesskey", "accesstoken", "apikey", "authtoken", "bearertoken", "clientsecret", "clienttoken", "idtoken",
        "passphrase", "passwd", "password", "privatekey", "refreshtoken", "secretaccesskey", "secretkey", "token",
    }
)  # fmt: skip
"""Names of members with a credential, ignoring case, ``-`` and ``_``."""

_APPLIED = "last-applied-configuration"


def secret_kind(path: Path, value: object, *, in_secret: bool) -> SecretKind:
    """Return the kind of secret at a path; ``in_secret``: within a Secret."""
    name = path[-1] if path else ""
    parent = path[-2] if len(path) > 1 else ""
    if in_secret and (found := _in_secret(parent, name, value)) is not SecretKind.OPEN:
        return found
    if name == "value" and isinstance(parent, int) and len(path) > 2 and path[-3] == "env":
        return SecretKind.TEXT
    if not isinstance(name, str) or not isinstance(value, str):
        return SecretKind.OPEN
    if parent == "annotations" and (name.endswith(_APPLIED) or _repeats_object(value)):
        return SecretKind.OBJECT
    return SecretKind.TEXT if _is_credential(name) else SecretKind.OPEN


_LONGEST_REMEMBERED = 128
"""Characters of what is remembered, so that nobody fills the memory with names of members."""


def _is_credential(name: str) -> bool:
    return _is_known_credential(name) if len(name) <= _LONGEST_REMEMBERED else _means_credential(name)


def _means_credential(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "") in _CREDENTIALS


_is_known_credential = functools.lru_cache(maxsize=1024)(_means_credential)


def _in_secret(parent: str | int, name: str | int, value: object) -> SecretKind:
    if parent == "data":
        return SecretKind.BASE64
    if parent == "stringData" or (name in ("data", "stringData") and not isinstance(value, dict)):
        return SecretKind.TEXT
    return SecretKind.OPEN


def _repeats_object(text: str) -> bool:
    return text.lstrip().startswith("{") and '"kind"' in text and '"apiVersion"' in text


def is_secret(value: object) -> bool:
    """Return whether a value is a Secret."""
    return isinstance(value, dict) and value.get("kind") == "Secret"


_KEY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
_JWT = r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
_BEARER = r"(?<=\b[Bb]earer )[^\s\"',;]+"
_URL = r"(?<=://)[^\s/@\"]+(?=@)"
_BASE64 = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}={0,2}(?![A-Za-z0-9+/=_-])"
"""40: shorter than the base64 of any 256-bit key with its padding, 44, and longer than names and uids."""

_NAMES = ("password", "passwd", "-token", "_token", "-secret", "_secret", "api-key", "api_key")
"""Endings of names that are assigned a credential with ``=``: a program's flag, or a parameter of a URL."""
_ASSIGNED = "|".join(rf"(?<={name}=)[^\s\"',;&]+" for name in _NAMES)
_PATTERNS = pattern(f"{_KEY}|{_JWT}|{_BEARER}|{_ASSIGNED}|{_URL}|(?P<base64>{_BASE64})", re.DOTALL)
_HINT = pattern(r"-----BEGIN|eyJ|earer |=|://|[A-Za-z0-9+/_-]{40}")
"""A text without any of these has no secret; most texts have none."""
_MIN_LENGTH = 7
"""``a://b@c``: no shorter text can have a secret."""


def replace_secrets(text: str, replace_found: Callable[[str, bool], str]) -> str:
    """Replace what looks like a key or a token.

    ``cover`` gets each one, and whether it is base64, and returns its replacement.
    """
    if len(text) < _MIN_LENGTH or not _HINT.search(text):
        return text

    def replacement(found: re.Match[str]) -> str:
        whole = found[0]
        if found["base64"] is None:
            return replace_found(whole, False)
        return replace_found(whole, decoded(whole) is not None) if _looks_random(whole) else whole

    return _PATTERNS.sub(replacement, text)


def _looks_random(text: str) -> bool:
    """Return whether a text mixes upper case, lower case and digits, as names, digests and paths do not.

    Certificates are public.
    """
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(map(kind, text)) for kind in kinds):
        return False
    plain = decoded(text) or ""
    return not plain.startswith("-----BEGIN CERTIFICATE") or "PRIVATE KEY" in plain


def decoded(text: str) -> str | None:
    """Decode base64 to text; None if it is not base64."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return None


PREFIX = "redacted:"
"""The prefix of every replacement."""

_DIGITS = 12  # 48 bits: two of a million secrets are alike in one of 500 recordings
_MIN_QUOTED_LENGTH = 4
"""The shortest secret that is looked for in other texts: shorter ones are part of many words."""
_MAX_DEPTH = 100
"""Levels of objects and arrays: no Kubernetes object has half as many. Deeper values are replaced as a whole."""
_SHORT_LENGTH = 1024
"""Characters of a text whose search yields to reviews."""
_MAX_SEARCHED_LENGTH = 32 * 1024
"""Characters of a text that is searched: reviews wait 2 ms meanwhile, and 30 ms in the worst case."""
_YIELD_INTERVAL = 64
"""Objects and arrays processed, in about 50 µs, before yielding to reviews: otherwise the interpreter would make them
wait for 5 ms."""


class Redaction:
    """Replaces the secrets of one review, and remembers them to find them in messages about it."""

    def __init__(self, key: bytes) -> None:
        """Derive replacements with ``key``."""
        self._key = key
        self._known: dict[str, str] = {}
        self._values_seen = 0

    def value(self, value: JSON, path: Path = (), *, in_secret: bool = False) -> JSON:
        """Replace the secrets of a value at ``path``; ``in_secret``: within a Secret."""
        found = SecretKind.OPEN if value in (None, "") else secret_kind(path, value, in_secret=in_secret)
        if found is not SecretKind.OPEN:
            return self._replace_whole(value, found)
        if isinstance(value, str):
            return self._replace_in_text(value)
        if not isinstance(value, dict | list):
            return value
        if len(path) >= _MAX_DEPTH:
            return self._replacement("too deep")
        self._yield_to_reviews()
        in_secret = in_secret or is_secret(value)
        if isinstance(value, list):
            return [self.value(item, (*path, index), in_secret=in_secret) for index, item in enumerate(value)]
        return {
            name: self.value(member, (*path, name), in_secret=in_secret) for name, member in value.items()
        }

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Replace every text."""
        return [self._remember(text, self._replacement(text)) if text else text for text in texts]

    def patch(self, operations: Sequence[JSONObject], objects: Sequence[JSON]) -> list[JSONObject]:
        """Replace the secrets of JSON Patch operations, by their paths in one of ``objects``."""
        return [self._operation(operation, objects) for operation in operations]

    def redact_texts(self, value: JSON) -> JSON:
        """Replace, in all texts of a value, the secrets found before and what looks like a secret."""
        if isinstance(value, str):
            return self._redact_message(value)
        if isinstance(value, list):
            return [self.redact_texts(item) for item in value]
        if isinstance(value, dict):
            return {name: self.redact_texts(member) for name, member in value.items()}
        return value

    def _operation(self, operation: JSONObject, objects: Sequence[JSON]) -> JSONObject:
        if "value" not in operation:
            return operation
        path = tuple(map(_step, operation["path"].split("/")[1:]))
        in_secret = any(_leads_into_secret(value, path) for value in objects)
        value = self.value(operation["value"], path, in_secret=in_secret)
        return {**operation, "value": self.redact_texts(value)}

    def _redact_message(self, text: str) -> str:
        for secret in sorted((secret for secret in self._known if secret in text), key=len, reverse=True):
            text = text.replace(secret, self._known[secret])
        return self._replace_in_text(text)

    def _replace_in_text(self, text: str) -> str:
        """Replace what looks like a secret in a text; replace all of a text that is too long to search."""
        if len(text) < _SHORT_LENGTH:
            return replace_secrets(text, self._replace_found)
        time.sleep(0)
        if len(text) > _MAX_SEARCHED_LENGTH:
            return self._replacement(text)
        return replace_secrets(text, self._replace_found)

    def _replace_whole(self, value: JSON, place: SecretKind) -> str:
        text = value if isinstance(value, str) else encode(value).decode()
        if place is SecretKind.BASE64:
            return self._replace_found(text, True)
        if place is SecretKind.OBJECT:
            self._remember_object(text)
        return self._remember(text, self._replacement(text))

    def _remember_object(self, text: str) -> None:
        """Remember the secrets of an object that is repeated in a text."""
        try:
            self.value(decode(text))
        except (ValueError, RecursionError):
            return

    def _replace_found(self, text: str, is_base64: bool) -> str:  # noqa: FBT001 - it is a value, not a switch
        plain = decoded(text) if is_base64 else None
        if plain is None:
            replacement = self._replacement(text)
            return self._remember(
                text, base64.b64encode(replacement.encode()).decode() if is_base64 else replacement
            )
        replacement = self._remember(plain, self._replacement(plain))
        return self._remember(text, base64.b64encode(replacement.encode()).decode())

    def _replacement(self, text: str) -> str:
        if text.startswith(PREFIX):
            return text
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256)
        return PREFIX + digest.hex()[:_DIGITS]

    def _remember(self, text: str, replacement: str) -> str:
        """Remember a secret, its quoted forms, and each line of it."""
        for part in (text, *(text.splitlines() if "\n" in text else ())):
            if len(part) >= _MIN_QUOTED_LENGTH:
                self._known.setdefault(part, replacement)
                for quoted in (
                    () if part.isalnum() else (go_quoted(part), _json_string(part), go_json(_encodable(part)))
                ):
                    self._known.setdefault(quoted[1:-1], replacement)
        return replacement

    def _yield_to_reviews(self) -> None:
        self._values_seen += 1
        if self._values_seen % _YIELD_INTERVAL == 0:
            time.sleep(0)


def _encodable(text: str) -> str:
    """Return a text that can be encoded, even if it was decoded from invalid bytes."""
    return text.encode("utf-8", "replace").decode()


def _json_string(text: str) -> str:
    return encode(_encodable(text)).decode()


def _step(written: str) -> str | int:
    return 0 if written == "-" else int(written) if is_index(written) else unescape(written)


def _leads_into_secret(value: JSON, path: Path) -> bool:
    for step in path:
        if is_secret(value):
            return True
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return False
    return is_secret(value)
