"""Credentials: how a client authenticates to a server, from the user of a kubeconfig.

Sources: ``k8s.io/client-go/transport/{round_trippers,token_source}.go``.
"""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

import msgspec

from pratique.apimachinery.errors import CallError
from pratique.apimachinery.statuses import go_quoted
from pratique.https.kubeconfigs import KubeconfigUser

_TOKEN_AGE = 50.0
"""Seconds before a token file is read again: client-go gives a token a minute, and renews it 10 s early."""

_HEADER_CHARACTERS = "!#$&'*+-.^_`|~"
"""The characters of header names besides letters and digits (RFC 9110 5.6.2), except ``%``, which escapes."""


@dataclasses.dataclass(frozen=True, slots=True)
class PemSource:
    """A certificate or key in PEM: bytes, or a file that may change."""

    data: bytes = dataclasses.field(default=b"", repr=False)
    path: str = ""

    def read(self) -> bytes:
        """Read the current bytes.

        Raises:
            CallError: the file cannot be read.
        """
        return self.data or _read_file(self.path)

    @property
    def stamp(self) -> tuple[int, int, int]:
        """A value that changes with the file; constant for bytes, and while the file is missing."""
        if self.data:
            return (0, 0, 0)
        try:
            found = Path(self.path).stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_size, found.st_mtime_ns)


class ClientCertificate(msgspec.Struct, frozen=True):
    """A client certificate for servers that request one."""

    certificate: PemSource
    key: PemSource

    @property
    def stamp(self) -> tuple[object, ...]:
        """A value that changes with either file."""
        return (self.certificate.stamp, self.key.stamp)

    def as_read(self) -> ClientCertificate:
        """The certificate as its files hold it now, which does not follow them.

        Raises:
            CallError: a file cannot be read.
        """
        return ClientCertificate(
            dataclasses.replace(self.certificate, data=self.certificate.read()),
            dataclasses.replace(self.key, data=self.key.read()),
        )


class TokenFile:
    """A file with a bearer token, read again about once a minute."""

    def __init__(self, path: str, token: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Use ``token`` until the file can be read."""
        self._path = path
        self._token = token
        self._clock = clock
        self._stale_at = float("-inf")

    def token(self) -> str:
        """The token of the last successful reading.

        Raises:
            CallError: the file cannot be read, and never could be.
        """
        if self._clock() < self._stale_at:
            return self._token
        try:
            content = _read_file(self._path).decode("utf-8", "replace").strip()
        except CallError:
            if not self._token:
                raise
            return self._token
        if not (content or self._token):
            text = f"could not get REST client: read empty token from file {go_quoted(self._path)}"
            raise CallError(text, code=500)
        self._token = content or self._token
        self._stale_at = self._clock() + _TOKEN_AGE
        return self._token


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials for one server. All empty means an anonymous client."""

    fixed_headers: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    """Headers that never change."""
    token_file: TokenFile | None = None
    """The file of a bearer token that may change."""
    certificate: ClientCertificate | None = None
    """The certificate for servers that request one."""
    ca_bundle: bytes = b""
    """CA certificates to trust besides the server's own, PEM."""

    def headers(self) -> Iterable[tuple[str, str]]:
        """The headers to send now.

        Raises:
            CallError: the token file cannot be read, and never could be.
        """
        if self.token_file is None:
            return self.fixed_headers
        return (("Authorization", f"Bearer {self.token_file.token()}"), *self.fixed_headers)


ANONYMOUS = Credentials()
"""The credentials of an anonymous client."""


def user_credentials(name: str, user: KubeconfigUser) -> Credentials:
    """Prepare the credentials of a user.

    Raises:
        CallError: they are invalid or of an unsupported kind; the text begins with ``could not get REST client``.
    """
    _check_supported(name, user)
    token_file = TokenFile(user.token_file, user.token) if user.token_file else None
    if token_file is not None:
        token_file.token()
    return Credentials(
        fixed_headers=(*_authorization(user), *_impersonation(user)),
        token_file=token_file,
        certificate=_client_certificate(user),
    )


def _check_supported(name: str, user: KubeconfigUser) -> None:
    if user.auth_provider is not None:
        raise CallError("could not get REST client: auth provider not supported", code=500)
    if user.exec is not None:
        raise CallError(
            f"could not get REST client: exec plugins are not supported (user {go_quoted(name)}): "
            "give a token, a tokenFile or a client certificate",
            code=500,
        )
    if (user.username or user.password) and (user.token or user.token_file):
        raise CallError(
            "could not get REST client: username/password or bearer token may be set, but not both", code=500
        )


def _authorization(user: KubeconfigUser) -> Iterable[tuple[str, str]]:
    if user.token and not user.token_file:
        yield "Authorization", f"Bearer {user.token}"
    elif user.username or user.password:
        pair = f"{user.username}:{user.password}".encode()
        yield "Authorization", f"Basic {base64.b64encode(pair).decode()}"


def _impersonation(user: KubeconfigUser) -> Iterable[tuple[str, str]]:
    if not user.impersonate:
        return
    yield "Impersonate-User", user.impersonate
    if user.impersonate_uid:
        yield "Impersonate-Uid", user.impersonate_uid
    for group in user.impersonate_groups:
        yield "Impersonate-Group", group
    for key, values in user.impersonate_extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_HEADER_CHARACTERS)}", value


def _client_certificate(user: KubeconfigUser) -> ClientCertificate | None:
    if not (user.client_certificate or user.client_certificate_data):
        return None
    return ClientCertificate(
        PemSource(user.client_certificate_data, user.client_certificate),
        PemSource(user.client_key_data, user.client_key),
    )


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        text = (error.strerror or "").lower()
        raise CallError(f"could not get REST client: open {path}: {text}", code=500) from None
