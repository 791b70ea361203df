from __future__ import annotations

import contextlib
import dataclasses

import pytest

from pratique.admission.results import ALLOWED
from pratique.apimachinery.errors import CallError
from pratique.https.kubeconfigs import Kubeconfig, KubeconfigUser
from pratique_frontdoor.webhooks.clients import WebhookCredentials
from support.services.reviews import review_of
from support.webhook_calls import Caller, webhook_at
from support.webhook_servers import Received, allowed, closed_port, in_turn, redirected, respond, serve

KNOWN = WebhookCredentials(Kubeconfig(users={"*": KubeconfigUser(token="secret")}), environment={})
CALLER = Caller(review=review_of(), credentials=KNOWN)
V1BETA1 = ("v1beta1",)
ANYBODY_S = b'{"response":{"allowed":true}}'


def followed(status: int) -> tuple[Received, ...]:
    behaviours = {"/from": redirected("/to?b=c", status), "/to": respond(200, ANYBODY_S)}
    with serve(behaviours) as server:
        outcome = CALLER.ask(webhook_at(f"{server.url}/from", versions=V1BETA1))
    assert outcome.decision == ALLOWED
    return tuple(server.received)


@pytest.mark.parametrize("status", [307, 308])
def test_permanent_redirects_are_followed_with_the_request(status: int) -> None:
    first, second = followed(status)
    assert (second.method, second.target, second.body) == ("POST", "/to?b=c", first.body)
    assert second.headers["content-type"] == "application/json"
    assert second.headers["referer"].endswith("/from?timeout=5s")


@pytest.mark.parametrize("status", [301, 302, 303])
def test_other_redirects_are_followed_by_a_get_without_a_body(status: int) -> None:
    _, second = followed(status)
    assert (second.method, second.target, second.body) == ("GET", "/to?b=c", b"")
    assert "content-type" not in second.headers


def test_credentials_follow_to_the_same_host() -> None:
    first, second = followed(307)
    assert first.headers["authorization"] == second.headers["authorization"] == "Bearer secret"


def test_credentials_do_not_follow_to_another_host() -> None:
    with serve(allowed()) as elsewhere, serve(redirected(f"{elsewhere.url}/to")) as server:
        assert CALLER.ask(webhook_at(server.url)).decision == ALLOWED
    assert "authorization" in server.received[0].headers
    assert "authorization" not in elsewhere.received[0].headers
    assert elsewhere.received[0].headers["host"] == f"localhost:{elsewhere.port}"


def test_a_redirect_away_from_https_is_not_followed() -> None:
    with serve(redirected("http://localhost:1/to")) as server:
        text = CALLER.failure(webhook_at(server.url))
    assert text == 'failed to call webhook: Post "http://localhost:1/to": unsupported protocol scheme "http"'


def test_a_failing_redirect_is_reported_with_its_url() -> None:
    with closed_port() as port, serve(redirected(f"https://localhost:{port}/to", 302)) as server:
        text = CALLER.failure(webhook_at(server.url))
    address = f"127.0.0.1:{port}"
    expected = f'Post "https://localhost:{port}/to": dial tcp {address}: connect: connection refused'
    assert text == f"failed to call webhook: {expected}"


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_loop_ends_after_ten_redirects(status: int) -> None:
    with serve(redirected("/again", status)) as server:
        text = CALLER.failure(webhook_at(server.url))
    assert text == 'failed to call webhook: Post "/again": stopped after 10 redirects'
    assert len(server.received) == 10


def test_nine_redirects_are_followed() -> None:
    with serve(in_turn(*[redirected("/again")] * 9, allowed())) as server:
        assert CALLER.ask(webhook_at(server.url)).decision == ALLOWED
    assert len(server.received) == 10


def test_an_invalid_location_is_a_failure() -> None:
    with serve(redirected("https://[::1/")) as server:
        text = CALLER.failure(webhook_at(f"{server.url}/hook"))
    assert text == (
        f'failed to call webhook: Post "{server.url}/hook?timeout=5s": '
        'failed to parse Location header "https://[::1/": Invalid IPv6 URL'
    )


@pytest.mark.parametrize("location", ["/a b?c=\u00e9#d", "\x01/x", "https://localhost:99999/", "https://:1/"])
def test_an_odd_location_does_no_harm(location: str) -> None:
    behaviours = {"/hook": redirected(location, 302), "": respond(200, ANYBODY_S)}
    with serve(behaviours) as server, contextlib.suppress(CallError):
        CALLER.ask(webhook_at(f"{server.url}/hook", versions=V1BETA1))
    assert len(server.received) <= 2


def test_a_redirect_without_a_location_is_a_failure() -> None:
    with serve(respond(307)) as server:
        text = CALLER.failure(webhook_at(server.url))
    expected = "the server responded with the status code 307 but did not return more information"
    assert text == f"failed to call webhook: {expected}"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_retry_after_is_followed(status: int) -> None:
    again = respond(status, headers={"Retry-After": "0"})
    with serve(in_turn(again, again, allowed())) as server:
        assert CALLER.ask(webhook_at(server.url)).decision == ALLOWED
    assert len(server.received) == 3
    assert len({received.body for received in server.received}) == 1


def test_a_webhook_is_retried_ten_times_at_most() -> None:
    with serve(respond(429, headers={"Retry-After": "0"})) as server:
        text = CALLER.failure(webhook_at(server.url))
    expected = "the server has received too many requests and has asked us to try again later"
    assert text == f"failed to call webhook: {expected}"
    assert len(server.received) == 11


def test_a_retry_after_beyond_the_deadline_is_a_timeout() -> None:
    caller = dataclasses.replace(CALLER, timeout_seconds=0.3)
    with serve(respond(503, headers={"Retry-After": "60"})) as server:
        text = caller.failure(webhook_at(f"{server.url}/hook"))
    url = f"{server.url}/hook?timeout=1s"
    assert text == f'failed to call webhook: Post "{url}": context deadline exceeded'
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "retry_after"), [(503, ""), (503, "soon"), (400, "0"), (404, "0"), (503, "1.5")]
)
def test_other_answers_are_not_retried(status: int, retry_after: str) -> None:
    headers = {"Retry-After": retry_after} if retry_after else {}
    with serve(respond(status, headers=headers)) as server:
        CALLER.error(webhook_at(server.url))
    assert len(server.received) == 1
