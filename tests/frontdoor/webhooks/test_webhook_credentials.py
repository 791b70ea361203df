from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import JSONObject
from pratique.https.credentials import (
    ANONYMOUS,
    ClientCertificate,
    Credentials,
    PemSource,
    TokenFile,
    user_credentials,
)
from pratique.https.kubeconfigs import Kubeconfig, KubeconfigContext, KubeconfigUser
from pratique_frontdoor.webhooks.clients import WebhookCredentials, user_name
from support import vector_cases

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def user_of(given: JSONObject) -> KubeconfigUser:
    return KubeconfigUser(
        token=given.get("token", ""),
        impersonate=given.get("impersonate", ""),
        impersonate_uid=given.get("impersonateUID", ""),
        impersonate_groups=tuple(given.get("impersonateGroups", ())),
        impersonate_extra={
            key: tuple(values) for key, values in given.get("impersonateUserExtra", {}).items()
        },
    )


def headers_of(expected: JSONObject) -> list[tuple[str, str]]:
    headers = [("Authorization", f"Bearer {expected['bearerToken']}")]
    if other := expected.get("impersonate"):
        headers += [("Impersonate-User", other["userName"]), ("Impersonate-Uid", other["uid"])]
        headers += [("Impersonate-Group", group) for group in other["groups"]]
        headers += [
            (f"Impersonate-Extra-{key}", value) for key, values in other["extra"].items() for value in values
        ]
    return headers


@pytest.mark.parametrize("case", vector_cases.kind("clientAuth"), ids=vector_cases.source)
def test_the_user_is_chosen_as_in_the_api_server(case: JSONObject) -> None:
    given = case["input"]
    kubeconfig = Kubeconfig(
        users={name: user_of(user) for name, user in given["kubeconfigUsers"].items()},
        contexts={name: KubeconfigContext(user=user) for name, user in given.get("contexts", {}).items()},
        current_context=given.get("currentContext", ""),
    )
    credentials = WebhookCredentials(kubeconfig, environment={}).for_target(given["target"])
    assert list(credentials.headers()) == headers_of(case["expected"])


def chosen(target: str, *names: str, current: str = "", in_cluster: bool = False) -> str | None:
    kubeconfig = Kubeconfig(
        users={name: KubeconfigUser(token=name) for name in names},
        contexts={"here": KubeconfigContext(user=current)},
        current_context="here",
    )
    return user_name(kubeconfig, target, in_cluster=in_cluster)


@pytest.mark.parametrize(
    ("target", "names", "expected"),
    [
        ("a.b.svc:443", ("a.b.svc:443", "a.b.svc", "*.svc", "*"), "a.b.svc:443"),
        ("a.b.svc:443", ("a.b.svc", "*.b.svc:443", "*"), "*.b.svc:443"),
        ("a.b.svc:443", ("a.b.svc", "*.svc", "*"), "a.b.svc"),
        ("a.b.svc:443", ("*.svc", "*.b.svc", "*"), "*.b.svc"),
        ("a.b.svc:443", ("b.svc", "*"), "*"),
        ("a.b.svc:8443", ("a.b.svc", "*.svc"), None),
        ("a.b.svc:8443", ("*.svc:8443", "a.b.svc"), "*.svc:8443"),
        ("localhost:443", ("*.localhost", "localhost"), "localhost"),
        ("localhost:443", (), None),
    ],
)
def test_the_most_exact_name_is_chosen(target: str, names: tuple[str, ...], expected: str | None) -> None:
    assert chosen(target, *names) == expected


def test_the_current_context_s_user_is_the_last_resort() -> None:
    assert chosen("a.b:443", "ann", current="ann") == "ann"
    assert chosen("a.b:443", "ann", "*", current="ann") == "*"
    assert chosen("a.b:443", "ann", current="bob") is None


@given(st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,3}:(443|8443)", fullmatch=True), st.booleans())
def test_an_exact_name_takes_precedence(target: str, in_cluster: bool) -> None:  # noqa: FBT001  # generated
    labels = target.split(".")
    others = ["*." + ".".join(labels[start:]) for start in range(1, len(labels))]
    assert chosen(target, *others, "*", target, in_cluster=in_cluster) == target


def test_without_a_kubeconfig_the_caller_is_anonymous() -> None:
    credentials = WebhookCredentials(environment={}).for_target("a.b.svc:443")
    assert credentials is ANONYMOUS
    assert list(credentials.headers()) == []


def test_the_token_of_the_pod_is_sent_to_the_api_server(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod-token\n")
    (tmp_path / "ca.crt").write_bytes(b"ca")
    known = WebhookCredentials(service_account=tmp_path, environment=IN_CLUSTER)
    credentials = known.for_target("kubernetes.default.svc:443")
    assert list(credentials.headers()) == [("Authorization", "Bearer pod-token")]
    assert credentials.ca_bundle == b"ca"
    assert known.for_target("kubernetes.default.svc:8443") is ANONYMOUS
    assert known.for_target("other.default.svc:443") is ANONYMOUS


def test_no_credentials_are_sent_to_the_api_server_outside_a_pod(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod-token")
    known = WebhookCredentials(service_account=tmp_path, environment={})
    assert known.for_target("kubernetes.default.svc:443") is ANONYMOUS
    no_token = WebhookCredentials(service_account=tmp_path / "nowhere", environment=IN_CLUSTER)
    assert no_token.for_target("kubernetes.default.svc:443") is ANONYMOUS


def test_the_token_of_the_pod_ranks_between_named_users_and_the_star() -> None:
    target = "kubernetes.default.svc:443"
    assert chosen(target, "*.default.svc", "*", in_cluster=True) == "*.default.svc"
    assert chosen(target, "*", in_cluster=True) not in {"*", None}


def test_basic_authentication_is_sent_in_base64() -> None:
    expected = base64.b64encode(b"ann:p:w").decode()
    user = KubeconfigUser(username="ann", password="p:w")
    assert list(user_credentials("u", user).headers()) == [("Authorization", f"Basic {expected}")]


def test_the_keys_of_extras_are_escaped_in_headers() -> None:
    user = KubeconfigUser(impersonate="ann", impersonate_extra={"a/b %é": ("v",)})
    assert list(user_credentials("u", user).headers()) == [
        ("Impersonate-User", "ann"),
        ("Impersonate-Extra-a%2Fb%20%25%C3%A9", "v"),
    ]


def test_groups_without_a_user_impersonate_nobody() -> None:
    assert (
        user_credentials("u", KubeconfigUser(impersonate_groups=("devs",), impersonate_uid="7"))
        == Credentials()
    )


def test_certificate_data_takes_precedence_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"key of file")
    user = KubeconfigUser(
        client_certificate="/nowhere", client_certificate_data=b"data", client_key=str(tmp_path / "key")
    )
    certificate = user_credentials("u", user).certificate
    assert certificate is not None
    assert (certificate.certificate.read(), certificate.key.read()) == (b"data", b"key of file")


def test_a_key_without_a_certificate_is_not_used() -> None:
    assert user_credentials("u", KubeconfigUser(client_key_data=b"key")).certificate is None


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (KubeconfigUser(auth_provider={"name": "gcp"}), "auth provider not supported"),
        (
            KubeconfigUser(exec={"command": "aws"}),
            'exec plugins are not supported (user "u"): give a token, a tokenFile or a client certificate',
        ),
        (
            KubeconfigUser(token="t", username="ann"),
            "username/password or bearer token may be set, but not both",
        ),
        (
            KubeconfigUser(token_file="/nowhere/token", password="p"),
            "username/password or bearer token may be set, but not both",
        ),
        (KubeconfigUser(token_file="/nowhere/token"), "open /nowhere/token: no such file or directory"),
    ],
)
def test_unusable_credentials_fail_the_call(user: KubeconfigUser, text: str) -> None:
    with pytest.raises(CallError) as raised:
        user_credentials("u", user)
    assert str(raised.value) == f"could not get REST client: {text}"


def test_an_unused_user_may_be_of_any_kind() -> None:
    known = WebhookCredentials(Kubeconfig(users={"other": KubeconfigUser(exec={})}), environment={})
    assert known.for_target("a.b.svc:443") is ANONYMOUS


def test_credentials_are_created_once_for_all_webhooks_of_a_user() -> None:
    known = WebhookCredentials(Kubeconfig(users={"*": KubeconfigUser(token="t")}), environment={})
    assert known.for_target("a.b:443") is known.for_target("c.d:443")


class Clock:
    """A clock that only moves when the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_file_is_read_again_within_a_minute(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("first\n")
    tokens = TokenFile(str(path), clock=clock)
    assert tokens.token() == "first"
    path.write_text("second")
    clock.now = 49.0
    assert tokens.token() == "first"
    clock.now = 60.0
    assert tokens.token() == "second"


def test_the_last_token_is_used_while_its_file_is_unreadable(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "token"
    path.write_text("first")
    tokens = TokenFile(str(path), clock=clock)
    assert tokens.token() == "first"
    path.unlink()
    clock.now = 60.0
    assert tokens.token() == "first"
    path.write_text("   ")
    assert tokens.token() == "first"


def test_the_token_of_the_file_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = TokenFile(str(path), "beside")
    assert tokens.token() == "beside"
    path.write_text("of the file")
    assert tokens.token() == "of the file"


def test_an_empty_token_file_fails_the_call(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("\n")
    with pytest.raises(CallError, match="read empty token from file"):
        TokenFile(str(path)).token()


def test_the_stamp_of_a_certificate_changes_with_its_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    certificate = ClientCertificate(PemSource(b"data"), PemSource(path=str(path)))
    missing = certificate.stamp
    path.write_bytes(b"key")
    written = certificate.stamp
    assert missing != written == certificate.stamp
    path.write_bytes(b"another key")
    assert certificate.stamp != written


def test_credentials_are_not_in_reprs() -> None:
    user = KubeconfigUser(token="secret", client_certificate_data=b"secret", client_key_data=b"secret")
    assert "secret" not in repr(user_credentials("u", user))
