"""Names, namespaces, UIDs and creation times of objects: validation, reading from metadata, and generation.

Validation follows ``k8s.io/apimachinery/pkg/util/validation/validation.go``; every check returns its error messages.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import re
import secrets
from typing import cast

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, json_type, member

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_LABEL}(\\.{_LABEL})*"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = f"{_UNDERSCORE_LABEL}(\\.{_UNDERSCORE_LABEL})*"
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
_UNDERSCORE_SUBDOMAIN_MESSAGE = _SUBDOMAIN_MESSAGE.replace("characters, '-'", "characters, '_', '-'")
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
    """Validate the name of a namespace or container: ``IsDNS1123Label``."""
    if len(value) <= _MAXIMUM_LABEL and _is_label(value):
        return []
    messages = _check_length(value, _MAXIMUM_LABEL)
    if not _matches(_LABEL, value):
        dotted = _matches(_SUBDOMAIN, value)
        other = _regex_message(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc")
        messages.append("must not contain dots" if dotted else other)
    return messages


@functools.lru_cache(1024)
def _is_label(value: str) -> bool:
    """Tell whether a value has the form of a label. Most objects are in the same few namespaces."""
    return _matches(_LABEL, value)


@functools.lru_cache(1024)
def _is_subdomain(value: str) -> bool:
    """Tell whether a value has the form of a subdomain. An object, its selector and its Pods have names in common."""
    return _matches(_SUBDOMAIN, value)


@functools.lru_cache(1024)
def _is_label_value(value: str) -> bool:
    return _matches(_LABEL_VALUE, value)


def check_dns1123_subdomain(value: str) -> list[str]:
    """Validate the name of most objects: ``IsDNS1123Subdomain``."""
    if len(value) <= _MAXIMUM_SUBDOMAIN and _is_subdomain(value):
        return []
    messages = _check_length(value, _MAXIMUM_SUBDOMAIN)
    if not _matches(_SUBDOMAIN, value):
        messages.append(_regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return messages


def check_dns1123_subdomain_with_underscore(value: str) -> list[str]:
    """Validate a domain that DNS is searched in: ``IsDNS1123SubdomainWithUnderscore``."""
    messages = _check_length(value, _MAXIMUM_SUBDOMAIN)
    if not _matches(_UNDERSCORE_SUBDOMAIN, value):
        messages.append(_regex_message(_UNDERSCORE_SUBDOMAIN_MESSAGE, _UNDERSCORE_SUBDOMAIN, "example.com"))
    return messages


def check_dns1035_label(value: str) -> list[str]:
    """Validate the name of a Service or an API version: ``IsDNS1035Label``."""
    messages = _check_length(value, _MAXIMUM_LABEL)
    if not _matches(_DNS1035_LABEL, value):
        messages.append(_regex_message(_DNS1035_LABEL_MESSAGE, _DNS1035_LABEL, "my-name", "abc-123"))
    return messages


def check_qualified_name(value: str) -> list[str]:
    """Validate the key of a label or annotation, ``[subdomain/]name``: ``IsQualifiedName``."""
    return [] if len(value) <= _SHORT and _is_qualified_name(value) else _qualified_name_messages(value)


_SHORT = 128
"""Characters of what is worth remembering; longer keys of labels are rare."""


@functools.lru_cache(1024)
def _is_qualified_name(value: str) -> bool:
    """Tell whether a key is valid. The same few are in nearly all objects."""
    return not _qualified_name_messages(value)


def _qualified_name_messages(value: str) -> list[str]:
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        form = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_label_key_message()} {form}"]
    messages = _check_prefix(prefix) if slash else []
    if not name:
        messages.append("name part must be non-empty")
    elif _length(name) > _MAXIMUM_LABEL:
        messages.append(f"name part must be no more than {_MAXIMUM_LABEL} bytes")
    if not _matches(_LABEL_KEY, name):
        messages.append(f"name part {_label_key_message()}")
    return messages


def _label_key_message() -> str:
    return _regex_message(_LABEL_KEY_MESSAGE, _LABEL_KEY, "MyName", "my.name", "123-abc")


def check_label_value(value: str) -> list[str]:
    """Validate the value of a label: ``IsValidLabelValue``."""
    if len(value) <= _MAXIMUM_LABEL and _is_label_value(value):
        return []
    messages = []
    if _length(value) > _MAXIMUM_LABEL:
        messages.append(f"must be no more than {_MAXIMUM_LABEL} bytes")
    if not _matches(_LABEL_VALUE, value):
        messages.append(_regex_message(_LABEL_VALUE_MESSAGE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return messages


def check_port_number(value: int) -> list[str]:
    """Validate a TCP port: ``IsValidPortNum``."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_path_segment(value: str) -> list[str]:
    """Validate a name as a path segment: ``IsValidPathSegmentName`` of ``pkg/api/validation/path/name.go``."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    messages = (
        [f"must be no more than {_MAXIMUM_SUBDOMAIN} bytes"] if _length(prefix) > _MAXIMUM_SUBDOMAIN else []
    )
    if not _matches(_SUBDOMAIN, prefix):
        messages.append(_regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return [f"prefix part {message}" for message in messages]


def _check_length(value: str, maximum: int) -> list[str]:
    return [f"must be no more than {maximum} characters"] if _length(value) > maximum else []


def _length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def _matches(pattern: str, value: str) -> bool:
    return _compiled(pattern).fullmatch(value) is not None


_compiled = functools.cache(re.compile)
"""The patterns are those of this module; ``re`` takes four times as long to find one."""


def _regex_message(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


DEFAULT_NAMESPACE = "default"
"""The namespace of namespaced objects that name none."""


def name_of(document: JSONObject) -> str:
    """The object's name; empty if it has none.

    Raises:
        InputError: there is no metadata, or the name is not a string.
    """
    return _metadata_text(_metadata(document), "name")


def generate_name_of(document: JSONObject) -> str:
    """The object's ``generateName``, the prefix of a name to be generated; empty if it has none.

    Raises:
        InputError: there is no metadata, or the value is not a string.
    """
    return _metadata_text(_metadata(document), "generateName")


def namespace_of(document: JSONObject) -> str:
    """The namespace in the object's metadata; empty if there is none.

    Raises:
        InputError: there is no metadata, or the namespace is not a string.
    """
    return _metadata_text(_metadata(document), "namespace")


_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)


def creation_time_of(document: JSONObject) -> dt.datetime:
    """When the object was created. Without a readable ``creationTimestamp`` it counts as older than all others."""
    try:
        created = dt.datetime.fromisoformat(member(document, "metadata", "creationTimestamp"))
    except (TypeError, ValueError):
        return _LONG_AGO
    return created if created.tzinfo else created.replace(tzinfo=dt.UTC)


def with_namespace(document: JSONObject, namespace: str, name: str = "") -> JSONObject:
    """The object with its metadata naming ``namespace`` (none if that is empty), and ``name`` if given."""
    written: JSON = document.get("metadata")
    metadata: JSONObject = written if isinstance(written, dict) else {}
    # Most objects are right already, and then need no copy.
    if namespace and metadata.get("namespace") == namespace and (not name or metadata.get("name") == name):
        return document
    wanted = {"name": name} if name else {}
    if namespace:
        wanted["namespace"] = namespace
    kept = {key: value for key, value in metadata.items() if key != "namespace" or namespace}
    placed_metadata = kept | wanted
    return document if placed_metadata == written else {**document, "metadata": placed_metadata}


def _metadata(document: JSONObject) -> JSONObject:
    metadata: JSON = document.get("metadata")
    if metadata is None:
        raise InputError("metadata: Required value: every object has metadata with a name")
    if not isinstance(metadata, dict):
        raise InputError(f"metadata: must be a mapping, not {json_type(metadata)}")
    return cast("JSONObject", metadata)


def _metadata_text(metadata: JSONObject, field: str) -> str:
    value: JSON = metadata.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        hint = ": write it in quotes" if isinstance(value, bool | int | float) else ""
        raise InputError(f"metadata.{field}: must be a string, not {json_type(value)}{hint}")
    return value


RANDOM_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""``k8s.io/apimachinery/pkg/util/rand``: no vowels, so no rude words, and no characters that look alike."""
_RANDOM_LENGTH = 5
_RANDOM_NAMES = len(RANDOM_ALPHABET) ** _RANDOM_LENGTH
_MAX_NAME_LENGTH = 63
"""The length of a DNS label."""


def generate_name(base: str) -> str:
    """Generate a name with the prefix ``base`` and at most 63 characters: ``SimpleNameGenerator``."""
    drawn, letters = secrets.randbelow(_RANDOM_NAMES), ""  # once, as each draw is a system call
    for _ in range(_RANDOM_LENGTH):
        drawn, place = divmod(drawn, len(RANDOM_ALPHABET))
        letters += RANDOM_ALPHABET[place]
    return base[: _MAX_NAME_LENGTH - _RANDOM_LENGTH] + letters


_VARIANTS = {f"{digit:x}": f"{digit & 0b0011 | 0b1000:x}" for digit in range(16)}


def uuid5(namespace: bytes, name: bytes) -> str:
    """The version 5 UUID of a name, in half the time of ``uuid.uuid5``: every offline review needs one."""
    found = hashlib.sha1(namespace + name, usedforsecurity=False).hexdigest()
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{_VARIANTS[found[16]]}{found[17:20]}-{found[20:32]}"
