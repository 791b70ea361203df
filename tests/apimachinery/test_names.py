"""Validation of names in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery import names

Check: TypeAlias = "Callable[[str], list[str]]"

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (names.check_dns1123_label, "a"),
        (names.check_dns1123_label, "1-a"),
        (names.check_dns1123_label, "a" * 63),
        (names.check_dns1123_subdomain, "a.b-c.1"),
        (names.check_dns1123_subdomain, ".".join(["a" * 50] * 4) + ".abc"),
        (names.check_dns1035_label, "v1beta1"),
        (names.check_qualified_name, "simple"),
        (names.check_qualified_name, "1.2.3.4/5678"),
        (names.check_qualified_name, "Uppercase_Is-OK.123"),
        (names.check_qualified_name, f"{'a' * 253}/{'a' * 63}"),
        (names.check_label_value, ""),
        (names.check_label_value, "A_b.c-1"),
    ],
)
def test_a_valid_name_passes(check: Check, value: str) -> None:
    assert check(value) == []


@pytest.mark.parametrize(
    ("check", "value", "messages"),
    [
        (names.check_dns1123_label, "", [LABEL]),
        (names.check_dns1123_label, "A", [LABEL]),
        (names.check_dns1123_label, "-a", [LABEL]),
        (names.check_dns1123_label, "a\n", [LABEL]),
        (names.check_dns1123_label, "a.b", ["must not contain dots"]),
        (names.check_dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.check_dns1123_subdomain, "a..b", [SUBDOMAIN]),
        (names.check_dns1123_subdomain, "a_b", [SUBDOMAIN]),
        (names.check_dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (names.check_dns1035_label, "0v", [DNS1035]),
        (names.check_dns1035_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.check_qualified_name, "-hello", [NAME_PART]),
        (names.check_qualified_name, "a/", ["name part must be non-empty", NAME_PART]),
        (names.check_qualified_name, "/a", ["prefix part must be non-empty"]),
        (names.check_qualified_name, "A/b", [f"prefix part {SUBDOMAIN}"]),
        (names.check_qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (names.check_qualified_name, f"{'a' * 254}/b", ["prefix part must be no more than 253 bytes"]),
        (names.check_label_value, "a b", [VALUE]),
        (names.check_label_value, "\u00e9" * 32, ["must be no more than 63 bytes", VALUE]),
    ],
)
def test_an_invalid_name_is_refused_word_for_word(check: Check, value: str, messages: list[str]) -> None:
    assert check(value) == messages


def test_a_qualified_name_has_at_most_one_slash() -> None:
    (message,) = names.check_qualified_name("a/b/c")
    assert message.startswith("a valid label key must consist of alphanumeric characters")
    assert message.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


@pytest.mark.parametrize(
    ("port", "right"), [(0, False), (1, True), (65535, True), (65536, False), (-1, False)]
)
def test_a_port_is_between_1_and_65535(port: int, *, right: bool) -> None:
    expected = [] if right else ["must be between 1 and 65535, inclusive"]
    assert names.check_port_number(port) == expected


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_dotted_labels_form_a_subdomain(label: str) -> None:
    assert names.check_dns1123_label(label) == []
    assert names.check_dns1123_subdomain(label) == []
    assert names.check_dns1123_subdomain(f"{label}.{label}") == []
