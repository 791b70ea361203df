"""``pratique certs renew``: what follows the certificates of a folder, and their authority, while services run."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pratique.apimachinery.durations import GoDuration
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.patterns import pattern
from pratique_cli.certificate_authority import (
    NEXT_KEY,
    PRIVATE,
    PUBLIC,
    CertificateSpec,
    IssuedCertificate,
    TrustedAuthorities,
    WrittenCertificate,
    is_signed_by,
    issue,
    issue_authority,
    locked,
    read_authorities,
    read_pair,
    write_file,
    write_pair,
)

_BOTH_TRUSTED = """\
step 1 of 3: both authorities are trusted, and the old one signs
next: wait until all services have read ca.crt and all API servers the caBundle, then run this again"""
_NEW_SIGNS = """\
step 2 of 3: the new authority signs, and both are trusted
next: wait until all services and clients show their new certificates, then run this again"""
_OLD_REMOVED = "step 3 of 3: only the new authority is trusted"
UNFINISHED = "note: one authority is taking the place of another: --rotate-authority takes the next step"


class CertificateRenewal(msgspec.Struct, frozen=True):
    """Renews what a folder of ``pratique certs`` holds. Nothing is written before all of it could be read."""

    path: Path
    before: dt.timedelta | None
    """How long before its end a certificate is renewed; None: in the last third of its life."""
    days: int | None
    """The lifetime of new certificates, in days; None: as long as the one before."""
    keep_keys: bool
    """Whether new certificates have the keys of those before."""

    def run(self, *, rotate: bool) -> tuple[Sequence[WrittenCertificate], str]:
        """Renew what is due; with ``rotate``, also take the next step towards another authority.

        Returns:
            The authority and the certificates, and what to do next, if anything is.

        Raises:
            ConfigurationError: something in the folder cannot be used, or another run writes to it.
            OSError: a file cannot be read or written.
        """
        with locked(self.path):
            return self._run(rotate=rotate)

    def _run(self, *, rotate: bool) -> tuple[Sequence[WrittenCertificate], str]:
        authorities = read_authorities(self.path)
        if authorities is None:
            raise ConfigurationError(f"{self.path}: holds no ca.crt and ca.key; pratique certs makes them")
        pairs = dict(self._pairs())
        what, authorities = self._renewed_authority(authorities)
        note = UNFINISHED if authorities.others else ""
        if rotate:
            what, authorities, note = self._rotated(authorities)
        self._write_bundle(authorities, pairs)
        written = [self._renewed(name, pair, authorities) for name, pair in pairs.items()]
        if note == _NEW_SIGNS:
            # Last: if this run stops before, both are trusted all the same, and the next run goes on from here.
            (self.path / NEXT_KEY).replace(self.path / "ca.key")
        return [WrittenCertificate("", self.path / "ca.crt", what, authorities.signer), *written], note

    def _pairs(self) -> Iterator[tuple[str, tuple[IssuedCertificate, CertificateSpec]]]:
        for folder in sorted(path.parent for path in self.path.glob("*/tls.crt")):
            pair = read_pair(folder)
            if pair is None:
                raise ConfigurationError(
                    f"{folder}: tls.crt and tls.key are no certificate and its unencrypted key in PEM; "
                    f"remove {folder / 'tls.crt'}, and pratique certs makes both anew"
                )
            try:
                spec = CertificateSpec.of(pair.certificate)
            except ValueError as error:
                raise ConfigurationError(f"{folder / 'tls.crt'}: cannot be renewed here: {error}") from None
            if self.before and self.before >= dt.timedelta(days=self._days(pair)):
                told = GoDuration.of_seconds(self.before.total_seconds())
                raise ConfigurationError(
                    f"--before {told}: {folder / 'tls.crt'} lasts {self._days(pair)} days, so every run would renew it"
                )
            yield folder.name, (pair, spec)

    def _days(self, pair: IssuedCertificate) -> int:
        return self.days or max(1, round(pair.lifetime / dt.timedelta(days=1)))

    def _renewed_authority(self, authorities: TrustedAuthorities) -> tuple[str, TrustedAuthorities]:
        if not authorities.signer.is_due(self.before):
            return "kept", authorities
        # The same key and name: whoever trusts the old certificate trusts what is signed from now on, too.
        return "renewed", msgspec.structs.replace(authorities, signer=issue_authority(authorities.signer))

    def _rotated(self, authorities: TrustedAuthorities) -> tuple[str, TrustedAuthorities, str]:
        """Take the next step. Which one it is, the files say: a next key, or several trusted authorities."""
        next_key = self.path / NEXT_KEY
        if next_key.exists():
            try:
                following = TrustedAuthorities.read(authorities.bundle_pem, next_key.read_bytes())
            except ValueError:
                raise ConfigurationError(
                    f"{next_key}: belongs to no authority in ca.crt; remove it to begin again"
                ) from None
            return "renewed", following, _NEW_SIGNS
        if authorities.others:
            return "kept", TrustedAuthorities(authorities.signer), _OLD_REMOVED
        following = TrustedAuthorities(issue_authority())
        write_file(next_key, following.signer.key_pem, PRIVATE)
        both = msgspec.structs.replace(authorities, others=(following.signer.certificate,))
        return "renewed", both, _BOTH_TRUSTED

    def _write_bundle(self, authorities: TrustedAuthorities, names: Iterable[str]) -> None:
        for path in (self.path, *(self.path / name for name in names)):
            if not (path / "ca.crt").exists() or (path / "ca.crt").read_bytes() != authorities.bundle_pem:
                write_file(path / "ca.crt", authorities.bundle_pem, PUBLIC)

    def _renewed(
        self, name: str, pair: tuple[IssuedCertificate, CertificateSpec], authorities: TrustedAuthorities
    ) -> WrittenCertificate:
        present, spec = pair
        folder = self.path / name
        signed = is_signed_by(present.certificate, authorities.signer.certificate)
        if signed and not present.is_due(self.before):
            return WrittenCertificate(name, folder / "tls.crt", "kept", present)
        key = present.key if self.keep_keys else None
        issued = issue(authorities.signer, spec, self._days(present), key)
        write_pair(folder, issued)
        return WrittenCertificate(name, folder / "tls.crt", "renewed", issued)


_WEBHOOKS = pattern(r"(Mutating|Validating)WebhookConfiguration")


def update_ca_bundles(file: Path, bundle: bytes, known: bytes, *, write: bool) -> str:
    """Write a bundle into the webhook configurations of a file, and leave the rest of it as it is, comments included.

    Changed are webhooks whose ``caBundle`` holds an authority of ``known``, or is empty, or missing beside a
    ``service``, which could not be called without. Without ``write``, the file is checked alone.

    Returns:
        What was done.

    Raises:
        ConfigurationError: the file is no YAML, or no webhook in it is one of these.
        OSError: it cannot be read or written.
    """
    text = file.read_text("utf-8")
    try:
        clients = [client for root in yaml.compose_all(text, yaml.SafeLoader) for client in _clients(root)]
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file}: is not YAML: {str(error).splitlines()[0]}") from None
    value = base64.b64encode(bundle).decode()
    edits = [edit for client in clients if (edit := _edit(client, value, _authorities_of(known)))]
    if not edits:
        raise ConfigurationError(
            f"{file}: no webhook trusts an authority of the folder, or waits for a caBundle beside a service"
        )
    changed = text
    for begin, end, replacement in sorted(edits, reverse=True):
        changed = changed[:begin] + replacement + changed[end:]
    if write and changed != text:
        write_file(file, changed.encode(), file.stat().st_mode & 0o777)
    what = "kept" if changed == text else "updated"
    return f"{what:<8} {file}, caBundle of {len(edits)} of {len(clients)} webhooks"


def _clients(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Find the ``clientConfig`` of each webhook of a document, which may be a List."""
    members = _members(root)
    kind = getattr(members.get("kind"), "value", "")
    if kind.endswith("List") or _WEBHOOKS.fullmatch(kind):
        listed = members.get("items" if kind.endswith("List") else "webhooks")
        for item in listed.value if isinstance(listed, yaml.SequenceNode) else ():
            if kind.endswith("List"):
                yield from _clients(item)
            elif isinstance(client := _members(item).get("clientConfig"), yaml.MappingNode):
                yield client


def _members(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _edit(client: yaml.MappingNode, value: str, known: set[bytes]) -> tuple[int, int, str] | None:
    """What to replace in the text of a client's configuration, from where to where; None leaves it as it is."""
    members = _members(client)
    present = members.get("caBundle")
    if present is not None:
        bundle = "" if present.value in {"null", "~"} else str(present.value)
        if bundle and not _authorities_of_base64(bundle) & known:
            return None
        space = "" if present.end_mark.index > present.start_mark.index else " "
        return (
            present.start_mark.index,
            present.end_mark.index,
            f'{space}"{value}"' if space else f'"{value}"',
        )
    if "service" not in members:
        return None  # a server with a public name may have a certificate that everybody trusts
    if client.flow_style:
        begin = client.start_mark.index + 1
        return begin, begin, f'"caBundle": "{value}", '
    begin = client.start_mark.index
    return begin, begin, f'caBundle: "{value}"\n{" " * client.start_mark.column}'


def _authorities_of_base64(text: str) -> set[bytes]:
    try:
        return _authorities_of(base64.b64decode(text, validate=True))
    except ValueError:
        return set()


def _authorities_of(bundle: bytes) -> set[bytes]:
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return set()
    keys = serialization.PublicFormat.SubjectPublicKeyInfo
    return {certificate.public_key().public_bytes(serialization.Encoding.DER, keys) for certificate in found}
