"""Redaction: finds the secrets of a review, and replaces them in it and in its decision."""

from __future__ import annotations

import base64
import binascii
import bisect
import enum
import functools
import hashlib
import hmac
import json
import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.apimachinery.go_formats import is_index
from pratique.apimachinery.json_values import JSON, JSONObject, decode, encode, go_json, unescape
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import Status, StatusCause, go_quoted

if TYPE_CHECKING:
    from pratique.admission.reviews import Review
    from pratique_frontdoor.chain.decisions import Decision

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


_SECRET_KINDS = frozenset({"Secret", "SecretList"})


def is_secret(value: object) -> bool:
    """Return whether a value says that it is a Secret, or a list of Secrets."""
    return isinstance(value, dict) and value.get("kind") in _SECRET_KINDS


def concerns_secret(review: Review) -> bool:
    """Return whether a review is one of Secrets by its kind, its resource or its objects, whatever the others say."""
    return (
        review.kind.kind in _SECRET_KINDS
        or review.resource.resource == "secrets"
        or (review.request_kind is not None and review.request_kind.kind in _SECRET_KINDS)
        or (review.request_resource is not None and review.request_resource.resource == "secrets")
        or is_secret(review.object)
        or is_secret(review.old_object)
    )


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
    """Decode base64 to text; None if it is not base64. Go ignores line breaks in it."""
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode(
            "utf-8", "surrogateescape"
        )
    except (binascii.Error, ValueError):
        return None


PREFIX = "redacted:"
"""The prefix of every replacement."""

MASK = "***"
"""The replacement where people read."""
_DIGITS = 12  # 48 bits: two of a million secrets are alike in one of 500 recordings
_MIN_QUOTED_LENGTH = 4
"""The shortest secret that is looked for in other texts: shorter ones are part of many words."""
_MAX_DEPTH = 100
"""Levels of objects and arrays: no Kubernetes object has half as many. Deeper values are replaced as a whole."""
_SHORT_LENGTH = 1024
"""Characters of a text whose search yields to reviews."""
_MAX_SEARCHED_LENGTH = 32 * 1024
"""Characters of a text that is searched: reviews wait 2 ms meanwhile, and 30 ms in the worst case."""
_MAX_COMPARISONS = 2_000_000
"""Places of texts, times the lengths of secrets that begin as they do: 0.5 s of this thread. What is left then is
replaced as a whole."""
_YIELD_INTERVAL = 64
"""Objects and arrays processed, in about 50 µs, before yielding to reviews: otherwise the interpreter would make them
wait for 5 ms."""


class Redaction:
    """Replaces the secrets of one review, and remembers them to find them in messages about it."""

    def __init__(self, key: bytes, *, in_secret: bool = False) -> None:
        """Derive replacements with ``key``; ``in_secret``: all objects are Secrets, even if they do not say so."""
        self._key = key
        self._in_secret = in_secret
        self._known: dict[str, str] = {}
        # How long the known secrets are, longest first, by how they begin.
        self._lengths: dict[str, list[int]] = {}
        self._comparisons_left = _MAX_COMPARISONS
        self._values_seen = 0

    def learn(self, review: Review, decision: Decision) -> None:
        """Find the secrets of a review: as received, as it was left, and as any step changed it."""
        objects = (review.object, review.old_object, decision.object_document.data)
        for value in (*objects, review.options):
            self.value(value)
        for values in review.user.extra.values():
            self.texts(values)
        for step in decision.steps:
            self.patch(step.patch, objects)
            if step.shadow is not None:
                self.patch(step.shadow.patch, objects)

    def value(self, value: JSON, path: Path = (), *, in_secret: bool = False) -> JSON:
        """Replace the secrets of a value at ``path``; ``in_secret``: within a Secret."""
        in_secret = in_secret or self._in_secret
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

    def decision(self, decision: Decision) -> Decision:
        """Replace, in all texts of a decision, the secrets found before and what looks like a secret."""
        steps = [msgspec.structs.replace(step, reason=self._message(step.reason)) for step in decision.steps]
        annotations = decision.audit_annotations.items()
        return msgspec.structs.replace(
            decision,
            status=decision.status and self._status(decision.status),
            warnings=tuple(map(self._message, decision.warnings)),
            audit_annotations={self._message(name): self._message(value) for name, value in annotations},
            steps=tuple(steps),
        )

    def _status(self, status: Status) -> Status:
        details = status.details
        if details is not None and details.causes:
            details = msgspec.structs.replace(details, causes=tuple(map(self._cause, details.causes)))
        return msgspec.structs.replace(status, message=self._message(status.message), details=details)

    def _cause(self, cause: StatusCause) -> StatusCause:
        message, field = self._message(cause.message), self._message(cause.field)
        return msgspec.structs.replace(cause, message=message, field=field)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Replace every text."""
        return [self._remember(text, self._replacement(text)) if text else text for text in texts]

    def patch(self, operations: Sequence[JSONObject], objects: Sequence[JSON]) -> list[JSONObject]:
        """Replace the secrets of JSON Patch operations, by their paths in one of ``objects``."""
        return [self._operation(operation, objects) for operation in operations]

    def redact_texts(self, value: JSON) -> JSON:
        """Replace, in all texts of a value, the secrets found before and what looks like a secret."""
        if isinstance(value, str):
            return self._message(value)
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

    def _message(self, text: str) -> str:
        """Replace secrets in a text; replace all of it where there was too much to compare."""
        if not text:
            return text
        if self._comparisons_left < 0 or len(text) > _MAX_SEARCHED_LENGTH:
            return self._replacement(text)
        self._yield_to_reviews()
        redacted, end = "", 0
        for begin, stop in self._quotes(text) if self._known else ():
            redacted += text[end:begin] + self._known[text[begin:stop]]
            end = stop
        return self._replace_in_text(redacted + text[end:])

    def _quotes(self, text: str) -> list[tuple[int, int]]:
        """Where a text quotes known secrets; of those that overlap, the longest.

        Each place is looked up once: an object can have 10,000 secrets, and as many texts may quote them.
        """
        spans = []
        for begin in range(len(text) - _MIN_QUOTED_LENGTH + 1):
            lengths = self._lengths.get(text[begin : begin + _MIN_QUOTED_LENGTH], ())
            self._comparisons_left -= 1 + len(lengths)
            found = (quote for size in lengths if (quote := text[begin : begin + size]) in self._known)
            if quote := next(found, ""):
                spans.append((begin, begin + len(quote)))
        quotes, is_quoted = [], bytearray(len(text))
        for begin, stop in sorted(spans, key=lambda span: span[0] - span[1]):
            # a span that is there already is not shorter, and so has one of the ends if it overlaps
            if not (is_quoted[begin] or is_quoted[stop - 1]):
                is_quoted[begin:stop] = b"\1" * (stop - begin)
                quotes.append((begin, stop))
        return sorted(quotes)

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
            replacement = self._replace_found(text, True)
        else:
            replacement = self._remember(text, self._replacement(text))
            self._remember_encoded(text, replacement)
        if place is SecretKind.OBJECT:
            self._remember_object(text)
        for part in _texts_in(value) if not isinstance(value, str) else ():
            self._remember(part, self._replacement(part))
        return replacement

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
            return self._remember(text, self._encoded(replacement) if is_base64 else replacement)
        replacement = self._remember(plain, self._replacement(plain))
        return self._remember(text, self._remember_encoded(plain, replacement))

    def _remember_encoded(self, text: str, replacement: str) -> str:
        """Remember the base64 of a secret, which an API server makes of ``stringData``; return its replacement."""
        encoded = self._encoded(replacement)
        self._know(base64.b64encode(text.encode("utf-8", "surrogateescape")).decode(), encoded)
        return encoded

    def _encoded(self, replacement: str) -> str:
        return base64.b64encode(replacement.encode()).decode()

    def _replacement(self, text: str) -> str:
        if text.startswith(PREFIX):
            return text
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256)
        return PREFIX + digest.hex()[:_DIGITS]

    def _remember(self, text: str, replacement: str) -> str:
        """Remember a secret, its quoted forms, and each line of it."""
        for part in (text, *(text.splitlines() if "\n" in text else ())):
            if len(part) >= _MIN_QUOTED_LENGTH:
                self._know(part, replacement)
                for quoted in () if part.isalnum() and part.isascii() else _quoted_forms(part):
                    self._know(quoted[1:-1], replacement)
        return replacement

    def _know(self, secret: str, replacement: str) -> None:
        if secret not in self._known:
            self._known[secret] = replacement
            lengths = self._lengths.setdefault(secret[:_MIN_QUOTED_LENGTH], [])
            if len(secret) not in lengths:
                bisect.insort(lengths, len(secret), key=operator.neg)

    def _yield_to_reviews(self) -> None:
        self._values_seen += 1
        if self._values_seen % _YIELD_INTERVAL == 0:
            time.sleep(0)


class Masking(Redaction):
    """Replaces secrets by asterisks, for people."""

    def __init__(self) -> None:
        """All objects are Secrets."""
        super().__init__(b"", in_secret=True)

    def _replacement(self, text: str) -> str:  # noqa: ARG002 - all texts look the same
        return MASK

    def _encoded(self, replacement: str) -> str:
        return replacement


def _texts_in(value: JSON) -> Iterator[str]:
    """The strings of a value that is a secret as a whole."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


def _encodable(text: str) -> str:
    """Return a text that can be encoded, even if it was decoded from invalid bytes."""
    return text.encode("utf-8", "replace").decode()


def _quoted_forms(text: str) -> Iterator[str]:
    """Write a text as a string in Go, and in JSON as several programs do."""
    encodable = _encodable(text)
    yield from (go_quoted(text), encode(encodable).decode(), go_json(encodable))
    if not text.isascii():
        yield json.dumps(encodable)


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
