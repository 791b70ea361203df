"""The certificate authority of ``pratique certs``.

It issues certificates and keeps the folder or the Secrets that hold them. Keys are ECDSA on P-256.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import fcntl
import ipaddress
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
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
    def lifetime(self) -> dt.timedelta:
        """How long it is valid in all."""
        return self.certificate.not_valid_after_utc - self.certificate.not_valid_before_utc

    def is_due(self, before: dt.timedelta | None = None) -> bool:
        """Whether to renew it: ``before`` its end; by default in the last third of its life, as cert-manager does."""
        return _now() >= self.certificate.not_valid_after_utc - (before or self.lifetime / 3)

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


class CertificateSpec(msgspec.Struct, frozen=True):
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

    @classmethod
    def of(cls, certificate: x509.Certificate) -> CertificateSpec:
        """The contents of a certificate, for the one that follows it.

        Raises:
            ValueError: it has no common name, or names that certificates made here cannot have.
        """
        names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        try:
            usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            serves = ExtendedKeyUsageOID.SERVER_AUTH in usages
        except x509.ExtensionNotFound:
            serves = True  # good for everything
        try:
            listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            listed = x509.SubjectAlternativeName([])
        if not names or not all(isinstance(name, x509.DNSName | x509.IPAddress) for name in listed):
            raise ValueError(
                "it has no common name, or an alternative name that is no DNS name or IP address"
            )
        return cls(str(names[0].value), tuple(str(name.value) for name in listed), serves)

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


class TrustedAuthorities(msgspec.Struct, frozen=True):
    """The authority that signs, and those that are trusted beside it while one takes the place of another."""

    signer: IssuedCertificate
    others: tuple[x509.Certificate, ...] = ()

    @property
    def bundle_pem(self) -> bytes:
        """All certificates, in PEM, as ``ca.crt`` and ``caBundle`` hold them."""
        pem = serialization.Encoding.PEM
        return self.signer.certificate_pem + b"".join(other.public_bytes(pem) for other in self.others)

    @classmethod
    def read(cls, certificates: bytes, key: bytes) -> TrustedAuthorities:
        """Read a bundle and the key of one of its authorities, from PEM.

        Raises:
            ValueError: they cannot be read, or the key belongs to none of them.
        """
        bundle = x509.load_pem_x509_certificates(certificates)
        for certificate in bundle:
            try:
                pem = certificate.public_bytes(serialization.Encoding.PEM)
                signer = IssuedCertificate.read(pem, key)
            except ValueError:
                continue
            return cls(signer, tuple(other for other in bundle if other != certificate))
        raise ValueError("the private key belongs to no certificate")


def issue_authority(former: IssuedCertificate | None = None) -> IssuedCertificate:
    """Make an authority, or a new certificate for a ``former`` one, whose key and name keep its signatures valid."""
    key = former.key if former else ec.generate_private_key(ec.SECP256R1())
    name = former.certificate.subject if former else _x509_name("Pratique development authority")
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


def issue(
    authority: IssuedCertificate, wanted: CertificateSpec, days: int, key: PrivateKey | None = None
) -> IssuedCertificate:
    """Make a certificate, and its key if there is none, signed by an authority, which it never outlives."""
    key = key or ec.generate_private_key(ec.SECP256R1())
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


_NON_NAME_CHARACTERS = pattern(r"[^a-z0-9]+")


def secrets_yaml(certificates: Iterable[WrittenCertificate], service: str, namespace: str) -> str:
    """Write a Secret of type ``kubernetes.io/tls`` for each certificate, after a comment with the webhooks' caBundle.

    The authority's own key is never included.
    """
    authority, *signed = certificates
    bundle = authority.path.read_bytes()
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


PUBLIC, PRIVATE = 0o644, 0o600
"""The modes of files with certificates and with keys."""
NEXT_KEY = "ca-next.key"
"""The key of the authority that is to take the place of the one that signs, until it does."""


class WrittenCertificate(msgspec.Struct, frozen=True):
    """A certificate in the folder, and whether it was kept, made or renewed."""

    name: str
    """The name of its folder; empty for the authority."""
    path: Path
    what: str
    """``made``, ``kept`` or ``renewed``."""
    issued: IssuedCertificate

    def __str__(self) -> str:
        return f"{self.what:<8} {self.path}, ends {self.issued.certificate.not_valid_after_utc:%Y-%m-%d}"


class CertificateFolder(msgspec.Struct, frozen=True):
    """The folder that ``pratique certs`` fills."""

    path: Path
    days: int
    """The lifetime of new certificates, in days."""
    force: bool
    """Whether to replace certificates that are still valid."""

    def fill(self, specs: Mapping[str, CertificateSpec]) -> Iterator[WrittenCertificate]:
        """Make missing and unsuitable certificates, renew those past two thirds of their lifetime, keep the rest.

        Raises:
            ConfigurationError: the existing authority cannot be used, or another run writes to the folder.
            OSError: a file cannot be read or written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigurationError(f"{self.path}: is a file; name a folder for the certificates")
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            what, authorities = self._authorities()
            yield WrittenCertificate("", self.path / "ca.crt", what, authorities.signer)
            for name, spec in specs.items():
                yield self._signed(name, spec, authorities)

    def _authorities(self) -> tuple[str, TrustedAuthorities]:
        certificate, key = self.path / "ca.crt", self.path / "ca.key"
        present = None if self.force else read_authorities(self.path)
        if present is None:
            what, authorities = "made", TrustedAuthorities(issue_authority())
            (self.path / NEXT_KEY).unlink(missing_ok=True)
        elif present.signer.is_due():
            # With the same key, so that clients that trust the old certificate trust new ones, too.
            renewed = issue_authority(present.signer)
            what, authorities = "renewed", msgspec.structs.replace(present, signer=renewed)
        else:
            return "kept", present
        write_file(key, authorities.signer.key_pem, PRIVATE)
        write_file(certificate, authorities.bundle_pem, PUBLIC)
        return what, authorities

    def _signed(
        self, name: str, wanted: CertificateSpec, authorities: TrustedAuthorities
    ) -> WrittenCertificate:
        folder = self.path / name
        present = read_pair(folder)
        fits = (
            present is not None
            and wanted.is_met_by(present.certificate)
            and is_signed_by(present.certificate, authorities.signer.certificate)
        )
        if present is not None and fits and not present.is_due() and not self.force:
            what, issued = "kept", present
        else:
            what = "made" if present is None else "renewed"
            issued = issue(authorities.signer, wanted, self.days)
            write_pair(folder, issued)
        write_file(folder / "ca.crt", authorities.bundle_pem, PUBLIC)
        return WrittenCertificate(name, folder / "tls.crt", what, issued)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs away from a folder: two at a time could mix their keys, or take two steps of a rotation at once.

    Raises:
        ConfigurationError: another run writes to it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "another run writes to it; try again when that has ended"
            raise ConfigurationError(f"{folder}: {problem}") from None
        yield
    finally:
        os.close(descriptor)


def read_authorities(folder: Path) -> TrustedAuthorities | None:
    """Read ``ca.crt`` and ``ca.key`` of a folder; None if it has neither.

    Raises:
        ConfigurationError: they cannot be used.
        OSError: they cannot be read.
    """
    certificate, key = folder / "ca.crt", folder / "ca.key"
    there = [path for path in (certificate, key) if path.exists()]
    if not there:
        return None
    advice = "restore it, or make a new authority with --force, which no client trusts yet"
    for path in (certificate, key):
        if path not in there:
            raise ConfigurationError(f"{path}: does not exist, but {there[0].name} does: {advice}")
    try:
        authorities = TrustedAuthorities.read(certificate.read_bytes(), key.read_bytes())
    except ValueError:
        reason = "cannot be read as a certificate and its unencrypted private key in PEM"
        raise ConfigurationError(f"{certificate}, {key}: {reason}; {advice}") from None
    if not is_authority(authorities.signer.certificate):
        raise ConfigurationError(f"{certificate}: is not a CA certificate; {advice}")
    return authorities


def read_pair(folder: Path) -> IssuedCertificate | None:
    """Read ``tls.crt`` and ``tls.key`` of a folder; None if there is no usable pair."""
    try:
        return IssuedCertificate.read((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def write_pair(folder: Path, issued: IssuedCertificate) -> None:
    """Write ``tls.key`` and ``tls.crt`` of a folder. Services wait until both belong together."""
    write_file(folder / "tls.key", issued.key_pem, PRIVATE)
    write_file(folder / "tls.crt", issued.certificate_pem, PUBLIC)


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically; its mode is never wider than ``mode``, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = path.with_name(f".{path.name}.new")
    other.unlink(missing_ok=True)
    with os.fdopen(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # or a machine that fails could be left with an empty key
    other.replace(path)
