"""TLS of services: what they prove themselves with and whom they let in, from files that are read again."""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING, Any

import grpc

from pratique.apimachinery.errors import ConfigurationError
from pratique.https.client_certificates import ClientCertificateAuthenticator
from pratique.https.tls import ReloadedCertificate, KeyPairFiles, read_authorities, read_key_pair

if TYPE_CHECKING:
    from pratique.https.tls import CertificateAuthorities, KeyPair
    from pratique.rpc.servers import ServerSettings

PAIR_FLAGS = ("--tls-cert-file", "--tls-private-key-file")


class ServerTls:
    """The TLS of one service: at least version 1.2, which is gRPC's own minimum."""

    def __init__(self, files: KeyPairFiles, settings: ServerSettings) -> None:
        """Read everything.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        self._pair: ReloadedCertificate[KeyPair] = ReloadedCertificate(
            "serving certificate",
            functools.partial(read_key_pair, files),
            files.paths,
            ends_at=lambda pair: pair.ends_at,
        )
        self._authorities = _client_authorities(settings)
        self.clients = None
        """Knows callers by their certificates; None where nobody is asked for one."""
        if self._authorities is not None:
            self.clients = ClientCertificateAuthenticator(self._authorities, settings.client_allowed_names)
        self.kept: tuple[ReloadedCertificate[Any], ...] = tuple(
            one for one in (self._pair, self._authorities) if one is not None
        )
        """What is read again, and how it is with each."""
        self._news: collections.deque[grpc.ServerCertificateConfiguration] = collections.deque(maxlen=1)
        for one in self.kept:
            one.tell(self._announce)

    @classmethod
    def of(cls, settings: ServerSettings) -> ServerTls | None:
        """The TLS that the settings ask for; None where a service serves without.

        Raises:
            ConfigurationError: a file cannot be used, or is given without another that it needs.
        """
        files = KeyPairFiles.given(settings.tls_cert_file, settings.tls_private_key_file, PAIR_FLAGS)
        if settings.client_ca_file is None and settings.client_allowed_names:
            raise ConfigurationError(
                "--client-allowed-names needs --client-ca-file, which says whose names they are"
            )
        if files is not None:
            return cls(files, settings)
        if settings.client_ca_file is not None:
            raise ConfigurationError(f"--client-ca-file needs TLS: give {' and '.join(PAIR_FLAGS)} as well")
        return None

    def credentials(self) -> grpc.ServerCredentials:
        """Make what a port is opened with. Each handshake is made with what is in the files then."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._newest,  # type: ignore[arg-type]  # the stubs lack the None that gRPC documents
            require_client_authentication=self._authorities is not None,
        )

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pair, authorities = self._pair.value, self._authorities
        return grpc.ssl_server_certificate_configuration(
            [(pair.key, pair.chain)], None if authorities is None else authorities.value.pem
        )

    def _announce(self, _: object) -> None:
        self._news.append(self._configuration())

    def _newest(self) -> grpc.ServerCertificateConfiguration | None:
        # gRPC asks before each handshake, in a thread of its own; None means that nothing has changed.
        try:
            return self._news.pop()
        except IndexError:
            return None


def _client_authorities(settings: ServerSettings) -> ReloadedCertificate[CertificateAuthorities] | None:
    file = settings.client_ca_file
    if file is None:
        return None
    return ReloadedCertificate(
        "client authorities",
        functools.partial(read_authorities, file, "--client-ca-file"),
        (file,),
        ends_at=lambda authorities: authorities.ends_at,
    )
