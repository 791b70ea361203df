from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.image_registries import ImageRegistry, registry
from support.image_verifications import Verifying


@pytest.fixture
def images() -> Iterator[ImageRegistry]:
    """A registry over TLS."""
    with registry() as running:
        yield running


@pytest.fixture
def verifying(images: ImageRegistry) -> Verifying:
    """Verifies the images of the registry."""
    return Verifying(images)
