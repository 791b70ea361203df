"""Media types, as Go's ``mime.ParseMediaType`` reads them and refuses them (``mime/mediatype.go``)."""

from __future__ import annotations

import re

_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER = re.compile(rf'\s*;\s*(?P<name>{_WORD})\s*=\s*(?P<value>{_WORD}|"(?:[^"\\\r\n]|\\.)*")')
_TOKEN = re.compile(_WORD)


class MediaTypeError(ValueError):
    """A text is no media type; says why as Go does."""


def parse_media_type(text: str) -> str:
    """Read a Content-Type: its media type in lower case, without parameters.

    Raises:
        MediaTypeError: it is malformed.
    """
    base = text.partition(";")[0]
    media_type = base.lower().strip()
    _check(media_type)
    rest = text[len(base) :]
    seen: dict[str, str] = {}
    while rest.strip() not in {"", ";"}:
        found = _PARAMETER.match(rest)
        if found is None:
            raise MediaTypeError("mime: invalid media parameter")
        name, value = found["name"].lower(), found["value"]
        if seen.setdefault(name, value) != value:
            raise MediaTypeError("mime: duplicate parameter name")
        rest = rest[found.end() :]
    return media_type


def _check(media_type: str) -> None:
    kind = _TOKEN.match(media_type)
    if kind is None:
        raise MediaTypeError("mime: no media type")
    rest = media_type[kind.end() :]
    if not rest:
        return
    if not rest.startswith("/"):
        raise MediaTypeError("mime: expected slash after first token")
    subtype = _TOKEN.match(rest, 1)
    if subtype is None:
        raise MediaTypeError("mime: expected token after slash")
    if subtype.end() != len(rest):
        raise MediaTypeError("mime: unexpected content after media subtype")
