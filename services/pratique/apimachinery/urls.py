"""URLs as Go's ``net/url`` parses them, which decides whether a ``clientConfig.url`` is valid.

Python's own ``urllib.parse`` accepts URLs that Go refuses. Source: Go's ``net/url/url.go``.
"""

from __future__ import annotations

import ipaddress
import re

import msgspec

from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL_CHARACTER = pattern(r"[\x00-\x1f\x7f]")
_PERCENT = pattern(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_ESCAPE = pattern(r"%(?!25)[0-7][0-9A-Fa-f]")
_NO_HOST_CHARACTER = pattern(r"""[^A-Za-z0-9!$&'()*+,;=:\[\]<>"._~%\x80-\U0010ffff-]""")
_NO_USER_CHARACTER = pattern(r"[^A-Za-z0-9._:~!$&'()*+,;=%@-]")
_PORT = pattern(r"(?::[0-9]*)?")


class Url(msgspec.Struct, frozen=True):
    """The parts of a URL; a missing part is empty."""

    scheme: str = ""
    """In lower case."""
    user: str | None = None
    """The user info before ``@``, with the password masked; None without ``@``."""
    host: str = ""
    """The host, including its port and the brackets of an IPv6 address."""
    path: str = ""
    query: str = ""
    fragment: str = ""


def parse_url(text: str) -> Url:
    """Parse a URL.

    Raises:
        ValueError: it is invalid; the message is that of Go's ``url.Parse``.
    """
    before, _, fragment = text.partition("#")
    try:
        url = _parse(before)
    except ValueError as error:
        raise ValueError(f"parse {go_quoted(before)}: {error}") from None
    try:
        _check_escapes(fragment)
    except ValueError as error:
        raise ValueError(f"parse {go_quoted(text)}: {error}") from None
    return msgspec.structs.replace(url, fragment=fragment)


def parse_request_url(text: str) -> Url:
    """Parse an absolute URL or path.

    Raises:
        ValueError: it is invalid; the message is that of Go's ``url.ParseRequestURI``.
    """
    if not text:
        raise ValueError('parse "": empty url')
    if not text.startswith(("/", ":")) and text != "*" and not _SCHEME.match(text):
        raise ValueError(f"parse {go_quoted(text)}: invalid URI for request")
    return parse_url(text)


def _parse(text: str) -> Url:
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.fullmatch(text)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
        if scheme:
            return Url(scheme=scheme, query=query)
    if not rest.startswith("//") or (not scheme and rest.startswith("///")):
        return Url(scheme=scheme, path=_checked_path(rest), query=query)
    authority, slash, path = rest[2:].partition("/")
    user, host = _parse_authority(scheme, authority)
    return Url(scheme, user, host, _checked_path(slash + path), query)


def _parse_authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _parse_host(scheme, host)
    if not at:
        return None, host
    if _NO_USER_CHARACTER.search(user):
        raise ValueError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    _check_escapes(name)
    _check_escapes(password)
    return name + (":xxxxx" if colon else ""), host


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        return _parse_ip_literal(host)
    web = scheme in {"http", "https"}
    colon = host.find(":") if web else host.rfind(":")
    if colon >= 0:
        _check_port(host[colon:])
    _check_host_characters(host)
    return host


def _parse_ip_literal(host: str) -> str:
    address, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise ValueError("missing ']' in host")
    _check_port(port)
    address, _, zone = address.partition("%25")
    _check_host_characters(address)
    _check_escapes(zone)
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        raise ValueError(f"invalid host: ParseAddr({go_quoted(address)}): unable to parse IP") from None
    return host


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {go_quoted(port)} after host")


def _check_host_characters(host: str) -> None:
    if found := _NO_HOST_CHARACTER.search(host):
        raise ValueError(f"invalid character {go_quoted(found[0])} in host name")
    _check_escapes(host)
    if found := _HOST_ESCAPE.search(host):
        raise ValueError(f"invalid URL escape {go_quoted(found[0])}")


def _checked_path(path: str) -> str:
    _check_escapes(path)
    return path


def _check_escapes(text: str) -> None:
    if found := _PERCENT.search(text):
        raise ValueError(f"invalid URL escape {go_quoted(found[0])}")
