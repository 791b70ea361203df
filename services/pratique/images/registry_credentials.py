"""Credentials for registries, from a file such as docker's ``config.json`` or a Secret of type ``dockerconfigjson``."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import go_quoted
from pratique.images.references import normalize_host

_MAX_BYTES = 1024 * 1024
"""Bytes of such a file: as much as a Secret may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegistryLogin:
    """A user and a password."""

    user: str
    password: str = dataclasses.field(repr=False)

    @property
    def header(self) -> str:
        """The value of ``Authorization``."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


class _Entry(msgspec.Struct, frozen=True, rename="lower"):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""
    registrytoken: str = ""


class _DockerConfig(msgspec.Struct, frozen=True, rename="camel"):
    auths: dict[str, _Entry] = {}
    creds_store: str = ""
    cred_helpers: dict[str, JSON] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """The credentials of one file, by the host of a registry."""

    logins: Mapping[str, RegistryLogin] = dataclasses.field(default_factory=dict, repr=False)
    has_helpers: bool = False
    """Whether the file names programs that know more credentials; these are never run."""

    def login(self, host: str) -> RegistryLogin | None:
        """The login for a registry; None calls it anonymously."""
        return self.logins.get(host)


def read_registry_credentials(file: Path, flag: str) -> RegistryCredentials:
    """Read a file of credentials.

    Raises:
        ConfigurationError: it cannot be read, or an entry has no user and password.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{flag} {file}: cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{flag} {file}: has more than {_MAX_BYTES} bytes")
    try:
        config = msgspec.json.decode(content, type=prepared(_DockerConfig))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The text of the error could quote a secret.
        raise ConfigurationError(
            f'{flag} {file}: is not a config.json of docker, such as {{"auths": {{"registry.example.com": '
            '{"auth": "…"}}}'
        ) from None
    logins = {}
    for server, entry in config.auths.items():
        try:
            login = _login(entry)
            if login is not None:
                logins[_host(server)] = login
        except InputError as error:
            raise ConfigurationError(f"{flag} {file}: auths: {go_quoted(server)}: {error}") from None
    return RegistryCredentials(logins, bool(config.creds_store or config.cred_helpers))


def _host(server: str) -> str:
    """The host of an entry, which may be a URL such as ``https://registry.example.com/v1/``."""
    return normalize_host(server.partition("://")[2].partition("/")[0] or server.partition("/")[0])


def _login(entry: _Entry) -> RegistryLogin | None:
    """The login of an entry; None if it is empty, as docker writes it beside a store of credentials."""
    if entry.identitytoken or entry.registrytoken:
        raise InputError(
            "identity and registry tokens are not supported: give auth, or username and password"
        )
    if not entry.auth:
        return RegistryLogin(entry.username, entry.password) if entry.username and entry.password else None
    try:
        user, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user, colon, password = "", "", ""
    if not (user and colon and password):
        raise InputError("auth is not the Base64 of user:password")
    return RegistryLogin(user, password)
