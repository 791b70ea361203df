"""TLS: certificates, keys and authorities from files, kept up to date."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import logging
import ssl
import time
from typing import TYPE_CHECKING, Any, TypeVar

from pratique.apimachinery.errors import ConfigurationError, PartlyUsableError
from pratique.https.tls_contexts import temporary_pem_file
from pratique.telemetry.reloading import Reloaded, keep_reloading
from pratique.telemetry.watching import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cryptography.x509 import Certificate

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
EXPIRY_WARNING_SECONDS = 7 * _DAY_SECONDS
"""How long before its end a certificate is warned of. A week: whoever has to renew it by hand is at work by then."""


class ReloadedCertificate(Reloaded[T]):
    """Something reloaded that somebody has to look after."""

    def __init__(
        self,
        name: str,
        load: Callable[[], T],
        paths: Sequence[Path],
        *,
        ends_at: Callable[[T], float] | None = None,
    ) -> None:
        """Load for the first time; ``ends_at`` says when a value ends, in seconds since 1970.

        Raises:
            Exception: whatever ``load`` raises.
        """
        super().__init__(name, load, paths)
        self._ends_at = ends_at

    @property
    def ends_at(self) -> float | None:
        """When it ends, in seconds since 1970; None where it does not."""
        return None if self._ends_at is None else self._ends_at(self.value)

    def warning(self) -> str:
        """As of all that is reloaded; and that it ends soon."""
        if self.failure:
            return super().warning()
        end = self.ends_at
        if end is None or end - time.time() > EXPIRY_WARNING_SECONDS:
            return ""
        verb = "ends" if end > time.time() else "ended"
        return f"{self.name} {verb} {dt.datetime.fromtimestamp(end, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


async def keep_certificates_fresh(kept: Sequence[ReloadedCertificate[Any]], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Refresh all whenever a file of theirs changes, and warn of those that end soon, until cancelled."""
    warning = asyncio.ensure_future(_warn_daily(kept))
    try:
        await keep_reloading(kept, poll_seconds=poll_seconds)
    finally:
        warning.cancel()


async def _warn_daily(kept: Sequence[ReloadedCertificate[Any]]) -> None:
    while True:
        for one in kept:
            reason = "" if one.failure else one.warning()
            if reason:
                _log.warning("certificate to be renewed", extra={"reason": reason})
        await asyncio.sleep(_DAY_SECONDS)


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateAuthorities:
    """The certificates of a bundle, each trusted as it stands."""

    pem: bytes
    """All of them, and nothing beside."""
    certificates: tuple[Certificate, ...] = dataclasses.field(compare=False, repr=False)
    """The same, read."""

    @property
    def ends_at(self) -> float:
        """When the last of them ends, in seconds since 1970: from then on nobody is believed. 0 where there is none."""
        return max((one.not_valid_after_utc.timestamp() for one in self.certificates), default=0.0)

    def be_trusted_by(self, context: ssl.SSLContext) -> None:
        """Let ``context`` believe what they have signed."""
        if self.pem:  # of nothing OpenSSL makes an error; with nothing loaded it believes nobody
            context.load_verify_locations(cadata=self.pem.decode("ascii"))


def read_authorities(file: Path, flag: str) -> CertificateAuthorities:
    """Read a bundle.

    Raises:
        ConfigurationError: the file cannot be read, or holds no certificate, or one that is none.
    """
    from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  # likewise

    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{flag} {file}: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"{flag} {file}: cannot be read as certificates in PEM") from None
    return CertificateAuthorities(b"".join(one.public_bytes(Encoding.PEM) for one in certificates), tuple(certificates))


def read_client_authorities(file: Path, flag: str) -> CertificateAuthorities:
    """Read the bundle of those whose clients may call.

    Raises:
        PartlyUsableError: the file is gone, unreadable or blank; brings a bundle that believes nobody.
        ConfigurationError: as :func:`read_authorities`, otherwise.
    """
    try:
        return read_authorities(file, flag)
    except ConfigurationError as error:
        if _holds_something(file):
            raise
        raise PartlyUsableError(str(error), CertificateAuthorities(b"", ())) from None


def _holds_something(file: Path) -> bool:
    try:
        return bool(file.read_bytes().strip())
    except OSError:
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPairFiles:
    """Where a pair is, and what the operator calls its two files."""

    certificate: Path
    key: Path
    certificate_flag: str
    key_flag: str

    @classmethod
    def given(cls, certificate: Path | None, key: Path | None, flags: tuple[str, str]) -> KeyPairFiles | None:
        """Take what two flags say; None where they say nothing.

        Raises:
            ConfigurationError: one of them says something, and the other does not.
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
    """A certificate and its key. What it holds is from one reading: files may change meanwhile."""

    chain: bytes
    """The certificate and those between it and its authority, in PEM, own certificate first."""
    key: bytes = dataclasses.field(repr=False)
    """The private key, in PEM."""

    @property
    def ends_at(self) -> float:
        """When the certificate ends, in seconds since 1970."""
        from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS

        return x509.load_pem_x509_certificate(self.chain).not_valid_after_utc.timestamp()

    def show_by(self, context: ssl.SSLContext) -> None:
        """Let ``context`` prove itself with it.

        Raises:
            OSError: OpenSSL cannot use it; ``ssl.SSLError`` is one.
            ValueError: the key is encrypted, or the certificate none.
        """
        with temporary_pem_file(self.chain) as chain, temporary_pem_file(self.key) as key:
            context.load_cert_chain(chain, key, password=_no_password)


def read_key_pair(files: KeyPairFiles) -> KeyPair:
    """Read a pair.

    Raises:
        ConfigurationError: a file cannot be read, is not PEM, or the two do not belong together.
    """
    try:
        pair = KeyPair(files.certificate.read_bytes(), files.key.read_bytes())
        # gRPC would notice a bad pair only at the first handshake, and tell nobody.
        pair.show_by(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        _ = pair.ends_at
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{files}: {_complaint(error)}") from None
    return pair


def _complaint(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    if isinstance(error, ssl.SSLError | ValueError) or not isinstance(error, OSError):
        return "cannot be read as a certificate chain and an unencrypted private key in PEM"
    return error.strerror or str(error)


def _no_password() -> str:
    # Without this, OpenSSL would ask for one on the terminal.
    raise ValueError("the private key is encrypted")
