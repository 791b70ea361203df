"""References to images, and patterns of repositories.

Sources: ``reference.go`` and ``normalize.go`` of github.com/distribution/reference, which container runtimes use. Where
two spellings name the same repository, both are read as one, so that a rule cannot be passed by spelling.
"""

from __future__ import annotations

import re

import msgspec
import re2  # type: ignore[import-untyped] # google-re2 comes without types

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

_OFFICIAL_PREFIX = "library/"
_DEFAULT_TAG = "latest"
_MAX_NAME = 255
"""Characters of a host and repository together."""
_HTTPS_PORT = 443

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = pattern(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]{{1,5}})?")
_PORT = pattern(r":([0-9]{1,5})\Z")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = pattern(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = pattern(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = pattern(r"sha256:[a-f0-9]{64}")
_PATTERN_PATH = pattern(r"[a-z0-9._/*-]+")


class ImageReference(msgspec.Struct, frozen=True):
    """A reference to an image, normalized."""

    host: str
    """The registry, in lower case: ``registry.example.com`` or ``registry.example.com:5000``."""
    repository: str
    """The path in the registry, such as ``shop/web``."""
    tag: str = ""
    """The tag, which counts only without a digest."""
    digest: str = ""
    """``sha256:`` and 64 hexadecimal digits; empty if the reference has none."""

    @property
    def name(self) -> str:
        """Host and repository, which patterns match."""
        return f"{self.host}/{self.repository}"

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 digest as registries write it."""
    return _DIGEST.fullmatch(text) is not None


def normalize_host(text: str) -> str:
    """Normalize the host of a registry: lower case, without the port of HTTPS.

    Raises:
        InputError: it is not a host.
    """
    if not _HOST.fullmatch(text):
        raise InputError(f"{go_quoted(text)} is not a host; write registry.example.com or 127.0.0.1:5000")
    found = _PORT.search(text)
    name = text.lower() if found is None else text[: found.start()].lower()
    port = _HTTPS_PORT if found is None else int(found[1])
    return name if port == _HTTPS_PORT else f"{name}:{port}"


def parse_reference(text: str, default_registry: str = "") -> ImageReference:
    """Parse a reference as container runtimes do: by default it is of the default registry, and its tag is ``latest``.

    In the default registry, what is not in any folder is in ``library``: ``nginx`` is ``library/nginx``.

    Raises:
        InputError: it is malformed, its digest is not of SHA-256, or it has no host and there is no default.
    """
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise InputError(f"image {go_quoted(text)}: the digest must be sha256: and 64 hexadecimal digits")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, ""
    host, repository = _split(path, default_registry)
    is_tag = _TAG.fullmatch(tag) is not None or (not tag and path == name)
    if not host and is_tag and _REPOSITORY.fullmatch(repository):
        raise InputError(
            f"image {go_quoted(text)}: names no registry, and none is known by default; write the host that nodes pull "
            f"it from, as in registry.example.com/{_in_default_registry(repository)}, or say it once: "
            "--default-registry, or defaultRegistry in a policy"
        )
    if not (is_tag and _HOST.fullmatch(host) and _REPOSITORY.fullmatch(repository)):
        raise InputError(
            f"image {go_quoted(text)}: is not a reference such as registry.example.com/shop/web:1.0"
        )
    host = normalize_host(host)
    if host == default_registry:
        repository = _in_default_registry(repository)
    if len(host) + 1 + len(repository) > _MAX_NAME:
        raise InputError(
            f"image {go_quoted(text)}: host and repository have more than {_MAX_NAME} characters"
        )
    return ImageReference(host, repository, tag or ("" if digest else _DEFAULT_TAG), digest)


def _in_default_registry(repository: str) -> str:
    """The path of a repository in the default registry: what is in no folder is in ``library``."""
    return repository if "/" in repository else _OFFICIAL_PREFIX + repository


def _split(path: str, default_registry: str) -> tuple[str, str]:
    """Split a name into its host and repository."""
    first, slash, rest = path.partition("/")
    if slash and _is_host(first):
        return first, rest
    return default_registry, path


def _is_host(component: str) -> bool:
    """``splitDockerDomain``: what is before the first slash is a host if no path could look like it."""
    return "." in component or ":" in component or component == "localhost" or component.lower() != component


class RepositoryPattern:
    """A pattern of repositories: a host, then a path in which ``*`` matches within a component and ``**`` across."""

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            InputError: it does not begin with a host, or has a tag or a digest.
        """
        host, slash, path = text.partition("/")
        if not slash or not path or "*" in host or not _is_host(host):
            raise InputError(
                f"{go_quoted(text)} must begin with the host of a registry, without *, and a slash: "
                f"registry.example.com/shop/** or registry.example.com/shop/web"
            )
        if not _PATTERN_PATH.fullmatch(path):
            raise InputError(
                f"{go_quoted(text)} must be a repository in small letters, with * or **, without a tag or digest"
            )
        self.host = normalize_host(host)
        """The host, which is asked about images that match."""
        # re2 takes linear time, whatever the pattern.
        self._expression = re2.compile(_path_expression(path))
        self._text = f"{self.host}/{path}"

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RepositoryPattern) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def matches(self, reference: ImageReference) -> bool:
        """Whether the pattern matches the repository of a reference."""
        return reference.host == self.host and bool(self._expression.fullmatch(reference.repository))


def _path_expression(path: str) -> str:
    parts = re.split(r"(\*+)", path)
    stars = {"*": "[^/]*"}
    return "".join(stars.get(part, ".*") if part.startswith("*") else re.escape(part) for part in parts)
