"""The forms that Kubernetes gives to names, and what it says of a text that has another.

Each ``check_…`` returns messages, none where the text is right. Lengths are in bytes. Source:
``k8s.io/apimachinery/pkg/util/validation/validation.go`` and ``pkg/api/validate/content``.
"""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_LABEL}(\\.{_LABEL})*"
_DNS1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_LABEL_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_LABEL_KEY_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)

_MAXIMUM_LABEL = 63  # RFC 1035: a label's length has six bits
_MAXIMUM_SUBDOMAIN = 253  # RFC 1035: 255 bytes with the length bytes of the first label and of the root


def check_dns1123_label(value: str) -> list[str]:
    """Check the form of a namespace's or a container's name: ``IsDNS1123Label``."""
    messages = _check_length(value, _MAXIMUM_LABEL)
    if not _is(_LABEL, value):
        dotted = _is(_SUBDOMAIN, value)
        other = _regex_message(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc")
        messages.append("must not contain dots" if dotted else other)
    return messages


def check_dns1123_subdomain(value: str) -> list[str]:
    """Check the form that most objects' names have: ``IsDNS1123Subdomain``."""
    messages = _check_length(value, _MAXIMUM_SUBDOMAIN)
    if not _is(_SUBDOMAIN, value):
        messages.append(_regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return messages


def check_dns1035_label(value: str) -> list[str]:
    """Check the form of a Service's name, and of an API version: ``IsDNS1035Label``."""
    messages = _check_length(value, _MAXIMUM_LABEL)
    if not _is(_DNS1035_LABEL, value):
        messages.append(_regex_message(_DNS1035_LABEL_MESSAGE, _DNS1035_LABEL, "my-name", "abc-123"))
    return messages


def check_qualified_name(value: str) -> list[str]:
    """Check the form of a label's or an annotation's key, ``[subdomain/]name``: ``IsQualifiedName``."""
    name_message = _regex_message(_LABEL_KEY_MESSAGE, _LABEL_KEY, "MyName", "my.name", "123-abc")
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        form = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {name_message} {form}"]
    messages = _check_prefix(prefix) if slash else []
    if not name:
        messages.append("name part must be non-empty")
    elif _length(name) > _MAXIMUM_LABEL:
        messages.append(f"name part must be no more than {_MAXIMUM_LABEL} bytes")
    if not _is(_LABEL_KEY, name):
        messages.append(f"name part {name_message}")
    return messages


def check_label_value(value: str) -> list[str]:
    """Check the form of a label's value: ``IsValidLabelValue``."""
    messages = []
    if _length(value) > _MAXIMUM_LABEL:
        messages.append(f"must be no more than {_MAXIMUM_LABEL} bytes")
    if not _is(_LABEL_VALUE, value):
        messages.append(_regex_message(_LABEL_VALUE_MESSAGE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return messages


def check_port_number(value: int) -> list[str]:
    """Check that a TCP port can be one: ``IsValidPortNum``."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_path_segment(value: str) -> list[str]:
    """Check that a name can stand in a path: ``IsValidPathSegmentName`` of ``pkg/api/validation/path/name.go``."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    messages = (
        [f"must be no more than {_MAXIMUM_SUBDOMAIN} bytes"] if _length(prefix) > _MAXIMUM_SUBDOMAIN else []
    )
    if not _is(_SUBDOMAIN, prefix):
        messages.append(_regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return [f"prefix part {message}" for message in messages]


def _check_length(value: str, maximum: int) -> list[str]:
    return [f"must be no more than {maximum} characters"] if _length(value) > maximum else []


def _length(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))


def _is(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def _regex_message(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"
