"""Certificates: what the front door shows to prove who it is, and what handshakes with it have to be like."""

from __future__ import annotations

import dataclasses
import functools
import ssl
from types import MappingProxyType
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError
from pratique.tls.kept import Kept
from pratique.tls.pairs import PairFiles, read_pair

if TYPE_CHECKING:
    from frontdoor.settings import FrontDoorSettings
    from pratique.tls.authorities import Authorities
    from pratique.tls.pairs import Pair

PAIR_FLAGS = ("--tls-cert-file", "--tls-private-key-file")

_VERSIONS = MappingProxyType({"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3})
"""As ``k8s.io/component-base/cli/flag/ciphersuites_flag.go`` names them, less those that nobody should speak."""

SUITES = MappingProxyType(
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
"""Go's names of the suites of TLS 1.2 that it prefers, and OpenSSL's."""

_SUITES_OF_1_3 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""These cannot be chosen, in Go neither: all of them are always on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Handshakes:
    """What all handshakes have to be like."""

    minimum: ssl.TLSVersion
    ciphers: str
    """In OpenSSL's words; empty for its own choice."""

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> Handshakes:
        """What the settings want.

        Raises:
            ConfigurationError: there is no such version or cipher suite.
        """
        version = _VERSIONS.get(settings.tls_min_version)
        if version is None:
            known = ", ".join(_VERSIONS)
            raise ConfigurationError(f"--tls-min-version {settings.tls_min_version}: expected one of {known}")
        names = [name for name in settings.tls_cipher_suites if name not in _SUITES_OF_1_3]
        for name in names:
            if name not in SUITES:
                raise ConfigurationError(
                    f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist; expected some of "
                    f"{', '.join(sorted(SUITES))}"
                )
        return cls(version, ":".join(SUITES[name] for name in names))

    def context(self) -> ssl.SSLContext:
        """Make a context for them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self.minimum
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        return context


class Certificate:
    """The front door's certificate, and the authorities of those who may show one in return.

    Both are what is in their files: the next handshake goes by it, and open connections stay.
    """

    def __init__(
        self,
        files: PairFiles,
        authorities: Kept[Authorities] | None = None,
        handshakes: Handshakes | None = None,
    ) -> None:
        """Read the pair.

        Raises:
            ConfigurationError: a file cannot be read, is not PEM, or the two do not belong together.
        """
        self.pair: Kept[Pair] = Kept(
            "serving certificate",
            functools.partial(read_pair, files),
            files.paths,
            ends_at=lambda pair: pair.ends_at,
        )
        self._authorities = authorities
        self._handshakes = handshakes or Handshakes(ssl.TLSVersion.TLSv1_2, "")
        self._current = self._made()
        self.context = self._made()
        """What the listener is opened with."""
        self.context.sni_callback = self._show_current
        self.pair.tell(self._renew)
        if authorities is not None:
            authorities.tell(self._renew)

    @classmethod
    def of(cls, settings: FrontDoorSettings, authorities: Kept[Authorities] | None) -> Certificate | None:
        """The certificate that the settings name; None where they name none.

        Raises:
            ConfigurationError: as above, or only one of the two files is named.
        """
        handshakes = Handshakes.of(settings)
        files = PairFiles.given(settings.tls_cert_file, settings.tls_private_key_file, PAIR_FLAGS)
        return None if files is None else cls(files, authorities, handshakes)

    def _renew(self, _: object) -> None:
        self._current = self._made()

    def _show_current(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        # A listener's own context is fixed, but each handshake may go on with another.
        connection.context = self._current

    def _made(self) -> ssl.SSLContext:
        context = self._handshakes.context()
        self.pair.value.show_by(context)
        if self._authorities is not None:
            # Whoever shows none is judged by what he asks for: a kubelet that probes has none to show.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            self._authorities.value.be_trusted_by(context)
            # A session that is resumed brings the client's certificate back without those that lead to an authority.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context
