"""Authorities: whose signature on a certificate is believed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError, PartlyUsableError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from cryptography.x509 import Certificate


@dataclasses.dataclass(frozen=True, slots=True)
class Authorities:
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


def read_authorities(file: Path, flag: str) -> Authorities:
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
    return Authorities(b"".join(one.public_bytes(Encoding.PEM) for one in certificates), tuple(certificates))


def read_client_authorities(file: Path, flag: str) -> Authorities:
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
        raise PartlyUsableError(str(error), Authorities(b"", ())) from None


def _holds_something(file: Path) -> bool:
    try:
        return bool(file.read_bytes().strip())
    except OSError:
        return False
