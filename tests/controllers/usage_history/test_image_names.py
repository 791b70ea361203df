"""Image names."""

from __future__ import annotations

import pytest

from pratique.controllers.usage_history import image_repository


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("nginx", "nginx"),
        ("nginx:1.25", "nginx"),
        ("shop/web:v1", "shop/web"),
        ("registry.example.com:5000/shop/web", "registry.example.com:5000/shop/web"),
        ("registry.example.com:5000/shop/web:v1", "registry.example.com:5000/shop/web"),
        ("nginx@sha256:0123", "nginx"),
        ("registry.example.com:5000/web:v1@sha256:0123", "registry.example.com:5000/web"),
    ],
)
def test_a_repository_is_an_image_without_tag_and_digest(image: str, repository: str) -> None:
    assert image_repository(image) == repository
