"""Certificates: what the front door shows to prove who it is, read again when it changes."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from frontdoor.settings import FrontDoorSettings

_logger = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key, in two files.

    A mounted Secret changes by moving a symbolic link, and a tool that writes files writes one after the
    other; so both are looked at from time to time, and a pair that cannot be used leaves the old in force.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Read both.

        Raises:
            ConfigurationError: a file cannot be read, is not PEM, or the two do not belong together.
        """
        self._cert_file, self._key_file = cert_file, key_file
        self._seen = self._signature()
        self._current = self._load()
        self.context = self._load()
        self.context.sni_callback = self._show_current

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> Certificate | None:
        """The certificate that the settings name; None where they name none.

        Raises:
            ConfigurationError: as above, or only one of the two files is named.
        """
        cert_file, key_file = settings.tls_cert_file, settings.tls_private_key_file
        if cert_file is None and key_file is None:
            return None
        if cert_file is None or key_file is None:
            raise ConfigurationError(
                "--tls-cert-file and --tls-private-key-file go together: give both, or neither for plain HTTP"
            )
        return cls(cert_file, key_file)

    def reload_if_changed(self) -> None:
        """Show the pair that is in the files now, from the next handshake on; open connections stay."""
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._current = self._load()
        except ConfigurationError as error:
            _logger.warning("certificate kept, the new one cannot be used", extra={"reason": str(error)})
        else:
            _logger.info("certificate reloaded", extra={"file": str(self._cert_file)})

    def _show_current(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        # A listener's own context is fixed, but each handshake may go on with another.
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._cert_file, self._key_file, password=_no_password)
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._complaint(error)) from None
        return context

    def _complaint(self, error: Exception) -> str:
        files = f"--tls-cert-file {self._cert_file}, --tls-private-key-file {self._key_file}"
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            return f"{files}: the private key does not belong to the certificate"
        if isinstance(error, ssl.SSLError | ValueError):
            return f"{files}: cannot be read as a certificate chain and an unencrypted private key in PEM"
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return f"{files}: {reason}"

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_file_signature(path) for path in (self._cert_file, self._key_file))


def _no_password() -> str:
    # Without this, OpenSSL would ask for one on the terminal.
    raise ValueError("the private key is encrypted")


def _file_signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
