"""The front door's TLS: its certificate, accepted versions and cipher suites, and the credentials that callers need."""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique.https.tls import (
    CertificateAuthorities,
    ClientCertificateAuthenticator,
    KeyPair,
    KeyPairFiles,
    ReloadedCertificate,
    read_client_authorities,
    read_key_pair,
)
from pratique_frontdoor.http.authentication import Callers, SecretDigests, read_logins, read_tokens
from pratique_frontdoor.settings import FrontDoorSettings

PAIR_FLAGS = ("--tls-cert-file", "--tls-private-key-file")

_TLS_VERSIONS = MappingProxyType(
    {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
)
"""The names of ``k8s.io/component-base/cli/flag/ciphersuites_flag.go``, without versions that are no longer safe."""

CIPHER_SUITES = MappingProxyType(
    {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    }
)
"""Go's names of its preferred cipher suites of TLS 1.2, and OpenSSL's names."""

_TLS_1_3_CIPHER_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""These cannot be selected, as in Go: all of them are always enabled."""


class HandshakeSettings(msgspec.Struct, frozen=True):
    """The TLS version and cipher suites of all handshakes."""

    minimum: ssl.TLSVersion
    ciphers: str
    """The cipher list in OpenSSL's format; empty for its default."""

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> HandshakeSettings:
        """Return the handshake settings of the front door's settings.

        Raises:
            ConfigurationError: there is no such version or cipher suite.
        """
        version = _TLS_VERSIONS.get(settings.tls_min_version)
        if version is None:
            known = ", ".join(_TLS_VERSIONS)
            raise ConfigurationError(f"--tls-min-version {settings.tls_min_version}: expected one of {known}")
        names = [name for name in settings.tls_cipher_suites if name not in _TLS_1_3_CIPHER_SUITES]
        for name in names:
            if name not in CIPHER_SUITES:
                raise ConfigurationError(
                    f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist; expected some of "
                    f"{', '.join(sorted(CIPHER_SUITES))}"
                )
        return cls(version, ":".join(CIPHER_SUITES[name] for name in names))

    def context(self) -> ssl.SSLContext:
        """Return a new SSL context with these settings."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self.minimum
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        return context


class Certificate:
    """The front door's certificate, and the authorities of client certificates.

    Both follow their files: the next handshake uses the new content, and open connections stay.
    """

    def __init__(
        self,
        files: KeyPairFiles,
        authorities: ReloadedCertificate[CertificateAuthorities] | None = None,
        handshakes: HandshakeSettings | None = None,
    ) -> None:
        """Read the certificate and its key.

        Raises:
            ConfigurationError: a file cannot be read, is not PEM, or the two do not belong together.
        """
        self.pair: ReloadedCertificate[KeyPair] = ReloadedCertificate(
            "serving certificate",
            functools.partial(read_key_pair, files),
            files.paths,
            ends_at=lambda pair: pair.ends_at,
        )
        self._authorities = authorities
        self._handshakes = handshakes or HandshakeSettings(ssl.TLSVersion.TLSv1_2, "")
        self._current = self._new_context()
        self.context = self._new_context()
        """The SSL context of the listener."""
        self.context.sni_callback = self._show_current
        self.pair.add_listener(self._renew)
        if authorities is not None:
            authorities.add_listener(self._renew)

    @classmethod
    def of(
        cls, settings: FrontDoorSettings, authorities: ReloadedCertificate[CertificateAuthorities] | None
    ) -> Certificate | None:
        """Return the certificate of the settings; None without one.

        Raises:
            ConfigurationError: as above, or only one of the two files is set.
        """
        handshakes = HandshakeSettings.of(settings)
        files = KeyPairFiles.from_flags(settings.tls_cert_file, settings.tls_private_key_file, PAIR_FLAGS)
        return None if files is None else cls(files, authorities, handshakes)

    def _renew(self, _: object) -> None:
        self._current = self._new_context()

    def _show_current(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        # The context of a listener is fixed, but each handshake can switch to another.
        connection.context = self._current

    def _new_context(self) -> ssl.SSLContext:
        context = self._handshakes.context()
        self.pair.value.load_into(context)
        if self._authorities is not None:
            # A request without a certificate is judged by its path: a kubelet that probes has none.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            self._authorities.value.trust_in(context)
            # A resumed session has the client's certificate without its intermediate ones.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context


_log = logging.getLogger(__name__)


class ListenerSecurity:
    """The files of the listener's certificate and its callers' credentials, reloaded when they change."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read the files.

        Raises:
            ConfigurationError: a file is unusable, or is set without another that it needs.
        """
        authorities = _authorities(settings.client_ca_file)
        self.certificate = Certificate.of(settings, authorities)
        """The front door's certificate; None for plain HTTP."""
        _check_flags(settings, self.certificate)
        _check_console(settings)
        tokens = _secrets("bearer tokens", settings.token_file, read_tokens)
        logins = _secrets("users and passwords", settings.basic_auth_file, read_logins)
        self.callers = None
        """The credentials that callers need; None if everybody may call."""
        if any(reloaded is not None for reloaded in (authorities, tokens, logins)):
            names = settings.client_allowed_names
            known = None if authorities is None else ClientCertificateAuthenticator(authorities, names)
            self.callers = Callers(known, tokens, logins)
        pair = None if self.certificate is None else self.certificate.pair
        self.reloaded_credentials: tuple[ReloadedCertificate[Any], ...] = tuple(
            reloaded for reloaded in (pair, authorities, tokens, logins) if reloaded is not None
        )
        """The reloaded files and their states."""
        self._authorities, self._secrets = (
            authorities,
            [reloaded for reloaded in (tokens, logins) if reloaded is not None],
        )

    def unavailable_reasons(self) -> Sequence[str]:
        """Return why no caller can be accepted: all files of credentials are empty. Empty if some caller can."""
        ways = [(secrets.failure, bool(secrets.value.held)) for secrets in self._secrets]
        if self._authorities is not None:
            ways.append((self._authorities.failure, bool(self._authorities.value.certificates)))
        if not ways or any(is_open for _, is_open in ways):
            return ()
        return [f"no caller can be accepted: {failure}" for failure, _ in ways]


def _check_flags(settings: FrontDoorSettings, certificate: Certificate | None) -> None:
    if settings.client_allowed_names and settings.client_ca_file is None:
        raise ConfigurationError(
            "--client-allowed-names needs --client-ca-file, the authorities of those names"
        )
    if certificate is not None:
        return
    if settings.client_ca_file is not None:
        raise ConfigurationError(f"--client-ca-file needs HTTPS: give {' and '.join(PAIR_FLAGS)} as well")
    if settings.token_file is not None or settings.basic_auth_file is not None:
        reason = "--token-file and --basic-auth-file without TLS: the network traffic reveals the secrets"
        _log.warning("secrets are sent in plain text", extra={"reason": reason})


_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


def _check_console(settings: FrontDoorSettings) -> None:
    files = (settings.client_ca_file, settings.token_file, settings.basic_auth_file)
    if settings.console and settings.host not in _LOOPBACK_HOSTS and not any(files):
        raise ConfigurationError(
            f"--console with --host {settings.host} would show decisions to everybody: add --client-ca-file,"
            " --token-file or --basic-auth-file, or listen on 127.0.0.1"
        )


def _authorities(file: Path | None) -> ReloadedCertificate[CertificateAuthorities] | None:
    if file is None:
        return None
    read = functools.partial(read_client_authorities, file, "--client-ca-file")
    return ReloadedCertificate("client authorities", read, (file,), ends_at=lambda bundle: bundle.ends_at)


def _secrets(
    name: str, file: Path | None, read: Callable[[Path], SecretDigests]
) -> ReloadedCertificate[SecretDigests] | None:
    return None if file is None else ReloadedCertificate(name, functools.partial(read, file), (file,))
