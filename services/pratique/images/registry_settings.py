"""How this machine reaches registries: credentials, authorities, and hosts without TLS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import CallError, ConfigurationError, InputError
from pratique.https.clients import require_http_library
from pratique.images.policies import ImageVerificationPolicy
from pratique.images.references import normalize_host
from pratique.images.registries import RegistryClient, RegistryHost
from pratique.images.registry_credentials import RegistryCredentials, read_registry_credentials

if TYPE_CHECKING:
    from pratique.https.sessions import HttpsSession

_MAX_BUNDLE_BYTES = 4 * 1024 * 1024


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach registries, for all policies."""

    registry_config: Path | None = None
    """Credentials, as in docker's ``config.json``; None calls every registry anonymously."""
    registry_ca_file: Path | None = None
    """Authorities of the registries' certificates, in PEM, instead of the system's."""
    registry_plain_http: tuple[str, ...] = ()
    """Registries that are called without TLS, by host and port: for tests, since anybody on the way can read and change
    what they say."""

    def read_credentials(self) -> RegistryCredentials:
        """Read the credentials.

        Raises:
            ConfigurationError: the file is invalid.
        """
        if self.registry_config is None:
            return RegistryCredentials()
        return read_registry_credentials(self.registry_config, "--registry-config")

    def registries(self, policy: ImageVerificationPolicy) -> Mapping[str, RegistryHost]:
        """Return how to reach the registries of a policy that are not simply at their host.

        Raises:
            ConfigurationError: a host is malformed.
        """
        registries = dict(policy.registries)
        for text in self.registry_plain_http:
            try:
                host = normalize_host(text)
            except InputError as error:
                raise ConfigurationError(f"--registry-plain-http: {error}") from None
            registries[host] = msgspec.structs.replace(
                registries.get(host, RegistryHost(host)), plain_http=True
            )
        return registries

    def open_session(self) -> HttpsSession:
        """Open connections to registries; the caller closes them. Needs a running event loop.

        Raises:
            ConfigurationError: the authorities are invalid, or the HTTP library is not installed.
        """
        require_http_library()
        # Imported late: the HTTP library is slow to import.
        from pratique.https.sessions import HttpsSession  # noqa: PLC0415
        from pratique.https.tls_contexts import open_client_context  # noqa: PLC0415

        file, bundle = self.registry_ca_file, b""
        if file is not None:
            try:
                with file.open("rb") as opened:
                    bundle = opened.read(_MAX_BUNDLE_BYTES)
            except OSError as error:
                raise ConfigurationError(
                    f"--registry-ca-file {file}: cannot be read: {error.strerror}"
                ) from None
            if not bundle.strip():
                raise ConfigurationError(f"--registry-ca-file {file}: is empty; expected certificates in PEM")
        try:
            return HttpsSession(open_client_context(bundle, None), None)
        except CallError as error:
            reason = str(error).rpartition(": ")[2]
            raise ConfigurationError(f"--registry-ca-file {file}: {reason}") from None

    def client(
        self, session: HttpsSession, policy: ImageVerificationPolicy, credentials: RegistryCredentials
    ) -> RegistryClient:
        """Return what asks the registries of a policy.

        Raises:
            ConfigurationError: a host is malformed.
        """
        return RegistryClient(session, self.registries(policy), credentials)
