"""The formats of texts that tags of types name.

Sources: ``k8s.io/apimachinery/pkg/api/validate/strfmt.go`` and the package ``content`` below it, which counts bytes
where others count characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, quoted_text, too_long
from pratique.apimachinery.patterns import pattern

Format: TypeAlias = Callable[[str, FieldPath], list[FieldError]]
"""Finds what is wrong with a text at a path."""


def in_bytes(messages: list[str]) -> list[str]:
    """Messages as the package ``content`` words them."""
    return [re.sub(r"(no more than \d+) characters$", r"\1 bytes", message) for message in messages]


def _format(check: Callable[[str], list[str]]) -> Format:
    return lambda text, path: [invalid(path, text, message) for message in in_bytes(check(text))]


_CASELESS_SUBDOMAIN = pattern(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.IGNORECASE | re.ASCII
)
_CASELESS = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'Example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _check_caseless_subdomain(text: str) -> list[str]:
    messages = ["must be no more than 253 bytes"] if len(text.encode()) > 253 else []
    return messages if _CASELESS_SUBDOMAIN.fullmatch(text) else [*messages, _CASELESS]


def _check_prefixed_key(text: str) -> list[str]:
    if messages := names.check_qualified_name(text):
        return messages
    return [] if "/" in text else ["must include a prefix (e.g. 'example.com/key')"]


_UUID = pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _check_uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["must be a lowercase UUID in 8-4-4-4-12 format"]


def _validate_pool_name(text: str, path: FieldPath) -> list[FieldError]:
    errors = [too_long(path, 253)] if len(text.encode()) > 253 else []
    for index, part in enumerate(text.split("/")):
        if not part:
            errors.append(invalid(path, text, f"segment {index}: must not be empty"))
            continue
        messages = in_bytes(names.check_dns1123_subdomain(part))
        errors += [invalid(path, part, f"segment {index}: {message}") for message in messages]
    return errors


def _validate_extended_resource(text: str, path: FieldPath) -> list[FieldError]:
    details = []
    if "/" not in text:
        details.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in text:
        details.append('must not have "kubernetes.io/" domain')
    if text.startswith("requests."):
        details.append('must not have "requests." prefix')
    details += in_bytes(names.check_qualified_name(f"requests.{text}"))
    return [invalid(path, text, detail) for detail in details]


_LONGEST_PREFIX, _LONGEST_IDENTIFIER = 63, 32
_IDENTIFIER = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def _validate_identifier(text: str, path: FieldPath) -> list[FieldError]:
    errors = [too_long(path, _LONGEST_IDENTIFIER)] if len(text.encode()) > _LONGEST_IDENTIFIER else []
    return (
        errors if _IDENTIFIER.fullmatch(text) else [*errors, invalid(path, quoted_text(text), _NO_IDENTIFIER)]
    )


def _validate_full_name(text: str, path: FieldPath) -> list[FieldError]:
    parts = text.split("/")
    if len(parts) == 1:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        return [*_validate_identifier(text, path), invalid(path, quoted_text(text), detail)]
    if len(parts) > 2:
        return []
    prefix, name = parts
    errors = []
    if prefix:
        errors += [too_long(path, _LONGEST_PREFIX)] if len(prefix.encode()) > _LONGEST_PREFIX else []
        messages = in_bytes(names.check_dns1123_subdomain(prefix))
        errors += [invalid(path, quoted_text(prefix), f"prefix: {message}") for message in messages]
    else:
        errors.append(invalid(path, "", "prefix must not be empty"))
    return errors + (
        _validate_identifier(name, path) if name else [invalid(path, "", "name must not be empty")]
    )


FORMATS: Mapping[str, tuple[str, Format]] = {
    "ExtendedResourceName": ("k8s-extended-resource-name", _validate_extended_resource),
    "LabelKey": ("k8s-label-key", _format(names.check_qualified_name)),
    "LongName": ("k8s-long-name", _format(names.check_dns1123_subdomain)),
    "LongNameCaseless": ("k8s-long-name-caseless", _format(_check_caseless_subdomain)),
    "PathSegmentName": ("k8s-path-segment-name", _format(names.check_path_segment)),
    "PrefixedLabelKey": ("k8s-prefixed-label-key", _format(_check_prefixed_key)),
    "ResourceFullyQualifiedName": ("k8s-resource-fully-qualified-name", _validate_full_name),
    "ResourcePoolName": ("k8s-resource-pool-name", _validate_pool_name),
    "ShortName": ("k8s-short-name", _format(names.check_dns1123_label)),
    "UUID": ("k8s-uuid", _format(_check_uuid)),
}
"""The names of formats in errors' origins, and their checks, by the names of Go's functions."""
