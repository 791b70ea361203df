"""URLs: ``url(text)`` and its parts.

Source: ``k8s.io/apiserver/pkg/cel/library/urls.go``, which uses Go's ``net/url``.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from typing import ClassVar

import msgspec

from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.urls import Url, parse_request_url
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value

_PLAIN_PATH = pattern(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/%\[\]]*", re.ASCII)
_BAD_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")
_UNESCAPED = "/-._~$&+,:;=@!'()*[]"


class UrlValue(msgspec.Struct, frozen=True):
    """A URL as a CEL value."""

    cel_type: ClassVar[str] = "kubernetes.URL"
    parts: Url


def _url(_: Frame, text: Value) -> UrlValue:
    require_types((str,), text)
    try:
        return UrlValue(parse_request_url(text))
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(_: Frame, text: Value) -> bool:
    require_types((str,), text)
    try:
        parse_request_url(text)
    except ValueError:
        return False
    return True


def _url_property(read: Callable[[Url], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, url: Value) -> Value:
        if type(url) is not UrlValue:
            raise NoSuchOverloadError
        return read(url.parts)

    return run


def _host(url: Url) -> str:
    return urllib.parse.unquote(url.host)


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Url) -> str:
    return url.host.rpartition("]")[2].partition(":")[2]


def _escaped_path(url: Url) -> str:
    if _PLAIN_PATH.fullmatch(url.path):
        return url.path
    return urllib.parse.quote(urllib.parse.unquote(url.path), safe=_UNESCAPED)


def _query(url: Url) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        values.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
    return values


LIBRARY = Library(
    overloads=(
        Overload("string_to_url", "url(string)", "kubernetes.URL"),
        Overload("is_url_string", "isURL(string)", "bool"),
        Overload("url_get_scheme", "kubernetes.URL.getScheme()", "string"),
        Overload("url_get_host", "kubernetes.URL.getHost()", "string"),
        Overload("url_get_hostname", "kubernetes.URL.getHostname()", "string"),
        Overload("url_get_port", "kubernetes.URL.getPort()", "string"),
        Overload("url_get_escaped_path", "kubernetes.URL.getEscapedPath()", "string"),
        Overload("url_get_query", "kubernetes.URL.getQuery()", "map<string,list<string>>"),
    ),
    functions={
        "url": _url,
        "isURL": _is_url,
        "getScheme": _url_property(lambda url: url.scheme),
        "getHost": _url_property(_host),
        "getHostname": _url_property(_hostname),
        "getPort": _url_property(_port),
        "getEscapedPath": _url_property(_escaped_path),
        "getQuery": _url_property(_query),
    },
)
