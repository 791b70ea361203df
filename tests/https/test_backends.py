"""HTTPS backends: what they use of a kubeconfig, and what they refuse at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import trustme

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.https.backends import open_backend
from support.image_review_servers import certificate_user, clients, encoded, kubeconfig, verdict, written
from support.webhook_servers import COMMON_NAMES, Authority, authority, serve

QUESTION = b'{"spec":{}}'
TRUSTED = encoded(authority().pem)


def ask(folder: Path, document: JSONObject, times: int = 1) -> bytes:
    async def run() -> bytes:
        backend = open_backend(Path(written(folder, document)))
        answer = b""
        try:
            for _ in range(times):
                answer = await backend.ask(QUESTION, Deadline.after(20))
        finally:
            await backend.close()
            await asyncio.sleep(0)
        return answer

    return asyncio.run(run())


def refusal(folder: Path, document: JSONObject) -> str:
    with pytest.raises(ConfigurationError) as raised:
        ask(folder, document)
    prefix, _, text = str(raised.value).partition(": ")
    assert prefix == str(folder / "kubeconfig.json")
    return text


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({"token": "t0"}, "Bearer t0"),
        ({"username": "ann", "password": "pw"}, "Basic YW5uOnB3"),
        ({}, None),
    ],
)
def test_the_backend_gets_the_credentials_of_the_contexts_user(
    user: JSONObject, authorization: str | None, tmp_path: Path
) -> None:
    with serve(verdict(allowed=True)) as server:
        ask(tmp_path, kubeconfig(server.url, user=user))
    assert server.received[0].headers.get("authorization") == authorization


def test_paths_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    (tmp_path / "token").write_text("t1\n")
    with serve(verdict(allowed=True)) as server:
        document = kubeconfig(
            server.url, user={"tokenFile": "token"}, cluster={"certificate-authority": "ca.pem"}
        )
        ask(tmp_path, document)
    assert server.received[0].headers["authorization"] == "Bearer t1"


def test_requests_share_one_connection(tmp_path: Path) -> None:
    with serve(verdict(allowed=True), clients=clients()) as server:
        ask(tmp_path, kubeconfig(server.url), times=3)
    assert (server.connections, len(server.received)) == (1, 3)


def failure(folder: Path, document: JSONObject) -> str:
    with pytest.raises(CallError) as raised:
        ask(folder, document)
    return str(raised.value)


def test_a_server_is_trusted_only_by_its_certificate(tmp_path: Path) -> None:
    other = {"certificate-authority-data": encoded(Authority().pem)}
    with serve(verdict(allowed=True)) as server:
        text = failure(tmp_path, kubeconfig(server.url, cluster=other))
    assert text.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")
    assert server.received == []


@pytest.mark.parametrize("others", COMMON_NAMES)
def test_the_common_name_does_not_identify_a_server(others: str, tmp_path: Path) -> None:
    certificate = authority().issue_by_common_name("localhost", *COMMON_NAMES[others])
    with serve(verdict(allowed=True), certificate=certificate) as server:
        text = failure(tmp_path, kubeconfig(server.url))
    assert "tls: failed to verify certificate: x509: certificate " in text
    assert server.received == []


def test_a_server_that_requires_a_client_certificate_gets_no_request_without_one(tmp_path: Path) -> None:
    with serve(verdict(allowed=True), clients=clients()) as server:
        failure(tmp_path, kubeconfig(server.url, user={}))
    assert server.received == []


def test_a_server_without_tls_gets_no_request(tmp_path: Path) -> None:
    with serve(verdict(allowed=True), plain=True) as server:
        text = failure(tmp_path, kubeconfig(server.url))
    assert text.endswith("http: server gave HTTP response to HTTPS client")
    assert server.received == []


def test_tls_server_name_replaces_the_urls_host(tmp_path: Path) -> None:
    certificate = authority().issue("images.example.com")
    named = {"certificate-authority-data": TRUSTED, "tls-server-name": "images.example.com"}
    with serve(verdict(allowed=True), certificate=certificate) as server:
        assert "not localhost" in failure(tmp_path, kubeconfig(server.url))
        assert ask(tmp_path, kubeconfig(server.url, cluster=named))


def test_insecure_skip_tls_verify_disables_verification(tmp_path: Path) -> None:
    certificate = Authority().issue("images.example.com", expired=True)
    with serve(verdict(allowed=True), certificate=certificate) as server:
        assert ask(tmp_path, kubeconfig(server.url, cluster={"insecure-skip-tls-verify": True}))


_paddings = itertools.count(1)


def rewrite(file: Path, content: bytes) -> None:
    """Change a file; its size differs each time, because two changes may come within the resolution of its times."""
    file.write_bytes(content + b"\n" * next(_paddings))


def outcomes(folder: Path, document: JSONObject, changes: Iterable[Callable[[], object]]) -> list[str]:
    """What one backend answers: the first call, and one after each change; why a call got no answer."""

    async def run() -> list[str]:
        backend = open_backend(Path(written(folder, document)))
        found = []
        try:
            for change in (lambda: None, *changes):
                change()
                try:
                    await backend.ask(QUESTION, Deadline.after(20))
                    found.append("answered")
                except CallError as error:
                    found.append(str(error).rpartition(": ")[2])
        finally:
            await backend.close()
            await asyncio.sleep(0)
        return found

    return asyncio.run(run())


def test_a_changed_authority_counts_from_the_next_call(tmp_path: Path) -> None:
    trusted, file, unknown = authority().pem, tmp_path / "ca.pem", "certificate signed by unknown authority"
    changes = {
        lambda: rewrite(file, trusted): "answered",
        lambda: rewrite(file, b"half a cert"): "answered",  # what cannot be used leaves the last that could
        lambda: rewrite(file, b""): "answered",
        file.unlink: "answered",
        lambda: rewrite(file, Authority().pem): unknown,  # on a connection that was open, too
        lambda: rewrite(file, Authority().pem + trusted): "answered",
    }
    rewrite(file, Authority().pem)
    with serve(verdict(allowed=True)) as server:
        document = kubeconfig(server.url, cluster={"certificate-authority": "ca.pem"})
        assert outcomes(tmp_path, document, changes) == [unknown, *changes.values()]


def test_a_changed_client_certificate_is_shown_from_the_next_call(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write_certificate(issued: trustme.LeafCert) -> None:
        rewrite(certificate, issued.cert_chain_pems[0].bytes())

    def write_both(issued: trustme.LeafCert) -> None:
        write_certificate(issued)
        rewrite(key, issued.private_key_pem.bytes())

    write_both(clients().issue("first"))
    changes = [
        lambda: write_both(clients().issue("second")),
        lambda: write_certificate(clients().issue("third")),  # its key is not there yet
        lambda: write_both(Authority().issue("stranger")),
    ]
    user: JSONObject = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    with serve(verdict(allowed=True), clients=clients()) as server:
        *found, last = outcomes(tmp_path, kubeconfig(server.url, user=user), changes)
    assert found == ["answered"] * 3
    assert last != "answered"
    assert len(server.received) == 3


def test_an_empty_file_of_authorities_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"\n")
    document = kubeconfig("https://localhost", cluster={"certificate-authority": "ca.pem"})
    assert refusal(tmp_path, document) == f"certificate-authority: {tmp_path}/ca.pem is empty"


NOTHING = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
CERTIFICATE = certificate_user()["client-certificate-data"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"current-context": ""}, f"invalid configuration: {NOTHING}"),
        ({"current-context": "x"}, "context was not found for specified context: x"),
        ({"clusters": []}, f"invalid configuration: {NOTHING}"),
        ({"users": []}, 'auth info "caller" does not exist'),
    ],
    ids=str,
)
def test_a_kubeconfig_that_names_no_backend_is_refused(
    changes: JSONObject, text: str, tmp_path: Path
) -> None:
    assert refusal(tmp_path, kubeconfig("https://localhost") | changes) == text


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ("", 'invalid configuration: no server found for cluster "images"'),
        ("http://localhost", 'server: "http://localhost" must be the URL of an HTTPS server'),
        ("https:///x", 'server: "https:///x" must be the URL of an HTTPS server'),
        ("https://a:b", 'server: parse "https://a:b": invalid port ":b" after host'),
    ],
)
def test_a_url_that_cannot_be_called_is_refused(server: str, text: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, kubeconfig(server)) == text


def test_a_host_without_a_scheme_is_reached_by_https(tmp_path: Path) -> None:
    with serve(verdict(allowed=True)) as server:
        assert ask(tmp_path, kubeconfig(server.url.removeprefix("https://"), user={}))


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (
            {"certificate-authority-data": "eA=="},
            "unable to load root certificates: unable to parse bytes as PEM",
        ),
        (
            {"certificate-authority": "no.pem"},
            "invalid configuration: unable to read certificate-authority {0}/no.pem for images due to",
        ),
        (
            {"certificate-authority-data": TRUSTED, "insecure-skip-tls-verify": True},
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
    ],
)
def test_authorities_that_cannot_be_used_are_refused(cluster: JSONObject, text: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, kubeconfig("https://localhost", cluster=cluster)).startswith(
        text.format(tmp_path)
    )


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ({"exec": {"command": "x"}}, 'exec plugins are not supported (user "caller"): give a token'),
        ({"auth-provider": {"name": "x"}}, "auth provider not supported"),
        ({"token": "a", "username": "b"}, "username/password or bearer token may be set, but not both"),
        ({"tokenFile": "no"}, "open {0}/no: no such file or directory"),
        (
            {"client-certificate-data": CERTIFICATE},
            "invalid configuration: client-key-data or client-key must be specified for caller to use",
        ),
        (
            {"client-certificate": "no.crt", "client-key": "no.key"},
            "invalid configuration: [unable to read client-cert {0}/no.crt for caller due to open {0}/no.crt: no such",
        ),
        (
            {"client-certificate-data": CERTIFICATE, "client-key-data": "eA=="},
            "tls: failed to find any PEM data in certificate input",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_credentials_that_cannot_be_used_are_refused(user: JSONObject, text: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, kubeconfig("https://localhost", user=user)).startswith(text.format(tmp_path))
