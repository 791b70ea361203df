"""What a registry can make its client do, and what it cannot."""

from __future__ import annotations

import asyncio

import pytest

from pratique.images.registries import RegistryHost
from support.image_registries import ImageRegistry, asking_for_tokens, registry, signer
from support.image_verifications import Verifying
from support.webhook_servers import Behaviour, Received, redirected, respond

WEB = "shop/web"


@pytest.fixture
def signed(images: ImageRegistry) -> ImageRegistry:
    images.sign(WEB, images.push(WEB, "1.0"), signer())
    return images


def authorizations(images: ImageRegistry) -> set[str]:
    return {received.headers.get("authorization", "") for received in images.received}


@pytest.mark.parametrize("login", ["", "ci:secret"])
def test_a_registry_may_ask_for_a_token(signed: ImageRegistry, verifying: Verifying, login: str) -> None:
    asking_for_tokens(signed, login=login)
    assert verifying.verify("shop/web:1.0", login=login).allowed
    tokens = [received for received in signed.received if received.path == "/token"]
    assert [received.target for received in tokens] == [
        "/token?service=registry&scope=repository%3Ashop%2Fweb%3Apull"
    ]


def test_a_wrong_password_is_told_without_it(signed: ImageRegistry, verifying: Verifying) -> None:
    asking_for_tokens(signed, login="ci:secret")
    verdict = verifying.verify("shop/web:1.0", login="ci:guess")
    assert verdict.reason == f"{signed.host}: its server of tokens answered 401: that it needs credentials"


def test_a_registry_may_ask_for_the_password_itself(signed: ImageRegistry, verifying: Verifying) -> None:
    signed.behaviours["/v2/"] = respond(401, headers={"WWW-Authenticate": 'Basic realm="registry"'})
    assert not verifying.verify("shop/web:1.0").allowed
    assert authorizations(signed) == {""}
    assert not verifying.verify("shop/web:1.0", login="ci:secret").allowed
    assert authorizations(signed) == {"", "Basic Y2k6c2VjcmV0"}


def test_a_challenge_of_half_a_million_letters_is_read_in_linear_time(
    signed: ImageRegistry, verifying: Verifying
) -> None:
    signed.behaviours["/v2/"] = respond(401, headers={"WWW-Authenticate": f"Bearer {'a' * 500_000}"})
    assert "sends for tokens to what is not a URL" in verifying.verify("shop/web:1.0").reason


def test_a_registry_cannot_send_for_tokens_elsewhere(signed: ImageRegistry, verifying: Verifying) -> None:
    with registry() as other:
        asking_for_tokens(signed, realm=f"https://{other.host}/token", login="ci:secret")
        verdict = verifying.verify("shop/web:1.0", login="ci:secret")
        assert verdict.reason == (
            f"{signed.host}: sends for tokens to https://{other.host}, which is not in its tokenHosts"
        )
        assert not other.received
        asking_for_tokens(other, login="ci:secret")
        assert verifying.verify("shop/web:1.0", login="ci:secret", token_hosts=(other.host,)).allowed


def test_a_registry_cannot_redirect_elsewhere(signed: ImageRegistry, verifying: Verifying) -> None:
    with registry() as other:
        other.blobs = signed.blobs
        asking_for_tokens(signed)
        signed.behaviours = {"/v2/shop/web/blobs/": elsewhere(other), **signed.behaviours}
        verdict = verifying.verify("shop/web:1.0")
        assert f"redirects to https://{other.host}, which is not in its redirectHosts" in verdict.reason
        assert not other.received
        assert verifying.verify("shop/web:1.0", redirect_hosts=(other.host,)).allowed
        assert authorizations(other) == {""}


def elsewhere(other: ImageRegistry) -> Behaviour:
    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        await redirected(f"https://{other.host}{received.path}")(received, writer)

    return behave


@pytest.mark.parametrize(
    "location", ["/v2/shop/web/manifests/1.0", "", "https://[", "http://{host}/v2/", "//127.0.0.1:1/"]
)
def test_redirects_end(signed: ImageRegistry, verifying: Verifying, location: str) -> None:
    signed.behaviours["/v2/"] = redirected(location.format(host=signed.host))
    verdict = verifying.verify("shop/web:1.0")
    assert not verdict.allowed
    assert "redirects" in verdict.reason
    assert len(signed.received) <= 4


def test_a_token_that_no_header_can_hold_is_none(signed: ImageRegistry, verifying: Verifying) -> None:
    asking_for_tokens(signed)
    for answer in (b'{"token": "a\\r\\nHost: b"}', b'{"token": ""}', b"{}", b"[]", b" " * 70_000):
        signed.behaviours["/token"] = respond(200, answer)
        assert not verifying.verify("shop/web:1.0").allowed


REGISTRY = RegistryHost(
    "r.example.com", token_hosts=("auth.example.com",), redirect_hosts=("*.cdn.example.com",)
)


@pytest.mark.parametrize(
    ("url", "tokens", "redirects"),
    [
        ("https://r.example.com/x", True, True),
        ("https://r.example.com:443/x", True, True),
        ("https://auth.example.com/token?a=b", True, False),
        ("https://a.cdn.example.com/x", False, True),
        ("https://cdn.example.com/x", False, False),
        ("https://evilcdn.example.com/x", False, False),
        ("http://r.example.com/x", False, False),
        ("https://r.example.com:8443/x", False, False),
        ("https://r.example.com@evil.example.net/x", False, False),
        ("https://evil.example.net/@r.example.com", False, False),
        ("https://evil.example.net\\@r.example.com/", False, False),
        ("https://r.example.com\\.evil.example.net/", False, False),
        ("https://evil.example.net#r.example.com", False, False),
        ("https://r.exam\tple.com/x", False, False),
        ("https://r.example.com/\r\nHost: evil", False, False),
        ("https://r.example.com:99999/x", False, False),
        ("file:///etc/passwd", False, False),
        ("", False, False),
    ],
)
def test_credentials_and_redirects_go_to_named_hosts_alone(
    url: str, *, tokens: bool, redirects: bool
) -> None:
    assert REGISTRY.may_issue_tokens(url) is tokens
    assert REGISTRY.may_redirect_to(url) is redirects
