"""Practices about the certificates that webhooks are trusted by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices.certificate_chains import in_words, is_authority, read_certificates
from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.x509 import Certificate

    from pratique.practices.subjects import Hook, Subject

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
