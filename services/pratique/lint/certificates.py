"""Rules about the certificates of webhooks: the authorities in caBundle, and the certificates that servers present.

Certificates are read as Go's crypto/x509 reads them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.patterns import pattern
from pratique.lint.outage_simulation import BackendService, known_workloads, mounted_sources, server_name
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_PEM = pattern(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Read the certificates of a PEM text, in order; Go skips unreadable ones, and so does this."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - most configurations have none

    found: list[Certificate] = []
    for block in _PEM.findall(pem):
        try:
            found.append(load_pem_x509_certificate(block))
        except ValueError:
            continue
    return tuple(found)


def is_authority(certificate: Certificate) -> bool:
    """Whether a certificate may sign others. Certificates of version 1 do not say, and may."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, Version  # noqa: PLC0415

    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        return certificate.version is Version.v1
    except ValueError:
        return False


def is_valid_for_name(certificate: Certificate, name: str) -> bool:
    """Whether a certificate is valid for a DNS name. Like Go, this ignores the common name."""
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName  # noqa: PLC0415

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, ValueError):
        return False
    first, _, rest = name.lower().partition(".")
    valid_names = {dns_name.lower().rstrip(".") for dns_name in names.get_values_for_type(DNSName)}
    return f"{first}.{rest}" in valid_names or f"*.{rest}" in valid_names


def is_signed_by(chain: Sequence[Certificate], roots: Iterable[Certificate]) -> bool:
    """Whether the first certificate of a chain is signed by one of the roots, directly or through the others."""
    roots, reached = tuple(roots), list(chain[:1])
    untried = set(chain[1:])
    while reached:
        certificate = reached.pop()
        if certificate in roots or any(
            is_authority(root) and _is_issued_by(certificate, root) for root in roots
        ):
            return True
        issuers = [
            issuer for issuer in untried if is_authority(issuer) and _is_issued_by(certificate, issuer)
        ]
        untried.difference_update(issuers)
        reached += issuers
    return False


def _is_issued_by(certificate: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415

    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def rfc3339(moment: dt.datetime) -> str:
    """Format a time as Kubernetes does: ``2027-01-15T08:00:00Z``."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


EXPIRY_WARNING_SECONDS = 30 * 24 * 60 * 60
"""How long before its end a certificate is reported: 30 days, enough for somebody to renew it."""
_CA_BUNDLE_PATH = ("clientConfig", "caBundle")


def _ca_bundles(context: LintContext) -> Iterator[tuple[ConfiguredWebhook, tuple[Certificate, ...]]]:
    for hook in context.hooks:
        if bundle := hook.webhook.client_config.ca_bundle:
            yield hook, read_certificates(bundle)


def _find_unreadable_bundles(context: LintContext) -> Iterator[Violation]:
    for hook, certificates in _ca_bundles(context):
        if not certificates:
            yield hook.violation(
                "holds no certificates in PEM: the webhook cannot be called", *_CA_BUNDLE_PATH
            )


UNREADABLE = LintRule(
    name="ca-bundle-unreadable",
    severity=Severity.ERROR,
    explanation="Without a certificate to trust, no call to the webhook succeeds.",
    fix="Put the PEM of the certificate authority into caBundle, base64-encoded once.",
    check=_find_unreadable_bundles,
)


def _last_to_expire(context: LintContext) -> Iterator[tuple[ConfiguredWebhook, Certificate]]:
    """Yield each webhook with the certificate of its bundle that expires last: one valid certificate is enough."""
    for hook, certificates in _ca_bundles(context):
        if certificates:
            yield hook, max(certificates, key=lambda certificate: certificate.not_valid_after_utc)


def _find_expired_bundles(context: LintContext) -> Iterator[Violation]:
    for hook, last in _last_to_expire(context):
        end = last.not_valid_after_utc
        if end.timestamp() <= context.now:
            yield hook.violation(f"expired at {rfc3339(end)}: the webhook cannot be called", *_CA_BUNDLE_PATH)
    for hook, certificates in _ca_bundles(context):
        begins = [certificate.not_valid_before_utc for certificate in certificates]
        if begins and min(begins).timestamp() > context.now:
            text = f"is not valid before {rfc3339(min(begins))}: until then the webhook cannot be called"
            yield hook.violation(text, *_CA_BUNDLE_PATH)


EXPIRED = LintRule(
    name="ca-bundle-expired",
    severity=Severity.ERROR,
    explanation="Outside its validity period a certificate is not trusted, and every call fails.",
    fix="Renew the certificate authority, and put the new one into caBundle.",
    check=_find_expired_bundles,
)


def _find_expiring_bundles(context: LintContext) -> Iterator[Violation]:
    for hook, last in _last_to_expire(context):
        end = last.not_valid_after_utc
        if context.now < end.timestamp() <= context.now + EXPIRY_WARNING_SECONDS:
            yield hook.violation(f"expires at {rfc3339(end)}", *_CA_BUNDLE_PATH)


EXPIRES_SOON = LintRule(
    name="ca-bundle-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate authority expires, every call to the webhook fails.",
    fix="Put the next certificate authority into caBundle beside this one.",
    check=_find_expiring_bundles,
)


def _find_non_authorities(context: LintContext) -> Iterator[Violation]:
    for hook, certificates in _ca_bundles(context):
        others = sum(not is_authority(certificate) for certificate in certificates)
        if others:
            yield hook.violation(
                f"{others} of {len(certificates)} certificates are not CA certificates", *_CA_BUNDLE_PATH
            )


NOT_A_CA = LintRule(
    name="ca-bundle-not-a-ca",
    severity=Severity.WARNING,
    explanation="A server's own certificate cannot sign others, and changes with every renewal.",
    fix="Put the certificate of the authority that signs the server's into caBundle.",
    check=_find_non_authorities,
)


_TLS_SECRET_TYPE = "kubernetes.io/tls"  # noqa: S105 - the name of a type


class _ServingCertificate(msgspec.Struct, frozen=True):
    """A certificate chain that a server presents: its own certificate, then those of the authorities."""

    secret: str
    chain: tuple[Certificate, ...]

    @property
    def leaf(self) -> Certificate:
        return self.chain[0]

    def __str__(self) -> str:
        return f"the certificate of Secret {self.secret}"


def _serving_certificates(backend: BackendService, context: LintContext) -> list[_ServingCertificate]:
    """Find the chains that a server may present.

    These are the TLS Secrets that its Pods mount, or all of its namespace if its workload is unknown.
    """
    found = []
    workloads = known_workloads(backend, context.cluster)
    names = {
        name
        for workload in workloads
        for kind, name in mounted_sources(member(workload, "spec", "template"))
        if kind == "Secret"
    }
    for secret in context.cluster.list("", "secrets", backend.namespace):
        name = str(member(secret, "metadata", "name"))
        if (
            secret.get("type") == _TLS_SECRET_TYPE
            and (not workloads or name in names)
            and (chain := _certificate_chain(secret))
        ):
            found.append(_ServingCertificate(f"{backend.namespace}/{name}", chain))
    return found


def _certificate_chain(secret: JSONObject) -> tuple[Certificate, ...]:
    written, encoded = member(secret, "stringData", "tls.crt"), member(secret, "data", "tls.crt")
    if isinstance(written, str):
        return read_certificates(written.encode())
    try:
        return read_certificates(decode_base64(encoded)) if isinstance(encoded, str) else ()
    except ValueError:
        return ()


def _matching_certificates(
    context: LintContext,
) -> Iterator[tuple[ConfiguredWebhook, str, list[_ServingCertificate], list[_ServingCertificate]]]:
    """Yield each webhook with its server's name, all chains it may present, and those valid for the name."""
    for hook in context.hooks:
        if hook.backend is not None and (shown := _serving_certificates(hook.backend, context)):
            name = server_name(hook.webhook.client_config)
            yield (
                hook,
                name,
                shown,
                [certificate for certificate in shown if is_valid_for_name(certificate.leaf, name)],
            )


def _find_misnamed_certificates(context: LintContext) -> Iterator[Violation]:
    for hook, name, shown, fitting in _matching_certificates(context):
        if not fitting:
            text = f"{_listed(shown)} {'are' if len(shown) > 1 else 'is'} not for {name}: the webhook cannot be called"
            yield hook.violation(text, "clientConfig")


def _listed(shown: list[_ServingCertificate]) -> str:
    return " and ".join(map(str, shown))


MISNAMED = LintRule(
    name="serving-certificate-misnamed",
    severity=Severity.ERROR,
    explanation="The API server trusts a webhook only if its certificate's alternative names include its Service's.",
    fix="Issue the certificate for the DNS name <service>.<namespace>.svc; the common name does not count.",
    check=_find_misnamed_certificates,
)


def _find_untrusted_certificates(context: LintContext) -> Iterator[Violation]:
    for hook, _, _, fitting in _matching_certificates(context):
        bundle = hook.webhook.client_config.ca_bundle
        roots = read_certificates(bundle) if bundle else ()
        # Without a bundle the API server trusts the roots of its own system, which are not known here.
        if roots and fitting and not any(is_signed_by(certificate.chain, roots) for certificate in fitting):
            text = f"{_listed(fitting)} is signed by none of these: the webhook cannot be called"
            yield hook.violation(text, "clientConfig", "caBundle")


UNTRUSTED = LintRule(
    name="serving-certificate-untrusted",
    severity=Severity.ERROR,
    explanation="If no authority in caBundle has signed the server's certificate, every call to the webhook fails.",
    fix="Put the certificate authority that signed the server's certificate into caBundle, or renew the certificate.",
    check=_find_untrusted_certificates,
)


def _last_serving_to_expire(context: LintContext) -> Iterator[tuple[ConfiguredWebhook, _ServingCertificate]]:
    for hook, _, _, fitting in _matching_certificates(context):
        if fitting:
            yield hook, max(fitting, key=lambda certificate: certificate.leaf.not_valid_after_utc)


def _find_expired_certificates(context: LintContext) -> Iterator[Violation]:
    for hook, last in _last_serving_to_expire(context):
        end = last.leaf.not_valid_after_utc
        if end.timestamp() <= context.now:
            text = f"{last} expired at {rfc3339(end)}: the webhook cannot be called"
            yield hook.violation(text, "clientConfig")


SERVING_EXPIRED = LintRule(
    name="serving-certificate-expired",
    severity=Severity.ERROR,
    explanation="A certificate that has expired is not trusted, and every call to the webhook fails.",
    fix="Renew the certificate in the Secret, and make sure that the server loads it.",
    check=_find_expired_certificates,
)


def _find_expiring_certificates(context: LintContext) -> Iterator[Violation]:
    for hook, last in _last_serving_to_expire(context):
        end = last.leaf.not_valid_after_utc
        if context.now < end.timestamp() <= context.now + EXPIRY_WARNING_SECONDS:
            yield hook.violation(f"{last} expires at {rfc3339(end)}", "clientConfig")


SERVING_EXPIRES_SOON = LintRule(
    name="serving-certificate-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate of the server expires, every call to the webhook fails.",
    fix="Renew the certificate in the Secret, or make sure that its automatic renewal works.",
    check=_find_expiring_certificates,
)
