from __future__ import annotations

import pytest

from pratique.apimachinery.errors import InputError
from pratique.images.references import RepositoryPattern, normalize_host, parse_reference

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("nginx", "hub.example.com/library/nginx:latest"),
        ("shop/web:1.0", "hub.example.com/shop/web:1.0"),
        ("Hub.example.com/nginx", "hub.example.com/library/nginx:latest"),
        ("r.example.com/nginx", "r.example.com/nginx:latest"),
        ("localhost/web", "localhost/web:latest"),
        ("127.0.0.1:5000/a/b__c:1", "127.0.0.1:5000/a/b__c:1"),
        ("[::1]:5000/web", "[::1]:5000/web:latest"),
        ("REGISTRY.example.com/web", "registry.example.com/web:latest"),
        ("registry.example.com:443/web", "registry.example.com/web:latest"),
        ("registry.example.com:0443/web", "registry.example.com/web:latest"),
        ("registry.example.com:0080/web", "registry.example.com:80/web:latest"),
        (f"r.example.com/web@sha256:{HEX}", f"r.example.com/web@sha256:{HEX}"),
        (f"r.example.com/web:1@sha256:{HEX}", f"r.example.com/web@sha256:{HEX}"),
    ],
)
def test_a_reference_is_read_as_container_runtimes_read_it(text: str, normalized: str) -> None:
    assert str(parse_reference(text, "hub.example.com")) == normalized


@pytest.mark.parametrize("text", ["nginx", "shop/web:1.0", "nginx@sha256:" + HEX])
def test_a_reference_without_a_host_is_refused_where_no_registry_is_the_default(text: str) -> None:
    with pytest.raises(InputError, match="names no registry"):
        parse_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " nginx",
        "nginx ",
        "nginx\n",
        "nginx:",
        "nginx:a b",
        "shop//web",
        "shop/Web",
        "/web",
        ":5000/web",
        "r.example.com./web",
        "r.example.com/web?x=1",
        "r.example.com/../web",
        "r.example.com/web@",
        "r.example.com/web@sha256:abc",
        f"r.example.com/web@sha512:{HEX}",
        f"r.example.com/web@sha256:{HEX.upper()}",
        "user@r.example.com/web",
        f"r.example.com/{'a' * 250}",
        "r.example.com/web:" + "1" * 129,
    ],
)
def test_a_malformed_reference_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="image"):
        parse_reference(text, "hub.example.com")


@pytest.mark.parametrize(
    ("pattern", "image", "matches"),
    [
        ("r.example.com/shop/**", "r.example.com/shop/a/b", True),
        ("r.example.com/shop/**", "R.EXAMPLE.com:443/shop/a", True),
        ("r.example.com/shop/*", "r.example.com/shop/a/b", False),
        ("r.example.com/shop/*", "r.example.com/shopping/a", False),
        ("r.example.com/*/web-*", "r.example.com/shop/web-1", True),
        ("r.example.com/shop/web", "r.example.com/shop/web:2", True),
        ("r.example.com/shop/web", "r.example.com/shop/webs", False),
        ("r.example.com/s.op/web", "r.example.com/shop/web", False),
        ("hub.example.com/library/*", "nginx", True),
        ("r.example.com:5000/**", "r.example.com/web", False),
    ],
)
def test_a_pattern_matches_repositories(pattern: str, image: str, *, matches: bool) -> None:
    assert RepositoryPattern(pattern).matches(parse_reference(image, "hub.example.com")) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "**",
        "*",
        "nginx",
        "*/web",
        "*.example.com/web",
        "shop/web",
        "r.example.com/",
        "r.example.com/web:1",
        "r.example.com/W",
    ],
)
def test_a_pattern_names_its_host_and_no_tag(pattern: str) -> None:
    with pytest.raises(InputError):
        RepositoryPattern(pattern)


def test_a_pattern_full_of_stars_takes_no_longer_than_others() -> None:
    pattern = RepositoryPattern("r.example.com/" + "*a" * 100)
    assert not pattern.matches(parse_reference("r.example.com/" + "a" * 200 + "b"))


def test_a_host_is_not_a_url() -> None:
    with pytest.raises(InputError, match="is not a host"):
        normalize_host("https://r.example.com")
