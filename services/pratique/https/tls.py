"""TLS for servers: certificates, keys and authorities from watched files, and the authentication of clients.

As in ``k8s.io/apiserver/pkg/authentication/request/x509``, each request checks the client's certificate again: an
authority that you remove ends access on open connections, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import logging
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pratique.apimachinery.errors import ConfigurationError, PartlyUsableError
from pratique.apimachinery.pem import temporary_pem_file
from pratique.telemetry.reloading_files import POLL_SECONDS, Reloaded, keep_reloading

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


T = TypeVar("T")

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
EXPIRY_WARNING_SECONDS = 7 * _DAY_SECONDS
"""How long before expiry a certificate causes warnings. A week includes working days for renewal by hand."""


class ReloadedCertificate(Reloaded[T]):
    """A reloaded certificate, key pair or bundle, which may expire."""

    def __init__(
        self,
        name: str,
        load: Callable[[], T],
        paths: Sequence[Path],
        *,
        ends_at: Callable[[T], float] | None = None,
    ) -> None:
        """Load for the first time; ``ends_at`` gives the expiry of a value, in seconds since 1970.

        Raises:
            Exception: whatever ``load`` raises.
        """
        super().__init__(name, load, paths)
        self._ends_at = ends_at

    @property
    def ends_at(self) -> float | None:
        """When it expires, in seconds since 1970; None if never."""
        return None if self._ends_at is None else self._ends_at(self.value)

    def warning(self) -> str:
        """The warning of a failed reload, or of the expiry."""
        if self.failure:
            return super().warning()
        end = self.ends_at
        if end is None or end - time.time() > EXPIRY_WARNING_SECONDS:
            return ""
        verb = "ends" if end > time.time() else "ended"
        return f"{self.name} {verb} {dt.datetime.fromtimestamp(end, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


async def keep_certificates_fresh(
    certificates: Sequence[ReloadedCertificate[Any]], *, poll_seconds: float = POLL_SECONDS
) -> None:
    """Reload certificates when their files change, and warn of those that expire soon, until cancelled."""
    warning = asyncio.ensure_future(_warn_daily(certificates))
    try:
        await keep_reloading(certificates, poll_seconds=poll_seconds)
    finally:
        warning.cancel()


async def _warn_daily(certificates: Sequence[ReloadedCertificate[Any]]) -> None:
    while True:
        for certificate in certificates:
            reason = "" if certificate.failure else certificate.warning()
            if reason:
                _log.warning("certificate to be renewed", extra={"reason": reason})
        await asyncio.sleep(_DAY_SECONDS)


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateAuthorities:
    """The certificates of a bundle, each of which is trusted directly."""

    pem: bytes
    """The certificates in PEM, without anything else."""
    certificates: tuple[Certificate, ...] = dataclasses.field(compare=False, repr=False)
    """The same certificates, parsed."""

    @property
    def ends_at(self) -> float:
        """When the last of them ends, in seconds since 1970: from then on nobody is believed. 0 where there is none."""
        return max(
            (certificate.not_valid_after_utc.timestamp() for certificate in self.certificates), default=0.0
        )

    def trust_in(self, context: ssl.SSLContext) -> None:
        """Let ``context`` believe what they have signed."""
        if self.pem:  # of nothing OpenSSL makes an error; with nothing loaded it believes nobody
            context.load_verify_locations(cadata=self.pem.decode("ascii"))


def read_authorities(file: Path, flag: str) -> CertificateAuthorities:
    """Read a bundle.

    Raises:
        ConfigurationError: the file cannot be read, has no certificate, or has an invalid one.
    """
    from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  # likewise

    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{flag} {file}: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"{flag} {file}: cannot be read as certificates in PEM") from None
    return CertificateAuthorities(
        b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates), tuple(certificates)
    )


def read_client_authorities(file: Path, flag: str) -> CertificateAuthorities:
    """Read the bundle of authorities whose clients may call.

    Raises:
        PartlyUsableError: the file is missing, unreadable or blank; the error carries a bundle that trusts nobody.
        ConfigurationError: the file is invalid, as in :func:`read_authorities`.
    """
    try:
        return read_authorities(file, flag)
    except ConfigurationError as error:
        if _has_content(file):
            raise
        raise PartlyUsableError(str(error), CertificateAuthorities(b"", ())) from None


def _has_content(file: Path) -> bool:
    try:
        return bool(file.read_bytes().strip())
    except OSError:
        return False


class KeyPairFiles(msgspec.Struct, frozen=True):
    """The files of a certificate and its key, and the flags that name them."""

    certificate: Path
    key: Path
    certificate_flag: str
    key_flag: str

    @classmethod
    def from_flags(
        cls, certificate: Path | None, key: Path | None, flags: tuple[str, str]
    ) -> KeyPairFiles | None:
        """Take the values of two flags; None if neither is set.

        Raises:
            ConfigurationError: only one of them is set.
        """
        if certificate is None and key is None:
            return None
        if certificate is None or key is None:
            raise ConfigurationError(f"{flags[0]} and {flags[1]} go together: give both or neither")
        return cls(certificate, key, *flags)

    @property
    def paths(self) -> tuple[Path, Path]:
        """Both files."""
        return self.certificate, self.key

    def __str__(self) -> str:
        return f"{self.certificate_flag} {self.certificate}, {self.key_flag} {self.key}"


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as read once: the files may have changed since."""

    chain: bytes
    """The certificate and its intermediates in PEM, its own certificate first."""
    key: bytes = dataclasses.field(repr=False)
    """The private key, in PEM."""

    @property
    def ends_at(self) -> float:
        """When the certificate expires, in seconds since 1970."""
        from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS

        return x509.load_pem_x509_certificate(self.chain).not_valid_after_utc.timestamp()

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the pair into ``context``.

        Raises:
            OSError: OpenSSL cannot use it; ``ssl.SSLError`` is one.
            ValueError: the key is encrypted, or the certificate is invalid.
        """
        with temporary_pem_file(self.chain) as chain, temporary_pem_file(self.key) as key:
            context.load_cert_chain(chain, key, password=_refuse_password)


def read_key_pair(files: KeyPairFiles) -> KeyPair:
    """Read a key pair.

    Raises:
        ConfigurationError: a file cannot be read or is not PEM, or the key does not fit the certificate.
    """
    try:
        pair = KeyPair(files.certificate.read_bytes(), files.key.read_bytes())
        # gRPC would notice a bad pair only at the first handshake, and report it nowhere.
        pair.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        _ = pair.ends_at
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{files}: {_error_text(error)}") from None
    return pair


def _error_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    if isinstance(error, ssl.SSLError | ValueError) or not isinstance(error, OSError):
        return "cannot be read as a certificate chain and an unencrypted private key in PEM"
    return error.strerror or str(error)


def _refuse_password() -> str:
    # Without this, OpenSSL would prompt for a password on the terminal.
    raise ValueError("the private key is encrypted")


_DER = 2
"""``_ssl.ENCODING_DER``."""


def client_chain(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """Return the client's certificate and the intermediate ones that it presented, in DER; empty without one."""
    own = connection.getpeercert(binary_form=True)
    if own is None:
        return ()
    return (own, *(certificate for certificate in _certificate_chain(connection) if certificate != own))


def _certificate_chain(connection: Any) -> list[bytes]:
    """Return all certificates the client presented.

    Python has a method for it from 3.13 on; before, the underlying object has one.
    """
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    chain: list[Any] = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", list)()
    return [certificate.public_bytes(_DER) for certificate in chain or ()]


_MAX_CHAIN_LENGTH = 8
"""The most certificates that a chain may have between a client's and an authority; real chains have one or two."""


class TlsClient(msgspec.Struct, frozen=True):
    """A client as its certificate identifies it."""

    names: tuple[str, ...]
    """Common name, DNS names and URIs, in that order."""
    is_allowed: bool
    """Whether one of its names is allowed to call."""

    @property
    def name(self) -> str:
        """Its first name; empty if the certificate has none."""
        return self.names[0] if self.names else ""


class ClientCertificateAuthenticator:
    """Authenticates clients by certificates that the current authorities have signed."""

    def __init__(
        self, authorities: ReloadedCertificate[CertificateAuthorities], allowed_names: Iterable[str]
    ) -> None:
        """Allow clients with one of the names; without names, allow every client with a signed certificate."""
        self.authorities = authorities
        self._allowed = frozenset(allowed_names)
        # Cached by chain: front doors and API servers present the same one on all connections.
        self._cached_identify = functools.lru_cache(maxsize=256)(self._identify)

    def authenticate(self, chain: tuple[bytes, ...]) -> TlsClient | None:
        """Identify the client that presents ``chain``, its own certificate first, in DER or PEM; None if untrusted."""
        client, begins_at, ends_at = self._cached_identify(self.authorities.value, chain)
        return client if begins_at <= time.time() <= ends_at else None

    def _identify(
        self, authorities: CertificateAuthorities, chain: tuple[bytes, ...]
    ) -> tuple[TlsClient | None, float, float]:
        certificates = [
            certificate for der_or_pem in chain for certificate in _parse_certificates(der_or_pem)
        ]
        if not certificates or not chains_to_authority(certificates, authorities.certificates):
            return None, 0.0, 0.0
        own = certificates[0]
        names = certificate_names(own)
        client = TlsClient(names, not self._allowed or not self._allowed.isdisjoint(names))
        return client, own.not_valid_before_utc.timestamp(), own.not_valid_after_utc.timestamp()


def certificate_names(certificate: Certificate) -> tuple[str, ...]:
    """The common name, the DNS names and the URIs of a certificate, without duplicates."""
    from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS

    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    names = [str(attribute.value) for attribute in common]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(names)
    names += extension.get_values_for_type(x509.DNSName)
    names += extension.get_values_for_type(x509.UniformResourceIdentifier)
    return tuple(dict.fromkeys(names))


def chains_to_authority(chain: Sequence[Certificate], authorities: Sequence[Certificate]) -> bool:
    """Whether an authority signed the first certificate of ``chain``, directly or through the others.

    The handshake has checked everything else; only the authorities may have changed since.
    """
    current, others = chain[0], chain[1:]
    for _ in range(_MAX_CHAIN_LENGTH):
        if current in authorities or any(_is_issued_by(current, authority) for authority in authorities):
            return True
        issuer = next(
            (candidate for candidate in others if candidate != current and _is_issued_by(current, candidate)),
            None,
        )
        if issuer is None:
            return False
        current = issuer
    return False


def _is_issued_by(certificate: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # as above

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _parse_certificates(der_or_pem: bytes) -> list[Certificate]:
    from cryptography import x509  # noqa: PLC0415  # as above

    if der_or_pem.startswith(b"-----BEGIN"):
        return x509.load_pem_x509_certificates(der_or_pem)
    return [x509.load_der_x509_certificate(der_or_pem)]
