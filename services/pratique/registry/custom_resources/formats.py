"""The formats of strings that an API server checks in custom resources.

Sources: ``k8s.io/kube-openapi/pkg/validation/strfmt`` and ``pkg/internal/third_party/govalidator``, for which count
``k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go``.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping

import re2  # type: ignore[import-untyped] # google-re2 comes without types

from pratique.apimachinery import durations
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.urls import parse_request_url

Check = Callable[[str], bool]
"""Tells whether a string has a format."""


def _pattern(pattern: str) -> Check:
    search = re2.compile(pattern).search
    return lambda text: search(text) is not None


def _uuid(third: str, fourth: str) -> Check:
    return _pattern(rf"(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$")


_HEX4 = "[0-9a-f]{4}"
_VARIANT = "[89ab][0-9a-f]{3}"
_MAX_HOSTNAME = 255
_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253


def _is_name_character(character: str) -> bool:
    """A letter, a symbol or a digit of ASCII."""
    if character.isascii() and character.isalnum():
        return True
    return unicodedata.category(character)[0] in "LS"


def _is_top_level(label: str) -> bool:
    letters = all(unicodedata.category(character)[0] == "L" for character in label)
    return letters and 2 <= len(label) <= _MAX_LABEL


def _is_label(label: str) -> bool:
    if not 1 <= len(label) <= _MAX_LABEL or label[0] == "-" or label[-1] == "-":
        return False
    return all(character == "-" or _is_name_character(character) for character in label)


def _is_hostname(text: str) -> bool:
    """A host name as ``HostnamePattern`` has it; that pattern would take RE2 megabytes."""
    *labels, last = text.split(".")
    if any(len(label.encode()) > _MAX_LABEL for label in (*labels, last)):
        return False
    if labels:
        is_short = len(text.encode()) <= _MAX_HOSTNAME
        return is_short and _is_top_level(last) and all(map(_is_label, labels))
    rest = last[1:].removeprefix("-")
    return bool(last) and all(map(_is_name_character, last[0] + rest))


_ATOM = r"[^\x00-\x20()<>\[\]:;@\\,.\"\x7f]+"
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[ -~\t])*"'
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\x00-\x20]+\])"
_PHRASE = rf"(?:(?:{_ATOM}|{_QUOTED}|\.)[ \t]*)*"
_is_email = _pattern(rf"^[ \t]*(?:{_ADDRESS}|{_PHRASE}<{_ADDRESS}>)[ \t]*$")
"""An address as Go's ``net/mail.ParseAddress`` takes it, without comments."""


def _parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(_without_leading_zeros(text)) if "%" not in text else None
    except ValueError:
        return None


_QUAD = pattern(r"[0-9]{1,}(?:\.[0-9]{1,}){3}")


def _without_leading_zeros(text: str) -> str:
    """An IPv4 address may have leading zeros: ``ParseIPSloppy``."""
    if not _QUAD.fullmatch(text):
        return text
    return ".".join(part.lstrip("0") or "0" for part in text.split("."))


def _is_ipv4(text: str) -> bool:
    return "." in text and _parse_ip(text) is not None


def _is_ipv6(text: str) -> bool:
    return ":" in text and _parse_ip(text) is not None


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    parsed = _parse_ip(address)
    if not slash or parsed is None or not re.fullmatch("[0-9]{1,8}", length):
        return False
    return int(length) <= parsed.max_prefixlen


_MACS = pattern(
    r"(?:[0-9a-fA-F]{2}([:-]))(?:[0-9a-fA-F]{2}\1)*[0-9a-fA-F]{2}|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4})*"
)
_MAC_BYTES = frozenset({6, 8, 20})


def _is_mac(text: str) -> bool:
    digits = sum(character not in ":-." for character in text)
    return _MACS.fullmatch(text) is not None and digits / 2 in _MAC_BYTES


_ISBN_NOISE = pattern(r"[\t\n\f\r -]+")


def _is_isbn10(text: str) -> bool:
    digits = _ISBN_NOISE.sub("", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    return (
        sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0
    )


def _is_isbn13(text: str) -> bool:
    digits = _ISBN_NOISE.sub("", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    return sum((1, 3)[place % 2] * int(digit) for place, digit in enumerate(digits)) % 10 == 0


_CARD = pattern(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(doubled) + sum(int(digit) for digit in digits[::-2])) % 10 == 0


_SSN = _pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$")
_SSN_LENGTH = 11


def _is_uri(text: str) -> bool:
    try:
        parse_request_url(text)
    except ValueError:
        return False
    return True


_DATE = pattern("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        # Go knows the year 0, a leap year; Python does not.
        dt.date.fromisoformat("2000" + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True


_TIME = pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    time = _TIME.fullmatch(parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


_LOOSE_DURATION = pattern(r"(?<![0-9])([0-9]+)\s*([A-Za-zµ]+)")
"""Begins where digits do: begun at each of them, a search in a million digits would take hours."""
_EXACT_UNITS = frozenset(["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"])
_UNIT_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_LARGEST_INT, _MOST_DIGITS = 2**63 - 1, 19


def _significant(found: list[tuple[str, str]]) -> Iterator[str]:
    return (factor.lstrip("0") or "0" for factor, _ in found)


def _is_duration(text: str) -> bool:
    """A duration of Go, or of Scala, of which one recognised part anywhere suffices."""
    try:
        durations.parse(text)
    except InputError:
        found = _LOOSE_DURATION.findall(text)
    else:
        return True
    if any(len(digits) > _MOST_DIGITS or int(digits) > _LARGEST_INT for digits in _significant(found)):
        return False
    return any(unit.lower() in _EXACT_UNITS or unit.lower().startswith(_UNIT_PREFIXES) for _, unit in found)


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SHORT_NAME = _pattern(f"^{_LABEL}$")
_LONG_NAME = _pattern(rf"^{_LABEL}(\.{_LABEL})*$")
_BYTE_OF_COLOR = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

FORMATS: Mapping[str, Check] = {
    "bsonobjectid": _pattern("^[0-9a-fA-F]{24}$"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _uuid(_HEX4, _HEX4),
    "uuid3": _uuid("3[0-9a-f]{3}", _HEX4),
    "uuid4": _uuid("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-f]{3}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == _SSN_LENGTH and _SSN(text),
    "hexcolor": _pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "rgbcolor": _pattern(rf"^rgb\(\s*{_BYTE_OF_COLOR}\s*,\s*{_BYTE_OF_COLOR}\s*,\s*{_BYTE_OF_COLOR}\s*\)$"),
    "byte": _pattern(r"^(?:[A-Za-z0-9+\/]{4})*(?:[A-Za-z0-9+\/]{2}==|[A-Za-z0-9+\/]{3}=|[A-Za-z0-9+\/]{4})$"),
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text.encode()) <= _MAX_LABEL and _SHORT_NAME(text),
    "k8slongname": lambda text: len(text.encode()) <= _MAX_SUBDOMAIN and _LONG_NAME(text),
}
"""The formats of strings, by their names without hyphens."""

_NUMBER_FORMATS: Mapping[str, frozenset[str]] = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}


def is_known(type_: str, format_: str) -> bool:
    """Whether a format counts for a type; any other is as if it were not there: ``GetUnrecognizedFormats``."""
    if type_ in ("", "string"):
        return format_.replace("-", "") in FORMATS
    return format_ in _NUMBER_FORMATS.get(type_, frozenset())
