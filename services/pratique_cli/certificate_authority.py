"""The certificate authority of ``pratique certs``.

It issues certificates and keeps the folder or the Secrets that hold them. Keys are ECDSA on P-256.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique_cli.encoding import dump_yaml

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes as PrivateKey


AUTHORITY_DAYS = 3650
"""The lifetime of an authority: ten years, because every client has to be told about a new one."""
_CLOCK_SKEW = dt.timedelta(minutes=5)
"""The clock difference between machines that new certificates tolerate."""
_SERVER_AND_CLIENT = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)


@dataclasses.dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: PrivateKey = dataclasses.field(repr=False)

    @property
    def certificate_pem(self) -> bytes:
        """The certificate, in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key, in PEM, as kubernetes.io/tls Secrets hold it."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def is_aging(self) -> bool:
        """Whether two thirds of its lifetime are over, when cert-manager renews certificates, too."""
        begin, end = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return _now() >= begin + (end - begin) * 2 / 3

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> IssuedCertificate:
        """Read both from PEM.

        Raises:
            ValueError: they cannot be read, or do not belong together.
        """
        try:
            read = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError("an encrypted key, or one of an unknown kind") from error
        if read.public_key() != private.public_key():
            raise ValueError("the private key does not belong to the certificate")
        return cls(read, cast("PrivateKey", private))


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateSpec:
    """The contents of a certificate to make."""

    common_name: str
    hosts: tuple[str, ...]
    """DNS names and IP addresses; client certificates have none."""
    serves: bool
    """Whether a server presents it. It is valid for clients, too, because services call each other."""

    @property
    def alternative_names(self) -> list[x509.GeneralName]:
        """The hosts as subject alternative names."""
        return [_general_name(host) for host in self.hosts]

    def is_met_by(self, certificate: x509.Certificate) -> bool:
        """Whether a certificate has these contents."""
        expected = _extensions(self)
        try:
            found = [
                certificate.extensions.get_extension_for_class(type(extension)).value
                for extension in expected
            ]
        except x509.ExtensionNotFound:
            return False
        return certificate.subject == _x509_name(self.common_name) and found == expected


def issue_authority(key: PrivateKey | None = None) -> IssuedCertificate:
    """Make an authority, or a new certificate for the ``key`` of one, which keeps its signatures valid."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = _x509_name("Pratique development authority")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, _now() + dt.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return IssuedCertificate(builder.sign(key, _signature_hash(key)), key)


def issue(authority: IssuedCertificate, wanted: CertificateSpec, days: int) -> IssuedCertificate:
    """Make a key and its certificate, signed by an authority, which it never outlives."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(_now() + dt.timedelta(days=days), authority.certificate.not_valid_after_utc)
    builder = _builder(_x509_name(wanted.common_name), authority.certificate.subject, key, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    for extension in _extensions(wanted):
        builder = builder.add_extension(extension, critical=False)
    builder = builder.add_extension(_authority_identifier(authority), critical=False)
    return IssuedCertificate(builder.sign(authority.key, _signature_hash(authority.key)), key)


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def check_hosts(hosts: Sequence[str], flag: str) -> None:
    """Check that hosts can be names in a certificate.

    Raises:
        ConfigurationError: one cannot.
    """
    for host in hosts:
        try:
            _general_name(host)
        except ValueError:
            raise ConfigurationError(f"{flag} {host}: expected a DNS name or an IP address") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, end: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - _CLOCK_SKEW)
        .not_valid_after(end)
    )


def _extensions(wanted: CertificateSpec) -> list[x509.ExtensionType]:
    usage = x509.ExtendedKeyUsage(_SERVER_AND_CLIENT if wanted.serves else _CLIENT)
    if not wanted.hosts:
        return [usage]
    return [usage, x509.SubjectAlternativeName(wanted.alternative_names)]


def _authority_identifier(authority: IssuedCertificate) -> x509.AuthorityKeyIdentifier:
    """The identifier that the authority gives its key, which may differ from the one computed here."""
    try:
        own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.removeprefix("*.").split(".")
    # As k8s.io/apimachinery's IsDNS1123Subdomain, but with the length limit of each label.
    if len(host) > 253 or not all(_is_label(label) for label in labels):
        raise ValueError(host)
    return x509.DNSName(host)


def _is_label(label: str) -> bool:
    plain = label.replace("-", "")
    return 0 < len(label) <= 63 and plain.isascii() and plain.isalnum() and label[0] != "-" != label[-1]


def _x509_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _signature_hash(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


_NON_NAME_CHARACTERS = re.compile(r"[^a-z0-9]+")


def secrets_yaml(certificates: Iterable[WrittenCertificate], service: str, namespace: str) -> str:
    """Write a Secret of type ``kubernetes.io/tls`` for each certificate, after a comment with the webhooks' caBundle.

    The authority's own key is never included.
    """
    authority, *signed = certificates
    bundle = authority.issued.certificate_pem
    comment = "# for clientConfig.caBundle of the webhooks that the front door serves:"
    head = f"{comment}\n# caBundle: {_base64_text(bundle)}\n"
    return "---\n".join(
        [
            head,
            *(dump_yaml(_secret_manifest(certificate, bundle, service, namespace)) for certificate in signed),
        ]
    )


def _secret_manifest(done: WrittenCertificate, bundle: bytes, service: str, namespace: str) -> JSONObject:
    name = "-".join(
        _NON_NAME_CHARACTERS.sub("-", part.lower()).strip("-") for part in (service, done.name, "tls")
    )
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
    """A certificate in the folder, and whether it was kept, made or renewed."""

    name: str
    """The name of its folder; empty for the authority."""
    path: Path
    what: str
    """``made``, ``kept`` or ``renewed``."""
    issued: IssuedCertificate

    def __str__(self) -> str:
        return f"{self.what:<8} {self.path}, ends {self.issued.certificate.not_valid_after_utc:%Y-%m-%d}"


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateFolder:
    """The folder that ``pratique certs`` fills."""

    path: Path
    days: int
    """The lifetime of new certificates, in days."""
    force: bool
    """Whether to replace certificates that are still valid."""

    def fill(self, specs: Mapping[str, CertificateSpec]) -> Iterator[WrittenCertificate]:
        """Make missing and unsuitable certificates, renew those past two thirds of their lifetime, keep the rest.

        Raises:
            ConfigurationError: the existing authority cannot be used.
            OSError: a file cannot be read or written.
        """
        authority = self._authority()
        yield authority
        for name, spec in specs.items():
            yield self._signed(name, spec, authority.issued)

    def _authority(self) -> WrittenCertificate:
        certificate, key = self.path / "ca.crt", self.path / "ca.key"
        present = None if self.force else self._read_authority(certificate, key)
        if present is None:
            what, issued = "made", issue_authority()
        elif present.is_aging:
            # With the same key, so that clients that trust the old certificate trust new ones, too.
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
        advice = "restore it, or make a new authority with --force, which no client trusts yet"
        for path in (certificate, key):
            if path not in there:
                raise ConfigurationError(f"{path}: does not exist, but {there[0].name} does: {advice}")
        try:
            issued = IssuedCertificate.read(certificate.read_bytes(), key.read_bytes())
        except ValueError:
            reason = "cannot be read as a certificate and its unencrypted private key in PEM"
            raise ConfigurationError(f"{certificate}, {key}: {reason}; {advice}") from None
        if not is_authority(issued.certificate):
            raise ConfigurationError(f"{certificate}: is not a CA certificate; {advice}")
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
    """Replace a file atomically; its mode is never wider than ``mode``, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = path.with_name(f".{path.name}.new")
    other.unlink(missing_ok=True)
    with os.fdopen(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    other.replace(path)
