from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import CallError
from pratique.configuration.admissionregistration import ClientConfig, ServiceReference, Webhook
from pratique.https.requests import post_error
from pratique_frontdoor.webhooks.transports import WebhookUrl, webhook_url


def of_url(url: str) -> WebhookUrl:
    return webhook_url(Webhook(name="w.example.com", client_config=ClientConfig(url=url)))


def of_service(*, path: str | None = None, port: int | None = None) -> WebhookUrl:
    service = ServiceReference(name="hook", namespace="shop", path=path, port=port)
    return webhook_url(Webhook(name="w.example.com", client_config=ClientConfig(service=service)))


@pytest.mark.parametrize(
    ("path", "port", "url"),
    [
        (None, None, "https://hook.shop.svc:443/"),
        ("", 443, "https://hook.shop.svc:443/"),
        ("/", 8443, "https://hook.shop.svc:8443/"),
        ("/a/b", 443, "https://hook.shop.svc:443/a/b"),
        ("a", None, "https://hook.shop.svc:443/a"),
        ("/a/", None, "https://hook.shop.svc:443/a"),
        ("/a//b/./c/../d", None, "https://hook.shop.svc:443/a/b/d"),
        ("/../..", None, "https://hook.shop.svc:443/"),
        ("//a", None, "https://hook.shop.svc:443/a"),
    ],
)
def test_a_service_is_called_by_its_name(path: str | None, port: int | None, url: str) -> None:
    found = of_service(path=path, port=port)
    assert str(found) == url
    assert found.target == found.authority == url.split("/")[2]
    assert found.is_service


@pytest.mark.parametrize(
    ("url", "expected", "target"),
    [
        ("https://example.com", "https://example.com/", "example.com:443"),
        ("https://example.com/a/", "https://example.com/a", "example.com:443"),
        ("https://Example.com:8443/a", "https://Example.com:8443/a", "Example.com:8443"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a", "[::1]:8443"),
        ("https://10.0.0.1/a%2Fb", "https://10.0.0.1/a/b", "10.0.0.1:443"),
        ("https://h/a%20b%3Fc%23", "https://h/a%20b%3Fc%23", "h:443"),
        ("https://h/a:b@c;d=e,f&g+h$~", "https://h/a:b@c;d=e,f&g+h$~", "h:443"),
        ("https://h/(a)*!'", "https://h/%28a%29%2A%21%27", "h:443"),
        ("https://h:/a", "https://h:/a", "h::443"),
        ("https://m\u00fcnchen.example/", "https://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example:443"),
        ("https://h/\u00e9", "https://h/%C3%A9", "h:443"),
    ],
)
def test_a_url_is_cleaned_and_escaped_as_in_go(url: str, expected: str, target: str) -> None:
    found = of_url(url)
    assert (str(found), found.target, found.is_service) == (expected, target, False)


@pytest.mark.parametrize(
    ("seconds", "written"), [(1, "1s"), (10, "10s"), (30, "30s"), (60, "1m0s"), (90, "1m30s")]
)
def test_the_url_has_the_timeout(seconds: int, written: str) -> None:
    assert of_service(path="/a").with_timeout(seconds) == f"https://hook.shop.svc:443/a?timeout={written}"


@pytest.mark.parametrize("config", [ClientConfig(), ClientConfig(url="")])
def test_a_webhook_without_service_and_url_cannot_be_called(config: ClientConfig) -> None:
    with pytest.raises(CallError) as raised:
        webhook_url(Webhook(name="w.example.com", client_config=config))
    assert str(raised.value) == (
        'could not get REST client: failed calling webhook "w.example.com": '
        "webhook configuration must have either service or URL"
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_every_path_is_cleaned(path: str) -> None:
    found = of_service(path=path).path
    assert found.isascii()
    assert urlsplit(f"https://h{found}").path == found
    assert posixpath.normpath(unquote(found)) == unquote(found)
    assert not found.startswith("//")


def test_a_failed_post_has_the_message_of_go() -> None:
    assert post_error("https://h/?timeout=10s", "EOF") == 'Post "https://h/?timeout=10s": EOF'
