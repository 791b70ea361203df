"""Pairs: a certificate and its private key, read from two files and found to belong together."""

from __future__ import annotations

import dataclasses
import ssl
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError
from pratique.tls.pem_files import as_file

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class PairFiles:
    """Where a pair is, and what the operator calls its two files."""

    certificate: Path
    key: Path
    certificate_flag: str
    key_flag: str

    @classmethod
    def given(cls, certificate: Path | None, key: Path | None, flags: tuple[str, str]) -> PairFiles | None:
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
class Pair:
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
        with as_file(self.chain) as chain, as_file(self.key) as key:
            context.load_cert_chain(chain, key, password=_no_password)


def read_pair(files: PairFiles) -> Pair:
    """Read a pair.

    Raises:
        ConfigurationError: a file cannot be read, is not PEM, or the two do not belong together.
    """
    try:
        pair = Pair(files.certificate.read_bytes(), files.key.read_bytes())
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
