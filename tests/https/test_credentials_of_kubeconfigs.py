"""The cluster and user of a kubeconfig's current context, with the errors of client-go."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.https.credentials import ANONYMOUS, ClientCertificate, Credentials, PemSource, user_credentials
from pratique.https.kubeconfigs import KubeconfigUser, read_kubeconfig, resolve_current_context

PEM = base64.b64encode(b"pem").decode()
NO_CONFIGURATION = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)


def document(user: JSON = None, cluster: JSON = None, **members: JSON) -> dict[str, Any]:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "api", "user": "ann"}}],
        "clusters": [{"name": "api", "cluster": {"server": "https://api", **(cluster or {})}}],
        "users": [{"name": "ann", "user": user or {}}],
        **members,
    }


def error(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve_current_context(read_kubeconfig(data, Path("/nowhere")))
    return str(caught.value)


def test_the_current_context_names_cluster_and_user() -> None:
    resolved = resolve_current_context(read_kubeconfig(document({"token": "t"}), Path()))
    assert (resolved.server.server, resolved.user_name, resolved.user.token) == ("https://api", "ann", "t")


def test_a_context_without_user_is_anonymous() -> None:
    contexts = [{"name": "here", "context": {"cluster": "api"}}]
    resolved = resolve_current_context(read_kubeconfig(document(contexts=contexts), Path()))
    assert (resolved.user_name, resolved.user) == ("", KubeconfigUser())
    assert user_credentials(resolved.user_name, resolved.user) == ANONYMOUS


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, NO_CONFIGURATION),
        (document(**{"current-context": ""}), NO_CONFIGURATION),
        (document(clusters=[]), NO_CONFIGURATION),
        (document(**{"current-context": "gone"}), "context was not found for specified context: gone"),
        (document(users=[]), 'auth info "ann" does not exist'),
        (document(cluster={"server": ""}), 'invalid configuration: no server found for cluster "api"'),
        (
            document({"client-certificate-data": PEM}),
            (
                "invalid configuration: client-key-data or client-key must be specified for ann "
                "to use the clientCert authentication method."
            ),
        ),
        (
            document({"client-certificate-data": PEM, "client-key": "ann.key"}),
            (
                "invalid configuration: unable to read client-key /nowhere/ann.key for ann "
                "due to open /nowhere/ann.key: no such file or directory"
            ),
        ),
        (
            document({"client-certificate": "ann.crt", "client-key-data": PEM}),
            (
                "invalid configuration: unable to read client-cert /nowhere/ann.crt for ann "
                "due to open /nowhere/ann.crt: no such file or directory"
            ),
        ),
        (
            document(cluster={"certificate-authority": "ca.crt"}),
            (
                "invalid configuration: unable to read certificate-authority /nowhere/ca.crt for api "
                "due to open /nowhere/ca.crt: no such file or directory"
            ),
        ),
        (
            document({"client-certificate-data": PEM}, {"server": "", "certificate-authority": "ca.crt"}),
            (
                "invalid configuration: [client-key-data or client-key must be specified for ann "
                'to use the clientCert authentication method., no server found for cluster "api", '
                "unable to read certificate-authority /nowhere/ca.crt for api "
                "due to open /nowhere/ca.crt: no such file or directory]"
            ),
        ),
    ],
)
def test_an_incomplete_context_is_refused_in_client_gos_words(data: dict[str, Any], text: str) -> None:
    assert error(data) == text


def test_data_takes_precedence_over_files_that_do_not_exist() -> None:
    user = {
        "client-certificate": "ann.crt",
        "client-certificate-data": PEM,
        "client-key": "ann.key",
        "client-key-data": PEM,
    }
    cluster = {"certificate-authority": "ca.crt", "certificate-authority-data": PEM}
    resolved = resolve_current_context(read_kubeconfig(document(user, cluster), Path("/nowhere")))
    certificate = user_credentials(resolved.user_name, resolved.user).certificate
    assert certificate is not None
    assert (certificate.certificate.read(), certificate.key.read()) == (b"pem", b"pem")
    assert certificate.stamp == ((0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        (KubeconfigUser(token="t"), [("Authorization", "Bearer t")]),
        (KubeconfigUser(username="ann", password="p:w"), [("Authorization", "Basic YW5uOnA6dw==")]),
        (KubeconfigUser(password="only"), [("Authorization", "Basic Om9ubHk=")]),
        (
            KubeconfigUser(
                impersonate="bob",
                impersonate_uid="7",
                impersonate_groups=("a", "b"),
                impersonate_extra={"example.com/team": ("x", "y"), "naïve": ("z",)},
            ),
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-example.com%2Fteam", "x"),
                ("Impersonate-Extra-example.com%2Fteam", "y"),
                ("Impersonate-Extra-na%C3%AFve", "z"),
            ],
        ),
        (KubeconfigUser(impersonate_groups=("a",)), []),
    ],
)
def test_a_user_becomes_headers(user: KubeconfigUser, headers: list[tuple[str, str]]) -> None:
    assert list(user_credentials("ann", user).headers()) == headers


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (KubeconfigUser(auth_provider={}), "auth provider not supported"),
        (KubeconfigUser(exec={"command": "aws"}), 'exec plugins are not supported (user "ann"): '),
        (
            KubeconfigUser(username="ann", token="t"),
            "username/password or bearer token may be set, but not both",
        ),
        (
            KubeconfigUser(password="p", token_file="/t"),
            "username/password or bearer token may be set, but not both",
        ),
        (KubeconfigUser(token_file="/nowhere/token"), "open /nowhere/token: no such file or directory"),
    ],
)
def test_unsupported_credentials_are_refused(user: KubeconfigUser, text: str) -> None:
    with pytest.raises(CallError) as caught:
        user_credentials("ann", user)
    assert str(caught.value).startswith(f"could not get REST client: {text}")
    assert caught.value.code == 500


def test_no_secret_is_in_the_representation_of_credentials(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    for user in (
        KubeconfigUser(token="secret"),
        KubeconfigUser(username="ann", password="secret"),
        KubeconfigUser(token_file=str(tmp_path / "token")),
        KubeconfigUser(client_certificate_data=b"secret", client_key_data=b"secret"),
    ):
        credentials = user_credentials("ann", user)
        assert isinstance(credentials, Credentials)
        assert "secret" not in repr(credentials)


def test_a_stamp_changes_with_either_file(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    pair = ClientCertificate(PemSource(path=str(certificate)), PemSource(path=str(key)))
    stamps = [pair.stamp]
    for file, content in ((certificate, b"1"), (key, b"1"), (key, b"22")):
        file.write_bytes(content)
        stamps.append(pair.stamp)
    assert len(set(stamps)) == 4
    key.unlink()
    with pytest.raises(CallError, match=f"open {key}: no such file or directory"):
        pair.key.read()
