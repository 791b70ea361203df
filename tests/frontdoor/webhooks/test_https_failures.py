from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED
from pratique.apimachinery.errors import BadAnswerError, CallTimeoutError, UnreachableError
from pratique.configuration.admissionregistration import ClientConfig, Webhook
from pratique.https.sessions import BODY_LIMIT
from support.services.reviews import review_of
from support.webhook_calls import Caller, webhook_at
from support.webhook_servers import (
    COMMON_NAMES,
    Authority,
    Behaviour,
    Received,
    allowed,
    answered,
    authority,
    closed_port,
    hanging,
    hanging_body,
    raw,
    reset,
    respond,
    reviewed,
    serve,
)

CALLER = Caller(review=review_of())
IMPATIENT = dataclasses.replace(CALLER, timeout_seconds=0.3)
"""Waits as long as a webhook on this machine may need; the URL has whole seconds."""

FAILED = "failed to call webhook: "
INVALID = "received invalid webhook response: "
BROKEN_OFF = f"{FAILED}unexpected error when reading response body. Please retry. Original error: "
X509 = "tls: failed to verify certificate: x509: "


def posting(url: str, reason: str, seconds: str = "5s") -> str:
    return f'{FAILED}Post "{url}?timeout={seconds}": {reason}'


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (raw(), "EOF"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-"), "EOF"),
        (raw(b"hello\r\n\r\n"), "net/http: HTTP/1.x transport connection broken: malformed HTTP response"),
        (
            raw(*(b"HTTP/1.1 102 Processing\r\n\r\n" for _ in range(6))),
            "net/http: HTTP/1.x transport connection broken: net/http: too many 1xx informational responses",
        ),
    ],
    ids=["nothing", "half a head", "no HTTP", "informational responses alone"],
)
def test_a_missing_answer_has_the_message_of_go(behaviour: Behaviour, reason: str) -> None:
    with serve(behaviour) as server:
        error = CALLER.error(webhook_at(f"{server.url}/hook"))
    assert isinstance(error, UnreachableError)
    assert str(error) == posting(f"{server.url}/hook", reason)


def test_an_answer_may_follow_five_informational_responses() -> None:
    before = [b"HTTP/1.1 102 Processing\r\n\r\n"] * 5
    with serve(raw(*before, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    assert text == f"{FAILED}the server could not find the requested resource"


def test_a_broken_connection_is_reported_with_its_address() -> None:
    with serve(reset()) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    reason = f"read tcp 127.0.0.1:{server.port}: read: connection reset by peer"
    assert text == posting(f"{server.url}/hook", reason)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_refused_connection_is_reported_with_its_address(host: str) -> None:
    with closed_port() as port:
        error = CALLER.error(webhook_at(f"https://{host}:{port}/hook"))
    assert isinstance(error, UnreachableError)
    reason = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert str(error) == posting(f"https://{host}:{port}/hook", reason)


def test_an_invalid_port_has_the_message_of_go() -> None:
    text = CALLER.failure(webhook_at("https://localhost:99999/hook"))
    assert text == posting("https://localhost:99999/hook", "dial tcp: address 99999: invalid port")


def test_a_webhook_that_does_not_answer_in_time_fails() -> None:
    with serve(hanging()) as server:
        error = IMPATIENT.error(webhook_at(f"{server.url}/hook"))
    assert isinstance(error, CallTimeoutError)
    assert str(error) == posting(f"{server.url}/hook", "context deadline exceeded", "1s")


def test_the_deadline_of_the_request_ends_a_call() -> None:
    caller = dataclasses.replace(CALLER, deadline_seconds=0.3)
    with serve(hanging()) as server:
        text = caller.failure(webhook_at(f"{server.url}/hook"))
    assert text == posting(f"{server.url}/hook", "context deadline exceeded", "1s")


def test_no_call_begins_after_the_deadline() -> None:
    caller = dataclasses.replace(CALLER, deadline_seconds=0)
    with serve(allowed()) as server:
        error = caller.error(webhook_at(server.url))
    assert isinstance(error, CallTimeoutError)
    assert str(error) == f"{FAILED}context deadline exceeded"
    assert not server.received


def test_an_answer_that_does_not_end_in_time_fails() -> None:
    with serve(hanging_body()) as server:
        error = IMPATIENT.error(webhook_at(server.url))
    assert isinstance(error, CallTimeoutError)
    assert str(error) == f"{BROKEN_OFF}context deadline exceeded"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"), "unexpected EOF"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "unexpected EOF"),
        (respond(200, b"no gzip at all", headers={"Content-Encoding": "gzip"}), "gzip: invalid header"),
    ],
    ids=["short", "short chunk", "no gzip"],
)
def test_a_truncated_answer_has_the_message_of_go(behaviour: Behaviour, reason: str) -> None:
    with serve(behaviour) as server:
        error = CALLER.error(webhook_at(server.url))
    assert isinstance(error, BadAnswerError)
    assert str(error) == f"{BROKEN_OFF}{reason}"


def test_an_answer_that_is_too_large_is_not_read() -> None:
    with serve(respond(200, b" " * (BODY_LIMIT + 1))) as server:
        text = CALLER.failure(webhook_at(server.url))
    assert text == f"{FAILED}response body is larger than 16777216 bytes"


def test_a_decompression_bomb_is_not_read() -> None:
    import gzip

    packed = gzip.compress(b" " * (BODY_LIMIT + 1))
    with serve(respond(200, packed, headers={"Content-Encoding": "gzip"})) as server:
        text = CALLER.failure(webhook_at(server.url))
    assert text == f"{FAILED}response body is larger than 16777216 bytes"


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (
            respond(500, b"boom"),
            f'{FAILED}an error on the server ("boom") has prevented the request from succeeding',
        ),
        (respond(404, b""), f"{FAILED}the server could not find the requested resource"),
        (respond(403, b"not you"), f"{FAILED}not you"),
        (
            respond(400, b'{"kind":"Status","status":"Failure","message":"bad day"}'),
            f"{FAILED}bad day",
        ),
        (
            respond(200, b""),
            f"{FAILED}0-length response with status code: 200 and content type: text/plain",
        ),
        (
            respond(204, content_type=None),
            f"{FAILED}0-length response with status code: 204 and content type: application/json",
        ),
        (
            respond(200, b"{", content_type="application/json"),
            f"{FAILED}couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
        (
            respond(200, b"{}", content_type="application/json; charset"),
            f"{FAILED}Internal error occurred: mime: invalid media parameter",
        ),
        (respond(200, b"{}"), f"{INVALID}webhook response was absent"),
        (
            reviewed(allowed=True, patchType="JSONPatch"),
            f"{INVALID}webhook returned response.patchType but not response.patch",
        ),
    ],
    ids=lambda value: value.partition(": ")[2][:40] if isinstance(value, str) else "",
)
def test_an_unusable_answer_is_reported_with_the_reason(behaviour: Behaviour, text: str) -> None:
    with serve(behaviour) as server:
        error = CALLER.error(webhook_at(server.url))
    assert isinstance(error, BadAnswerError)
    assert str(error) == text


def wrong_version(received: Received) -> object:
    return {
        "apiVersion": "admission.k8s.io/v1beta1",
        "kind": "AdmissionReview",
        "response": {"uid": received.review["request"]["uid"], "allowed": True},
    }


def test_an_answer_in_another_version_is_refused() -> None:
    with serve(answered(wrong_version)) as server:
        text = CALLER.failure(webhook_at(server.url))
    expected = "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
    assert text == FAILED + expected


def test_an_answer_with_another_uid_is_refused() -> None:
    with serve(reviewed(uid="another", allowed=True)) as server:
        text = CALLER.failure(webhook_at(server.url))
    uid = server.received[0].review["request"]["uid"]
    assert text == f'{INVALID}expected response.uid="{uid}", got "another"'


def test_a_failure_never_allows_and_the_next_call_may_succeed() -> None:
    with serve({"/bad": raw(), "/good": allowed()}) as server:
        CALLER.error(webhook_at(f"{server.url}/bad"))
        assert CALLER.ask(webhook_at(f"{server.url}/good")).decision == ALLOWED


def test_a_server_without_tls_is_reported() -> None:
    with serve(allowed(), plain=True) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    assert text == posting(f"{server.url}/hook", "http: server gave HTTP response to HTTPS client")


@contextmanager
def greeting(words: bytes) -> Iterator[int]:
    """A server that speaks neither TLS nor HTTP: it says some words and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1)
                connection.sendall(words)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=greet)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(120)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"220 smtp.example.com ESMTP\r\n", "tls: first record does not look like a TLS handshake"),
        (b"", "EOF"),
    ],
)
def test_a_server_with_another_protocol_is_reported(words: bytes, reason: str) -> None:
    with greeting(words) as port:
        text = CALLER.failure(webhook_at(f"https://localhost:{port}/hook"))
    assert text == posting(f"https://localhost:{port}/hook", reason)


def test_a_certificate_with_other_names_is_refused_and_they_are_listed() -> None:
    with serve(allowed(), certificate=authority().issue("a.example.com", "b.example.com")) as server:
        error = CALLER.error(webhook_at(f"{server.url}/hook"))
    assert isinstance(error, UnreachableError)
    reason = f"{X509}certificate is valid for a.example.com, b.example.com, not localhost"
    assert str(error) == posting(f"{server.url}/hook", reason)
    assert not server.received


def test_an_ip_address_must_be_in_the_certificate() -> None:
    with serve(allowed(), certificate=authority().issue("localhost")) as server:
        url = f"https://127.0.0.1:{server.port}/hook"
        text = CALLER.failure(webhook_at(url))
    reason = f"{X509}cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
    assert text == posting(url, reason)


REFUSED_NAMES = {
    "no alternative name": "certificate relies on legacy Common Name field, use SANs instead",
    "another DNS name": "certificate is valid for a.example.com, not localhost",
}
"""Of those that do not say that the certificate is not valid for any names."""


@pytest.mark.parametrize("others", COMMON_NAMES)
def test_a_common_name_is_not_accepted(others: str) -> None:
    certificate = authority().issue_by_common_name("localhost", *COMMON_NAMES[others])
    with serve(allowed(), certificate=certificate) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    nameless = "certificate is not valid for any names, but wanted to match localhost"
    assert text == posting(f"{server.url}/hook", f"{X509}{REFUSED_NAMES.get(others, nameless)}")
    assert not server.received


def test_an_ip_address_in_the_common_name_is_not_accepted() -> None:
    with serve(allowed(), certificate=authority().issue_by_common_name("127.0.0.1")) as server:
        url = f"https://127.0.0.1:{server.port}/hook"
        text = CALLER.failure(webhook_at(url))
    reason = "certificate relies on legacy Common Name field, use SANs instead"
    assert text == posting(url, f"{X509}{reason}")
    assert not server.received


def test_an_expired_certificate_is_refused_with_its_expiry() -> None:
    with serve(allowed(), certificate=authority().issue("localhost", expired=True)) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    assert f"{X509}certificate has expired or is not yet valid: current time " in text
    assert text.endswith(" is after 2020-01-01T00:00:00Z")


@pytest.mark.parametrize("trusted", [None, b""], ids=["another authority", "the system's"])
def test_a_certificate_of_an_unknown_authority_is_refused(trusted: bytes | None) -> None:
    with serve(allowed(), certificate=Authority().issue("localhost")) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook", ca_bundle=trusted))
    assert text == posting(f"{server.url}/hook", f"{X509}certificate signed by unknown authority")


def test_a_wrong_name_is_reported_before_an_unknown_authority() -> None:
    with serve(allowed(), certificate=Authority().issue("a.example.com")) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    assert text == posting(
        f"{server.url}/hook", f"{X509}certificate is valid for a.example.com, not localhost"
    )


def test_a_self_signed_certificate_can_be_trusted_directly() -> None:
    certificate = Authority().issue("localhost")
    bundle = certificate.cert_chain_pems[0].bytes()
    with serve(allowed(), certificate=certificate) as server:
        assert CALLER.ask(webhook_at(server.url, ca_bundle=bundle)).decision == ALLOWED


def test_a_bundle_may_hold_several_certificates_and_other_text() -> None:
    malformed = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle = b"the first:\n" + Authority().pem + malformed + authority().pem
    with serve(allowed()) as server:
        assert CALLER.ask(webhook_at(server.url, ca_bundle=bundle)).decision == ALLOWED


@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        (b"junk", "unable to parse bytes as PEM block"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "failed to parse certificate"),
        (b"-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n", "unable to parse bytes as PEM block"),
    ],
)
def test_an_unreadable_bundle_fails_the_call(bundle: bytes, reason: str) -> None:
    text = CALLER.failure(webhook_at("https://localhost/", ca_bundle=bundle))
    assert text == f"could not get REST client: unable to load root certificates: {reason}"


@contextmanager
def demanding() -> Iterator[int]:
    """A server that requires a client certificate, and sends an alert to clients without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue("localhost").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority().pem.decode())
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def demand() -> None:
            accepted, _ = listening.accept()
            with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as connection:
                with pytest.raises(ssl.SSLError):
                    # asyncio's servers end the connection without an alert; this one sends it.
                    connection.do_handshake()
                # What is left unread would make the end of the connection a reset, which overtakes the alert.
                socket.socket.shutdown(connection, socket.SHUT_WR)
                while socket.socket.recv(connection, 4096):
                    pass

        thread = threading.Thread(target=demand)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(120)


def test_the_alert_of_a_server_that_wants_a_certificate_is_quoted() -> None:
    with demanding() as port:
        text = CALLER.failure(webhook_at(f"https://localhost:{port}/hook"))
    assert text == posting(f"https://localhost:{port}/hook", "remote error: tls: certificate required")


def test_a_webhook_without_an_address_cannot_be_called() -> None:
    nowhere = Webhook(name="w.example.com", client_config=ClientConfig(), admission_review_versions=("v1",))
    assert CALLER.failure(nowhere) == (
        'could not get REST client: failed calling webhook "w.example.com": '
        "webhook configuration must have either service or URL"
    )


def test_the_version_is_checked_first() -> None:
    text = CALLER.failure(webhook_at("https://localhost/", ca_bundle=b"junk", versions=("v2",)))
    assert text.startswith("could not create admission objects: ")


@pytest.mark.parametrize("phase", Phase)
def test_no_failure_message_quotes_the_object(phase: Phase) -> None:
    secret = {"kind": "Secret", "apiVersion": "v1", "data": {"password": "hunter2"}}
    caller = dataclasses.replace(CALLER, review=review_of(secret), phase=phase)
    for behaviour in (raw(), respond(500, b"boom"), respond(200, b"{"), reviewed(uid="x")):
        with serve(behaviour) as server:
            assert "hunter2" not in caller.failure(webhook_at(server.url))


def test_errors_of_uvloop_have_the_same_messages() -> None:
    import uvloop

    with closed_port() as port, serve({"/gone": raw(), "/reset": reset(), "/hang": hanging()}) as server:
        texts = [
            uvloop.run(_failure_on_this_loop(url))
            for url in (
                f"https://localhost:{port}/x",
                f"{server.url}/gone",
                f"{server.url}/reset",
                f"{server.url}/hang",
            )
        ]
    address = f"127.0.0.1:{server.port}"
    assert [text.partition('": ')[2] for text in texts] == [
        f"dial tcp 127.0.0.1:{port}: connect: connection refused",
        "EOF",
        f"read tcp {address}: read: connection reset by peer",
        "context deadline exceeded",
    ]


async def _failure_on_this_loop(url: str) -> str:
    from pratique.admission.reviews import Call, Deadline
    from pratique.apimachinery.errors import CallError
    from pratique.https.clients import HttpsClients
    from pratique_frontdoor.webhooks.transports import HttpsTransport

    transport = HttpsTransport(webhook_at(url), HttpsClients(), CALLER.credentials)
    try:
        await transport.mutate(CALLER.review, [Call("w", 0.3)], Deadline.after(5))
    except CallError as error:
        return str(error)
    finally:
        await transport.close()
        await asyncio.sleep(0)
    return ""
