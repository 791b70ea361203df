"""The folder that ``pratique certs`` fills, and the same certificates as manifests."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import ConfigurationError
from pratique_cli.certificates.issuing import IssuedCertificate, is_authority, is_signed_by, issue, issue_authority
from pratique_cli.terminal import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pratique.apimachinery.json_values import JSONObject
    from pratique_cli.certificates.issuing import CertificateSpec

_NON_NAME_CHARACTERS = re.compile(r"[^a-z0-9]+")


def secrets_yaml(done: Iterable[WrittenCertificate], service: str, namespace: str) -> str:
    """Write a Secret of type ``kubernetes.io/tls`` for each certificate, and the authority for webhooks to know.

    The authority's own key is in none of them.
    """
    authority, *signed = done
    bundle = authority.issued.certificate_pem
    head = f"# for clientConfig.caBundle of the webhooks that the front door serves:\n# caBundle: {_base64_text(bundle)}\n"
    return "---\n".join([head, *(dump_yaml(_secret_manifest(one, bundle, service, namespace)) for one in signed)])


def _secret_manifest(done: WrittenCertificate, bundle: bytes, service: str, namespace: str) -> JSONObject:
    name = "-".join(_NON_NAME_CHARACTERS.sub("-", part.lower()).strip("-") for part in (service, done.name, "tls"))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": {
            "ca.crt": _base64_text(bundle),
            "tls.crt": _base64_text(done.issued.certificate_pem),
            "tls.key": _base64_text(done.issued.key_pem),
        },
    }


def _base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


_PUBLIC, _PRIVATE = 0o644, 0o600


@dataclasses.dataclass(frozen=True, slots=True)
class WrittenCertificate:
    """What became of one certificate."""

    name: str
    """Of its folder; empty for the authority."""
    path: Path
    what: str
    """``made``, ``kept`` or ``renewed``."""
    issued: IssuedCertificate

    def __str__(self) -> str:
        return f"{self.what:<8} {self.path}, ends {self.issued.certificate.not_valid_after_utc:%Y-%m-%d}"


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateFolder:
    """One such folder."""

    path: Path
    days: int
    """How long certificates last that are made now."""
    force: bool
    """Make everything anew, also what would be good for longer."""

    def fill(self, wanted: Mapping[str, CertificateSpec]) -> Iterator[WrittenCertificate]:
        """Make what is not there or does not fit, renew what has lived two thirds of its time, keep the rest.

        Raises:
            ConfigurationError: the authority that is there cannot be used.
            OSError: a file cannot be read or written.
        """
        authority = self._authority()
        yield authority
        for name, one in wanted.items():
            yield self._signed(name, one, authority.issued)

    def _authority(self) -> WrittenCertificate:
        certificate, key = self.path / "ca.crt", self.path / "ca.key"
        present = None if self.force else self._read_authority(certificate, key)
        if present is None:
            what, issued = "made", issue_authority()
        elif present.is_aging:
            # With the same key, so that whoever trusts the certificate there was believes what is signed from now on.
            what, issued = "renewed", issue_authority(present.key)
        else:
            return WrittenCertificate("", certificate, "kept", present)
        _write_file(key, issued.key_pem, _PRIVATE)
        _write_file(certificate, issued.certificate_pem, _PUBLIC)
        return WrittenCertificate("", certificate, what, issued)

    def _read_authority(self, certificate: Path, key: Path) -> IssuedCertificate | None:
        there = [path for path in (certificate, key) if path.exists()]
        if not there:
            return None
        advice = "bring it back, or make another authority by --force, which nobody trusts yet"
        for path in (certificate, key):
            if path not in there:
                raise ConfigurationError(f"{path}: is not there, and {there[0].name} is: {advice}")
        try:
            issued = IssuedCertificate.read(certificate.read_bytes(), key.read_bytes())
        except ValueError:
            reason = "cannot be read as a certificate and its unencrypted private key in PEM"
            raise ConfigurationError(f"{certificate}, {key}: {reason}; {advice}") from None
        if not is_authority(issued.certificate):
            raise ConfigurationError(f"{certificate}: is not the certificate of an authority; {advice}")
        return issued

    def _signed(self, name: str, wanted: CertificateSpec, authority: IssuedCertificate) -> WrittenCertificate:
        folder = self.path / name
        certificate, key = folder / "tls.crt", folder / "tls.key"
        present = _read_pair(certificate, key)
        fits = (
            present is not None
            and wanted.is_met_by(present.certificate)
            and is_signed_by(present.certificate, authority.certificate)
        )
        if present is not None and fits and not present.is_aging and not self.force:
            what, issued = "kept", present
        else:
            what, issued = "made" if present is None else "renewed", issue(authority, wanted, self.days)
            folder.mkdir(parents=True, exist_ok=True)
            _write_file(key, issued.key_pem, _PRIVATE)
            _write_file(certificate, issued.certificate_pem, _PUBLIC)
        _write_file(folder / "ca.crt", authority.certificate_pem, _PUBLIC)
        return WrittenCertificate(name, certificate, what, issued)


def _read_pair(certificate: Path, key: Path) -> IssuedCertificate | None:
    try:
        return IssuedCertificate.read(certificate.read_bytes(), key.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _write_file(path: Path, content: bytes, mode: int) -> None:
    """Put a file in its place whole, and never readable for more people than it is to be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = path.with_name(f".{path.name}.new")
    other.unlink(missing_ok=True)
    with os.fdopen(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    other.replace(path)
