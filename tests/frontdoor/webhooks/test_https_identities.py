from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
import trustme

from pratique.admission.results import ALLOWED
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import UnreachableError
from pratique.configuration.admissionregistration import ServiceReference
from pratique.https.clients import HttpsClients
from pratique.https.kubeconfigs import Kubeconfig, KubeconfigUser
from pratique.https.service_resolvers import UnresolvedError
from pratique_frontdoor.webhooks.clients import WebhookCredentials
from pratique_frontdoor.webhooks.transports import HttpsTransport
from support.services.reviews import review_of
from support.webhook_calls import Caller, webhook_at, webhook_of_service
from support.webhook_servers import Authority, Received, WebhookServer, allowed, authority, serve

CALLER = Caller(review=review_of())
SERVICE = ServiceReference(name="webhooks", namespace="tests", path="/hook", port=8443)
CLIENTS = Authority()


def known_as(user: KubeconfigUser) -> Caller:
    kubeconfig = Kubeconfig(users={"*": user})
    return dataclasses.replace(CALLER, credentials=WebhookCredentials(kubeconfig, environment={}))


def shown(user: KubeconfigUser) -> Received:
    with serve(allowed()) as server:
        assert known_as(user).ask(webhook_at(server.url)).decision == ALLOWED
    return server.received[0]


def test_a_token_is_sent() -> None:
    assert shown(KubeconfigUser(token="secret")).headers["authorization"] == "Bearer secret"


def test_the_token_of_a_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of the file\n")
    user = KubeconfigUser(token_file=str(tmp_path / "token"))
    assert shown(user).headers["authorization"] == "Bearer of the file"


def test_a_user_name_and_password_are_sent() -> None:
    assert shown(KubeconfigUser(username="ann", password="pw")).headers["authorization"] == "Basic YW5uOnB3"


def test_impersonation_headers_are_sent() -> None:
    headers = shown(KubeconfigUser(token="t", impersonate="bob", impersonate_groups=("devs",))).headers
    assert (headers["impersonate-user"], headers["impersonate-group"]) == ("bob", "devs")


def test_an_anonymous_caller_sends_no_credentials() -> None:
    received = shown(KubeconfigUser())
    assert "authorization" not in received.headers
    assert received.certificate is None


def leaf() -> trustme.LeafCert:
    return CLIENTS.issue("front-door")


def from_data(certificate: trustme.LeafCert) -> KubeconfigUser:
    return KubeconfigUser(
        client_certificate_data=certificate.cert_chain_pems[0].bytes(),
        client_key_data=certificate.private_key_pem.bytes(),
    )


def from_files(certificate: trustme.LeafCert, folder: Path) -> KubeconfigUser:
    certificate.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    certificate.private_key_pem.write_to_path(str(folder / "tls.key"))
    return KubeconfigUser(client_certificate=str(folder / "tls.crt"), client_key=str(folder / "tls.key"))


def accepted(server: WebhookServer, user: KubeconfigUser) -> str:
    assert known_as(user).ask(webhook_at(server.url)).decision == ALLOWED
    return str(server.received[-1].certificate["subjectAltName"][0][1])


def test_a_certificate_from_data_is_presented_to_servers_that_request_one() -> None:
    with serve(allowed(), clients=CLIENTS) as server:
        assert accepted(server, from_data(leaf())) == "front-door"


def test_a_certificate_from_files_is_presented_to_servers_that_request_one(tmp_path: Path) -> None:
    with serve(allowed(), clients=CLIENTS) as server:
        assert accepted(server, from_files(leaf(), tmp_path)) == "front-door"


def test_a_server_that_requires_a_certificate_refuses_callers_without_one() -> None:
    with serve(allowed(), clients=CLIENTS) as server:
        assert isinstance(CALLER.error(webhook_at(server.url)), UnreachableError)
    assert not server.received


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (
            KubeconfigUser(client_certificate="/nowhere/tls.crt", client_key="/nowhere/tls.key"),
            "open /nowhere/tls.crt: no such file or directory",
        ),
        (
            KubeconfigUser(client_certificate_data=b"junk", client_key_data=b"junk"),
            "tls: failed to find any PEM data in certificate input",
        ),
        (
            KubeconfigUser(exec={"command": "x"}),
            'exec plugins are not supported (user "*"): give a token, a tokenFile or a client certificate',
        ),
    ],
)
def test_unusable_credentials_fail_the_call(user: KubeconfigUser, text: str) -> None:
    with serve(allowed()) as server:
        assert known_as(user).failure(webhook_at(server.url)) == f"could not get REST client: {text}"
    assert not server.received


def test_a_key_of_another_certificate_fails_the_call() -> None:
    mixed = KubeconfigUser(
        client_certificate_data=leaf().cert_chain_pems[0].bytes(),
        client_key_data=leaf().private_key_pem.bytes(),
    )
    text = known_as(mixed).failure(webhook_at("https://localhost/"))
    assert text == "could not get REST client: tls: private key does not match public key"


def test_a_service_is_resolved_and_its_certificate_must_have_its_name() -> None:
    with serve(allowed()) as server:
        caller = dataclasses.replace(CALLER, resolve=lambda _host, _port: ("127.0.0.1", server.port))
        assert caller.ask(webhook_of_service(SERVICE)).decision == ALLOWED
    (received,) = server.received
    assert received.headers["host"] == "webhooks.tests.svc:8443"
    assert received.target.startswith("/hook?timeout=")


def test_the_resolver_gets_the_name_and_port_of_the_service() -> None:
    asked: list[tuple[str, int]] = []
    with serve(allowed()) as server:

        def resolve(host: str, port: int) -> tuple[str, int]:
            asked.append((host, port))
            return "localhost", server.port

        dataclasses.replace(CALLER, resolve=resolve).ask(webhook_of_service(SERVICE), times=3)
    assert asked == [("webhooks.tests.svc", 8443)]


def test_a_service_with_the_certificate_of_another_is_refused() -> None:
    with serve(allowed(), certificate=authority().issue("localhost", "127.0.0.1")) as server:
        caller = dataclasses.replace(CALLER, resolve=lambda _host, _port: ("127.0.0.1", server.port))
        text = caller.failure(webhook_of_service(SERVICE))
    assert text == (
        'failed to call webhook: Post "https://webhooks.tests.svc:8443/hook?timeout=5s": tls: failed to verify '
        "certificate: x509: certificate is valid for localhost, not webhooks.tests.svc"
    )


def test_a_missing_service_has_the_message_of_the_api_server() -> None:
    def resolve(_host: str, _port: int) -> tuple[str, int]:
        raise UnresolvedError('no endpoints available for service "webhooks"')

    error = dataclasses.replace(CALLER, resolve=resolve).error(webhook_of_service(SERVICE))
    assert isinstance(error, UnreachableError)
    assert str(error) == (
        'failed to call webhook: Post "https://webhooks.tests.svc:8443/hook?timeout=5s": '
        'no endpoints available for service "webhooks"'
    )


def test_an_unresolvable_name_is_reported() -> None:
    # A label longer than 63 characters is refused without a question to any server.
    host = f"{'x' * 64}.invalid"
    text = CALLER.failure(webhook_at(f"https://{host}/"))
    assert text == (
        f'failed to call webhook: Post "https://{host}/?timeout=5s": dial tcp: lookup {host}: no such host'
    )


def test_a_url_is_never_resolved_as_a_service() -> None:
    def resolve(_host: str, _port: int) -> tuple[str, int]:
        raise UnresolvedError("asked")

    with serve(allowed()) as server:
        caller = dataclasses.replace(CALLER, resolve=resolve)
        assert caller.ask(webhook_at(server.url)).decision == ALLOWED


async def _ask_in_turn(first: HttpsTransport, second: HttpsTransport) -> None:
    for transport in (first, second, first, second):
        await transport.mutate(CALLER.review, [Call("w", 5)], Deadline.after(5))
        if transport is second:
            await first.close()
    await second.close()


def test_webhooks_of_one_authority_share_connections_until_the_last_is_closed() -> None:
    with serve(allowed()) as server:
        clients = HttpsClients()
        transports = [
            HttpsTransport(webhook_at(f"{server.url}/{path}"), clients, CALLER.credentials)
            for path in ("a", "b")
        ]
        asyncio.run(_ask_in_turn(*transports))
    assert [received.path for received in server.received] == ["/a", "/b", "/a", "/b"]
    assert server.connections == 1


async def _ask_with_changing_files(server: WebhookServer, folder: Path) -> None:
    user = from_files(CLIENTS.issue("first"), folder)
    known = WebhookCredentials(Kubeconfig(users={"*": user}), environment={})
    transport = HttpsTransport(webhook_at(server.url), HttpsClients(), known)
    await transport.mutate(CALLER.review, [Call("w", 5)], Deadline.after(5))
    from_files(CLIENTS.issue("second"), folder)
    async with asyncio.TaskGroup() as group:
        # Two calls at once need another connection than the one that is there.
        for _ in range(2):
            group.create_task(transport.mutate(CALLER.review, [Call("w", 5)], Deadline.after(5)))
    await transport.close()


def test_new_connections_present_the_current_certificate_of_the_files(tmp_path: Path) -> None:
    with serve(allowed(), clients=CLIENTS) as server:
        asyncio.run(_ask_with_changing_files(server, tmp_path))
    names = [received.certificate["subjectAltName"][0][1] for received in server.received]
    assert names[0] == "first"
    assert sorted(names[1:]) == ["first", "second"]


def test_an_unused_transport_can_be_closed() -> None:
    asyncio.run(HttpsTransport(webhook_at("https://localhost/"), HttpsClients(), CALLER.credentials).close())
