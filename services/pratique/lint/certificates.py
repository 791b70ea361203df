"""Rules about the certificates of webhooks: those they are trusted by, and those they show."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from typing import TYPE_CHECKING

from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import member
from pratique.lint.outage_simulation import known_workloads, mounted, server_name
from pratique.lint.rules import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cryptography.x509 import Certificate

    from pratique.apimachinery.json_values import JSONObject
    from pratique.lint.outage_simulation import Backend
    from pratique.lint.rules import Hook, Subject

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """The certificates of a text, in their order; those that cannot be read are left out, as Go leaves them out."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - most configurations have none

    found: list[Certificate] = []
    for block in _PEM.findall(pem):
        try:
            found.append(load_pem_x509_certificate(block))
        except ValueError:
            continue
    return tuple(found)


def is_authority(certificate: Certificate) -> bool:
    """Whether a certificate may vouch for others. Those of version 1 do not say, and may."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, Version  # noqa: PLC0415

    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        return certificate.version is Version.v1
    except ValueError:
        return False


def bears_name(certificate: Certificate, name: str) -> bool:
    """Whether a certificate is for a DNS name. The common name, which Go does not look at, does not count."""
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName  # noqa: PLC0415

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, ValueError):
        return False
    first, _, rest = name.lower().partition(".")
    borne = {each.lower().rstrip(".") for each in names.get_values_for_type(DNSName)}
    return f"{first}.{rest}" in borne or f"*.{rest}" in borne


def is_signed_by(chain: Sequence[Certificate], roots: Iterable[Certificate]) -> bool:
    """Whether the first certificate of a chain leads to one of the roots, by way of the others or at once."""
    roots, reached = tuple(roots), list(chain[:1])
    others = set(chain[1:])
    while reached:
        one = reached.pop()
        if one in roots or any(is_authority(root) and _is_issued_by(one, root) for root in roots):
            return True
        issuers = [other for other in others if is_authority(other) and _is_issued_by(one, other)]
        others.difference_update(issuers)
        reached += issuers
    return False


def _is_issued_by(one: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415

    try:
        one.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def in_words(moment: dt.datetime) -> str:
    """A moment as Kubernetes writes it: ``2027-01-15T08:00:00Z``."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


SOON = 30 * 24 * 60 * 60
"""Seconds: a month, in which somebody can still be found who renews it."""
_PATH = ("clientConfig", "caBundle")


def _bundles(subject: Subject) -> Iterator[tuple[Hook, tuple[Certificate, ...]]]:
    for hook in subject.hooks:
        if bundle := hook.webhook.client_config.ca_bundle:
            yield hook, read_certificates(bundle)


def _unreadable(subject: Subject) -> Iterator[Breach]:
    for hook, certificates in _bundles(subject):
        if not certificates:
            yield hook.breach("holds no certificates in PEM: the webhook cannot be called", *_PATH)


UNREADABLE = Practice(
    rule="ca-bundle-unreadable",
    severity=Severity.ERROR,
    explanation="Without a certificate to trust, no call to the webhook succeeds.",
    fix="Put the PEM of the certificate authority into caBundle, base64-encoded once.",
    check=_unreadable,
)


def _longest_lived(subject: Subject) -> Iterator[tuple[Hook, Certificate]]:
    """For each webhook the certificate of its bundle that ends last: one that holds is enough."""
    for hook, certificates in _bundles(subject):
        if certificates:
            yield hook, max(certificates, key=lambda each: each.not_valid_after_utc)


def _expired(subject: Subject) -> Iterator[Breach]:
    for hook, last in _longest_lived(subject):
        end = last.not_valid_after_utc
        if end.timestamp() <= subject.now:
            yield hook.breach(f"expired at {in_words(end)}: the webhook cannot be called", *_PATH)
    for hook, certificates in _bundles(subject):
        begins = [each.not_valid_before_utc for each in certificates]
        if begins and min(begins).timestamp() > subject.now:
            text = f"holds from {in_words(min(begins))} on: until then the webhook cannot be called"
            yield hook.breach(text, *_PATH)


EXPIRED = Practice(
    rule="ca-bundle-expired",
    severity=Severity.ERROR,
    explanation="Outside the time for which it holds a certificate is not trusted, and every call fails.",
    fix="Renew the certificate authority, and put the new one into caBundle.",
    check=_expired,
)


def _expires_soon(subject: Subject) -> Iterator[Breach]:
    for hook, last in _longest_lived(subject):
        end = last.not_valid_after_utc
        if subject.now < end.timestamp() <= subject.now + SOON:
            yield hook.breach(f"expires at {in_words(end)}", *_PATH)


EXPIRES_SOON = Practice(
    rule="ca-bundle-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate authority expires, every call to the webhook fails.",
    fix="Put the next certificate authority into caBundle beside this one.",
    check=_expires_soon,
)


def _not_a_ca(subject: Subject) -> Iterator[Breach]:
    for hook, certificates in _bundles(subject):
        others = sum(not is_authority(each) for each in certificates)
        if others:
            yield hook.breach(f"{others} of {len(certificates)} certificates are of no authority", *_PATH)


NOT_A_CA = Practice(
    rule="ca-bundle-not-a-ca",
    severity=Severity.WARNING,
    explanation="The certificate of a server can vouch for none but itself, and must be replaced with it.",
    fix="Put the certificate of the authority that signs the server's into caBundle.",
    check=_not_a_ca,
)


_TYPE = "kubernetes.io/tls"


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """What a server shows: its certificate, and those of authorities that it sends along."""

    secret: str
    chain: tuple[Certificate, ...]

    @property
    def leaf(self) -> Certificate:
        return self.chain[0]

    def __str__(self) -> str:
        return f"the certificate of Secret {self.secret}"


def _shown(backend: Backend, subject: Subject) -> list[_Shown]:
    """The certificates that a server may show: those that its Pods mount, where those are known, else all there are."""
    found = []
    workloads = known_workloads(backend, subject.cluster)
    names = {
        name
        for each in workloads
        for kind, name in mounted(member(each, "spec", "template"))
        if kind == "Secret"
    }
    for secret in subject.cluster.list("", "secrets", backend.namespace):
        name = str(member(secret, "metadata", "name"))
        if secret.get("type") == _TYPE and (not workloads or name in names) and (chain := _chain(secret)):
            found.append(_Shown(f"{backend.namespace}/{name}", chain))
    return found


def _chain(secret: JSONObject) -> tuple[Certificate, ...]:
    written, encoded = member(secret, "stringData", "tls.crt"), member(secret, "data", "tls.crt")
    if isinstance(written, str):
        return read_certificates(written.encode())
    try:
        return read_certificates(decode_base64(encoded)) if isinstance(encoded, str) else ()
    except ValueError:
        return ()


def _fitting(subject: Subject) -> Iterator[tuple[Hook, str, list[_Shown], list[_Shown]]]:
    """For each webhook the name that its server goes by, all that it may show, and what of that bears the name."""
    for hook in subject.hooks:
        if hook.backend is not None and (shown := _shown(hook.backend, subject)):
            name = server_name(hook.webhook.client_config)
            yield hook, name, shown, [each for each in shown if bears_name(each.leaf, name)]


def _misnamed(subject: Subject) -> Iterator[Breach]:
    for hook, name, shown, fitting in _fitting(subject):
        if not fitting:
            text = f"{_all(shown)} {'are' if len(shown) > 1 else 'is'} not for {name}: the webhook cannot be called"
            yield hook.breach(text, "clientConfig")


def _all(shown: list[_Shown]) -> str:
    return " and ".join(map(str, shown))


MISNAMED = Practice(
    rule="serving-certificate-misnamed",
    severity=Severity.ERROR,
    explanation="The API server trusts a webhook only by a certificate whose alternative names hold its Service's.",
    fix="Issue the certificate for the DNS name <service>.<namespace>.svc; the common name does not count.",
    check=_misnamed,
)


def _untrusted(subject: Subject) -> Iterator[Breach]:
    for hook, _, _, fitting in _fitting(subject):
        bundle = hook.webhook.client_config.ca_bundle
        roots = read_certificates(bundle) if bundle else ()
        # Without a bundle the API server goes by what its own system trusts, which nobody knows here.
        if roots and fitting and not any(is_signed_by(each.chain, roots) for each in fitting):
            text = f"{_all(fitting)} is signed by none of these: the webhook cannot be called"
            yield hook.breach(text, "clientConfig", "caBundle")


UNTRUSTED = Practice(
    rule="serving-certificate-untrusted",
    severity=Severity.ERROR,
    explanation="A certificate that the authorities of caBundle have not signed ends every call to the webhook.",
    fix="Put the certificate authority that signed the server's certificate into caBundle, or renew the certificate.",
    check=_untrusted,
)


def _serving_longest_lived(subject: Subject) -> Iterator[tuple[Hook, _Shown]]:
    for hook, _, _, fitting in _fitting(subject):
        if fitting:
            yield hook, max(fitting, key=lambda each: each.leaf.not_valid_after_utc)


def _serving_expired(subject: Subject) -> Iterator[Breach]:
    for hook, last in _serving_longest_lived(subject):
        end = last.leaf.not_valid_after_utc
        if end.timestamp() <= subject.now:
            text = f"{last} expired at {in_words(end)}: the webhook cannot be called"
            yield hook.breach(text, "clientConfig")


SERVING_EXPIRED = Practice(
    rule="serving-certificate-expired",
    severity=Severity.ERROR,
    explanation="A certificate that has expired is not trusted, and every call to the webhook fails.",
    fix="Renew the certificate in the Secret, and see that the server reads it.",
    check=_serving_expired,
)


def _serving_expires_soon(subject: Subject) -> Iterator[Breach]:
    for hook, last in _serving_longest_lived(subject):
        end = last.leaf.not_valid_after_utc
        if subject.now < end.timestamp() <= subject.now + SOON:
            yield hook.breach(f"{last} expires at {in_words(end)}", "clientConfig")


SERVING_EXPIRES_SOON = Practice(
    rule="serving-certificate-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate of the server expires, every call to the webhook fails.",
    fix="Renew the certificate in the Secret, or see that what renews it is at work.",
    check=_serving_expires_soon,
)
