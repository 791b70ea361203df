from __future__ import annotations

import base64
from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.https.kubeconfigs import (
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigContext,
    KubeconfigUser,
    load_kubeconfig,
    read_kubeconfig,
)

PEM = base64.b64encode(b"pem").decode()


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_users_servers_and_contexts_are_found_by_name(tmp_path: Path) -> None:
    text = f"""
kind: Config
apiVersion: v1
current-context: here
contexts:
- name: here
  context: {{cluster: api, user: ann, namespace: shop}}
clusters:
- name: api
  cluster:
    server: https://api.example.com
    certificate-authority-data: {PEM}
    tls-server-name: api
users:
- name: ann
  user: {{token: secret}}
- name: "*.example.com"
  user: {{client-certificate-data: {PEM}, client-key-data: {PEM}}}
"""
    assert load_kubeconfig(written(tmp_path / "config", text)) == Kubeconfig(
        users={
            "ann": KubeconfigUser(token="secret"),
            "*.example.com": KubeconfigUser(client_certificate_data=b"pem", client_key_data=b"pem"),
        },
        servers={
            "api": KubeconfigCluster(
                server="https://api.example.com", certificate_authority_data=b"pem", tls_server_name="api"
            )
        },
        contexts={"here": KubeconfigContext("api", "ann")},
        current_context="here",
    )


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = """
users:
- name: a
  user: {tokenFile: token, client-certificate: ../a.crt, client-key: /keys/a.key}
clusters:
- name: c
  cluster: {certificate-authority: ca.crt}
"""
    config = load_kubeconfig(written(tmp_path / "config", text))
    user = config.users["a"]
    assert user.token_file == str(tmp_path / "token")
    assert user.client_certificate == str(tmp_path / "../a.crt")
    assert user.client_key == "/keys/a.key"
    assert config.servers["c"].certificate_authority == str(tmp_path / "ca.crt")


def test_impersonation_fields_are_read(tmp_path: Path) -> None:
    user = {"as": "ann", "as-uid": "7", "as-groups": ["devs"], "as-user-extra": {"team": ["a", "b"]}}
    config = read_kubeconfig({"users": [{"name": "u", "user": user}]}, tmp_path)
    assert config.users["u"] == KubeconfigUser(
        impersonate="ann",
        impersonate_uid="7",
        impersonate_groups=("devs",),
        impersonate_extra={"team": ("a", "b")},
    )


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n", "users: null", "users: []\nclusters: null"])
def test_a_kubeconfig_may_be_empty(tmp_path: Path, text: str) -> None:
    assert load_kubeconfig(written(tmp_path / "config", text)) == Kubeconfig()


def test_a_null_field_counts_as_absent(tmp_path: Path) -> None:
    data = {"users": [{"name": "u", "user": {"token": None, "exec": None}}, {"name": "v", "user": None}]}
    assert read_kubeconfig(data, tmp_path).users == {"u": KubeconfigUser(), "v": KubeconfigUser()}


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    data = {"preferences": {"colors": True}, "users": [{"name": "u", "user": {"hat": "red"}, "more": 1}]}
    assert read_kubeconfig(data, tmp_path).users == {"u": KubeconfigUser()}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"users": {}}, "not a kubeconfig: Expected `array`, got `object` - at `$.users`"),
        (
            {"users": [{"user": {"token": 5}}]},
            "not a kubeconfig: Expected `str`, got `int` - at `$.users[0].user.token`",
        ),
        (
            {"users": [{"user": {"client-key-data": "%%"}}]},
            "not a kubeconfig: Invalid base64 encoded string - at `$.users[0].user.client-key-data`",
        ),
        ({"kind": "Pod", "apiVersion": "v1"}, "not a kubeconfig: expected kind Config and apiVersion v1"),
        ({"apiVersion": "v2"}, "not a kubeconfig: expected kind Config and apiVersion v1"),
        ({"users": [{"name": "a"}, {"name": "a"}]}, 'users: duplicate name "a"'),
        ({"contexts": [{"name": "a"}, {"name": "a"}]}, 'contexts: duplicate name "a"'),
    ],
)
def test_an_error_names_the_field(tmp_path: Path, data: JSON, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_kubeconfig(data, tmp_path)
    assert str(raised.value) == text


@pytest.mark.parametrize("text", ["users: [", "- a\n", "text", "\x00", "users:\n- user: {token: 5}\n"])
def test_an_error_names_the_file(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "config", text)
    with pytest.raises(ConfigurationError, match=str(path)):
        load_kubeconfig(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{tmp_path / 'config'}: .*[Nn]o such file"):
        load_kubeconfig(tmp_path / "config")


def test_credentials_are_never_shown() -> None:
    user = KubeconfigUser(token="secret", password="secret", client_key_data=b"secret")
    assert "secret" not in f"{user!r} {user} {Kubeconfig(users={'u': user})}"
