"""Image names: what an image is called apart from its version."""

from __future__ import annotations

LONGEST = 520
"""Characters of the longest name there can be: 255 of the repository, a colon and 128 of the tag, an at sign,
``sha512``, a colon and 128 of the digest. Source: ``github.com/distribution/reference``.
"""


def repository_of(image: str) -> str:
    """The image without tag and digest: ``registry.example.com:5000/shop/web:v1`` is ``…:5000/shop/web``."""
    name = image.partition("@")[0]
    # A colon in front of a slash stands before a port.
    colon = name.rfind(":")
    return name[:colon] if colon > name.rfind("/") else name
