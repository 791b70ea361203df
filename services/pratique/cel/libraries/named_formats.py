"""Named formats, such as ``format.dns1123Label().validate(text)``.

Source: ``k8s.io/apiserver/pkg/cel/library/format.go``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from typing import ClassVar

from pratique.apimachinery import names
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.urls import parse_request_url
from pratique.cel.activation import Frame, Implementation
from pratique.cel.declarations import Library, Overload
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of

_UUID = pattern(r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}")
_BASE64 = pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE = pattern(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = pattern(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class FormatValue:
    """A format as a CEL value; formats with the same name are equal."""

    cel_type: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    check: Callable[[str], list[str]] = dataclasses.field(compare=False)
    """Lists what is wrong with a string; nothing if it is valid."""
    pattern_size: int = dataclasses.field(compare=False)
    """The length of the regular expression that determines the cost."""


def _check_prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Check a prefix, which may end in a hyphen: ``maskTrailingDash``."""
    return lambda text: check(f"{text[:-1]}a" if len(text) > 1 and text.endswith("-") else text)


def _pattern(pattern: re.Pattern[str], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if pattern.fullmatch(text) else [message]


def _check_url(text: str) -> list[str]:
    try:
        parse_request_url(text)
    except ValueError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and bool(dt.date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    date, separator, time = text.partition("T") if "T" in text else text.partition("t")
    match = _TIME.fullmatch(time)
    if not separator or match is None or not _is_date(date):
        return False
    return int(match[1]) <= 23 and int(match[2]) <= 59 and int(match[3]) <= 59


def _check_date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _check_datetime(text: str) -> list[str]:
    return [] if _is_datetime(text) else ["invalid datetime"]


FORMATS = {
    "dns1123Label": FormatValue("DNS1123Label", names.check_dns1123_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", names.check_dns1123_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", names.check_dns1035_label, 30),
    "qualifiedName": FormatValue("QualifiedName", names.check_qualified_name, 60),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _check_prefix(names.check_dns1123_label), 30),
    "dns1123SubdomainPrefix": FormatValue(
        "DNS1123SubdomainPrefix", _check_prefix(names.check_dns1123_subdomain), 60
    ),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _check_prefix(names.check_dns1035_label), 30),
    "labelValue": FormatValue("LabelValue", names.check_label_value, 40),
    "uri": FormatValue("URI", _check_url, 1103),
    "uuid": FormatValue("uuid", _pattern(_UUID, "does not match the UUID format"), 78),
    "byte": FormatValue("byte", _pattern(_BASE64, "invalid base64"), 84),
    "date": FormatValue("date", _check_date, 75),
    "datetime": FormatValue("datetime", _check_datetime, 75),
}
"""The formats by the name that ``format.named`` takes."""


def _validate(_: Frame, form: Value, text: Value) -> Optional:
    require_types((FormatValue, str), form, text)
    problems = form.check(text)
    return optional_of(problems) if problems else OPTIONAL_NONE


def _named(_: Frame, name: Value) -> Optional:
    require_types((str,), name)
    return optional_of(FORMATS[name]) if name in FORMATS else OPTIONAL_NONE


def _constant_function(form: FormatValue) -> Implementation:
    return lambda _: form


_FORMAT = "kubernetes.NamedFormat"
LIBRARY = Library(
    overloads=(
        Overload("format-validate", f"{_FORMAT}.validate(string)", "optional_type<list<string>>"),
        Overload("format-named", "format.named(string)", f"optional_type<{_FORMAT}>"),
        *(Overload(f"format.{name}", f"format.{name}()", _FORMAT) for name in FORMATS),
    ),
    functions={
        "validate": _validate,
        "format.named": _named,
        **{f"format.{name}": _constant_function(form) for name, form in FORMATS.items()},
    },
)
