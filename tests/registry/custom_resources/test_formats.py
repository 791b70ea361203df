"""The formats of strings: cases from ``k8s.io/kube-openapi``'s ``default_test.go`` and ``validator_test.go``."""

from __future__ import annotations

import pytest

from pratique.registry.custom_resources.formats import FORMATS, is_known


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bsonobjectid", "507f1f77bcf86cd799439011"),
        ("uri", "http://somewhere.com"),
        ("uri", "/path"),
        ("email", "somebody@somewhere.com"),
        ("email", "Barry <barry@example.com>"),
        ("hostname", "somewhere.com"),
        ("hostname", "sömewhere.com"),
        ("hostname", "a-b"),
        ("hostname", "1.2.museum"),
        ("ipv4", "192.168.254.1"),
        ("ipv4", "010.0.0.1"),
        ("ipv6", "::ffff:1.2.3.4"),
        ("cidr", "192.168.254.1/24"),
        ("cidr", "::1/64"),
        ("mac", "01:02:03:04:05:06"),
        ("mac", "0123.4567.89ab"),
        ("uuid", "A8098C1AF86E11DABD1A00112444BE1E"),
        ("uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f"),
        ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34"),
        ("uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d"),
        ("isbn", "0321751043"),
        ("isbn10", "0-321-75104-3"),
        ("isbn13", "978 0321751041"),
        ("creditcard", "4111-1111-1111-1111"),
        ("ssn", "111-11-1111"),
        ("hexcolor", "#FFF"),
        ("rgbcolor", "rgb(100, 100,100)"),
        ("byte", "ZWxpemFiZXRocG9zZXk="),
        ("password", ""),
        ("date", "2014-12-15"),
        ("date", "0000-02-29"),
        ("datetime", "2014-12-15T19:30:20.000Z"),
        ("datetime", "2014-12-15t19:30:20+01:00"),
        ("duration", "1.5h"),
        ("duration", "2 days"),
        ("duration", "at least 3 weeks"),
        ("k8sshortname", "a-b"),
        ("k8slongname", "a-b.c"),
    ],
)
def test_texts_in_a_format_are_accepted(name: str, text: str) -> None:
    """Go is lenient in places: leading zeros, words around a duration."""
    assert FORMATS[name](text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bsonobjectid", "507f1f77"),
        ("uri", "somewhere.com"),
        ("uri", ""),
        ("email", "somebody@somewhere@com"),
        ("email", "@somewhere.com"),
        ("hostname", "somewhere.com!"),
        ("hostname", "-a"),
        ("hostname", "a-b-c"),
        ("hostname", "a.b.c"),
        ("hostname", "a..com"),
        ("hostname", f"{'a' * 64}.com"),
        ("ipv4", "1.2.3"),
        ("ipv4", "::1"),
        ("ipv6", "127.0.0.1"),
        ("ipv6", "fe80::1%en0"),
        ("cidr", "192.168.254.1"),
        ("cidr", "10.0.0.0/33"),
        ("mac", "01:02-03:04:05:06"),
        ("mac", "01:02:03:04:05"),
        ("uuid", "a8098c1a"),
        ("uuid3", "bcd02e22-68f0-4046-a512-327cca9def8f"),
        ("uuid4", "025b0d74-00a2-4048-cf57-227c5111bb34"),
        ("uuid5", "886313e1-3b8a-4372-9b90-0c9aee199e5d"),
        ("isbn", "836217463"),
        ("isbn10", "0321751044"),
        ("isbn13", "9780321751042"),
        ("creditcard", "4111-1111-1111-1112"),
        ("ssn", "00-1111-1111"),
        ("hexcolor", "#FFFFFFFF"),
        ("rgbcolor", "rgb(300,0,0)"),
        ("byte", "ZWxpemFiZXRocG9zZXk-"),
        ("date", "2014-02-30"),
        ("date", "2014-2-3"),
        ("datetime", "2014-12-15"),
        ("datetime", "2014-12-15T24:30:20Z"),
        ("datetime", "2014-12-15T19:30:60Z"),
        ("duration", "three days"),
        ("duration", "9" * 5000 + " days"),
        ("duration", "1" * 1_000_000),  # in linear time: quadratic time would take hours
        ("k8sshortname", "a.b"),
        ("k8sshortname", "a" * 64),
        ("k8slongname", "A.b"),
    ],
)
def test_other_texts_are_refused(name: str, text: str) -> None:
    """A text that has another format than the one asked for."""
    assert not FORMATS[name](text)


@pytest.mark.parametrize(
    ("type_", "name", "known"),
    [
        ("string", "date-time", True),
        ("", "k8s-short-name", True),
        ("string", "int32", False),
        ("integer", "int32", True),
        ("integer", "double", False),
        ("number", "float", True),
        ("boolean", "date", False),
    ],
)
def test_formats_count_only_for_their_types(type_: str, name: str, known: bool) -> None:  # noqa: FBT001
    """``GetUnrecognizedFormats`` of ``apiserver/validation/formats.go``."""
    assert is_known(type_, name) is known
