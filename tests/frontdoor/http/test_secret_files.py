"""Tokens and passwords in files, and how they are compared."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import ConfigurationError
from pratique_frontdoor.http.app import build_app
from pratique_frontdoor.http.authentication import SecretDigests, read_logins, read_tokens
from pratique_frontdoor.http.listener import ListenerSecurity
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine


@given(st.lists(st.binary(), min_size=1, max_size=5), st.binary())
def test_only_the_secrets_of_the_file_match(secrets: list[bytes], other: bytes) -> None:
    digests = SecretDigests.of(secrets)
    assert all(digests.match(secret) for secret in secrets)
    assert digests.match(other) is (other in secrets)


def test_every_secret_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def watching(held: bytes, presented: bytes) -> bool:
        compared.append((held, presented))
        return compare(held, presented)

    monkeypatch.setattr("pratique_frontdoor.http.authentication.hmac.compare_digest", watching)
    digests = SecretDigests.of([b"first", b"second", b"third"])
    for presented in (b"", b"first", b"third", b"thir", b"x" * 10_000):
        compared.clear()
        digests.match(presented)
        assert [held for held, _ in compared] == list(digests.held)
        assert {item for _, item in compared} == {hashlib.sha256(presented).digest()}
        assert {len(item) for pair in compared for item in pair} == {32}


def test_secrets_are_neither_kept_nor_shown() -> None:
    digests = SecretDigests.of([b"canary"])
    assert "canary" not in repr(digests)
    assert b"canary" not in digests.held
    assert repr(digests) == "SecretDigests()"


def test_every_nonempty_line_is_a_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(b"one\r\n\n\nabc.DEF-_~+/09==\n")
    assert read_tokens(file) == SecretDigests.of([b"one", b"abc.DEF-_~+/09=="])


def test_a_password_may_contain_colons_and_a_user_may_not(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:pass: word \nbob:ü\n")
    assert read_logins(file) == SecretDigests.of([b"ann:pass: word ", "bob:ü".encode()])


NO_TOKEN = "expected a bearer token: letters, digits and . _ ~ + / - alone"
NO_LOGIN = "expected user:password"
EMPTY = "is empty, so no caller could be accepted; {}, one per line"


@pytest.mark.parametrize(
    ("read", "content", "complaint"),
    [
        (read_tokens, "good\nwith blank\n", f"line 2: {NO_TOKEN}"),
        (read_tokens, "good\nwith blank\nwith blank, too\n", f"line 2: {NO_TOKEN}"),
        (read_tokens, '"quoted"', f"line 1: {NO_TOKEN}"),
        (read_tokens, "# no comments", f"line 1: {NO_TOKEN}"),
        (read_tokens, "token,user,uid", f"line 1: {NO_TOKEN}"),
        (read_tokens, "", EMPTY.format(NO_TOKEN)),
        (read_tokens, "\n\n", EMPTY.format(NO_TOKEN)),
        (read_logins, "ann", f"line 1: {NO_LOGIN}"),
        (read_logins, "ann:", f"line 1: {NO_LOGIN}"),
        (read_logins, ":secret", f"line 1: {NO_LOGIN}"),
        (read_logins, "ann:a\tb", f"line 1: {NO_LOGIN}"),
        (read_logins, "", EMPTY.format(NO_LOGIN)),
    ],
)
def test_an_unusable_line_is_reported_by_number_and_never_by_content(
    tmp_path: Path, read: Callable[[Path], SecretDigests], content: str, complaint: str
) -> None:
    file = tmp_path / "secrets"
    file.write_text(content)
    flag = "--token-file" if read is read_tokens else "--basic-auth-file"
    with pytest.raises(ConfigurationError) as error:
        read(file)
    assert str(error.value) == f"{flag} {file}: {complaint}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--token-file .*nothing: No such file or directory"):
        read_tokens(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"client_ca_file"}, "--client-ca-file needs HTTPS"),
        ({"client_allowed_names"}, "--client-allowed-names needs --client-ca-file"),
        ({"tls_min_version"}, "--tls-min-version nonsense: expected one of VersionTLS12, VersionTLS13"),
        ({"tls_cipher_suites"}, "Cipher suite nonsense not supported or doesn't exist"),
    ],
)
def test_contradicting_settings_are_refused(tmp_path: Path, given: set[str], complaint: str) -> None:
    import trustme

    bundle = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(bundle)
    values: dict[str, Any] = {
        "client_ca_file": bundle,
        "client_allowed_names": ("one",),
        "tls_min_version": "nonsense",
        "tls_cipher_suites": ("nonsense",),
    }
    settings = dataclasses.replace(FrontDoorSettings(), **{name: values[name] for name in given})
    with pytest.raises(ConfigurationError, match=complaint):
        ListenerSecurity(settings)


def test_tokens_without_tls_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    file.write_text("token")
    ListenerSecurity(FrontDoorSettings(token_file=file))
    assert caplog.messages == ["secrets are sent in plain text"]


def test_without_credentials_there_is_no_authentication_middleware() -> None:
    assert build_app(AllowingEngine(), FrontDoorSettings()).user_middleware == []
