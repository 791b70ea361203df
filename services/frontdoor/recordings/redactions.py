"""Redactions: what stands for the secrets of one review and its decision.

The same secret is replaced by the same text throughout a recording, so that what compares two of them still can; the
text says nothing of the secret to whoever has no key, and nobody has: it is made anew with every recorder, and kept
nowhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import TYPE_CHECKING

from frontdoor.recordings.secret_places import Path, Place, decoded, is_secret, place_of, replace_secrets
from pratique.go_json import go_json
from pratique.json_values import JSON, JSONObject, decode, encode
from pratique.pointers import unescape
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PREFIX = "redacted:"
"""What every replacement begins with."""

_DIGITS = 12  # 48 bits: two of a million secrets are alike in one of 500 recordings
_SHORTEST_QUOTED = 4
"""Characters of a secret that is looked for in other texts: what is shorter is part of many words."""
_DEEPEST = 100
"""Levels of objects and arrays: no object of Kubernetes has half as many. What is deeper is replaced as a whole."""
_SOME = 1024
"""Characters after whose search reviews may go on."""
_LONGEST_SEARCHED = 32 * 1024
"""Characters of a text that is searched: reviews wait meanwhile, 2 ms, and 30 ms for the worst."""
_BREATH = 64
"""Objects and arrays that are looked at, some 50 µs, before reviews may go on: the interpreter would make them wait
for 5 ms."""


class Redaction:
    """Replaces the secrets of one review, and remembers them, to find them in what was said of it."""

    def __init__(self, key: bytes) -> None:
        """Make replacements by ``key``."""
        self._key = key
        self._known: dict[str, str] = {}
        self._looked = 0

    def value(self, value: JSON, path: Path = (), *, in_secret: bool = False) -> JSON:
        """Replace the secrets of a value that stands at ``path``; ``in_secret``: within a Secret."""
        found = Place.OPEN if value in (None, "") else place_of(path, value, in_secret=in_secret)
        if found is not Place.OPEN:
            return self._whole(value, found)
        if isinstance(value, str):
            return self._searched(value)
        if not isinstance(value, dict | list):
            return value
        if len(path) >= _DEEPEST:
            return self._text("too deep")
        self._breathe()
        in_secret = in_secret or is_secret(value)
        if isinstance(value, list):
            return [self.value(each, (*path, index), in_secret=in_secret) for index, each in enumerate(value)]
        return {name: self.value(each, (*path, name), in_secret=in_secret) for name, each in value.items()}

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Replace each of some texts, whatever it is."""
        return [self._remember(text, self._text(text)) if text else text for text in texts]

    def patch(self, operations: Sequence[JSONObject], objects: Sequence[JSON]) -> list[JSONObject]:
        """Replace the secrets of JSON Patch operations, by where they are written to in one of ``objects``."""
        return [self._operation(operation, objects) for operation in operations]

    def told(self, value: JSON) -> JSON:
        """Replace in all texts of a value whatever has been replaced before, and what looks like a secret."""
        if isinstance(value, str):
            return self._told(value)
        if isinstance(value, list):
            return [self.told(each) for each in value]
        if isinstance(value, dict):
            return {name: self.told(each) for name, each in value.items()}
        return value

    def _operation(self, operation: JSONObject, objects: Sequence[JSON]) -> JSONObject:
        if "value" not in operation:
            return operation
        path = tuple(map(_step, operation["path"].split("/")[1:]))
        in_secret = any(_leads_into_secret(one, path) for one in objects)
        value = self.value(operation["value"], path, in_secret=in_secret)
        return {**operation, "value": self.told(value)}

    def _told(self, text: str) -> str:
        for secret in sorted((one for one in self._known if one in text), key=len, reverse=True):
            text = text.replace(secret, self._known[secret])
        return self._searched(text)

    def _searched(self, text: str) -> str:
        """Replace in a text what looks like a secret; all of one that is too long to be searched."""
        if len(text) < _SOME:
            return replace_secrets(text, self._cover)
        time.sleep(0)
        return self._text(text) if len(text) > _LONGEST_SEARCHED else replace_secrets(text, self._cover)

    def _whole(self, value: JSON, place: Place) -> str:
        text = value if isinstance(value, str) else encode(value).decode()
        if place is Place.BASE64:
            return self._cover(text, True)
        if place is Place.OBJECT:
            self._look_into(text)
        return self._remember(text, self._text(text))

    def _look_into(self, text: str) -> None:
        """Learn the secrets of an object that is repeated in a text."""
        try:
            self.value(decode(text))
        except (ValueError, RecursionError):
            return

    def _cover(self, text: str, is_base64: bool) -> str:  # noqa: FBT001 - it is a value, not a switch
        plain = decoded(text) if is_base64 else None
        if plain is None:
            replacement = self._text(text)
            return self._remember(
                text, base64.b64encode(replacement.encode()).decode() if is_base64 else replacement
            )
        replacement = self._remember(plain, self._text(plain))
        return self._remember(text, base64.b64encode(replacement.encode()).decode())

    def _text(self, text: str) -> str:
        if text.startswith(PREFIX):
            return text
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256)
        return PREFIX + digest.hex()[:_DIGITS]

    def _remember(self, text: str, replacement: str) -> str:
        """Know a secret again, also where it is quoted, and each line of it."""
        for one in (text, *(text.splitlines() if "\n" in text else ())):
            if len(one) >= _SHORTEST_QUOTED:
                self._known.setdefault(one, replacement)
                for quoted in () if one.isalnum() else (go_quoted(one), _json(one), go_json(_readable(one))):
                    self._known.setdefault(quoted[1:-1], replacement)
        return replacement

    def _breathe(self) -> None:
        self._looked += 1
        if self._looked % _BREATH == 0:
            time.sleep(0)


def _readable(text: str) -> str:
    """A text that can be encoded, also where it was made of bytes that are none."""
    return text.encode("utf-8", "replace").decode()


def _json(text: str) -> str:
    return encode(_readable(text)).decode()


def _step(written: str) -> str | int:
    return 0 if written == "-" else int(written) if written.isdecimal() else unescape(written)


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
