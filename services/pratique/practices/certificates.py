"""Practices about the certificates that webhooks are known by.

Only what OpenSSL tells by way of ``ssl`` is looked at: of certificates of authorities, until when they hold.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pratique.practices.definitions import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.practices.subjects import Hook, Subject

SOON = 30 * 24 * 60 * 60
"""Seconds: a month, in which somebody can still be found who renews it."""
_PATH = ("clientConfig", "caBundle")


def _contexts(subject: Subject) -> Iterator[tuple[Hook, ssl.SSLContext]]:
    for hook in subject.hooks:
        bundle = hook.webhook.client_config.ca_bundle
        context = _context(bundle) if bundle else None
        if context is not None:
            yield hook, context


def _context(bundle: bytes) -> ssl.SSLContext | None:
    """The certificates of a bundle; None where they cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=bundle.decode())
    except (ssl.SSLError, ValueError):
        return None
    return context


def _last_ends(subject: Subject) -> Iterator[tuple[Hook, str, float]]:
    """For each webhook, until when the longest-lived authority of its bundle holds, in text and in seconds."""
    for hook, context in _contexts(subject):
        ends = [str(one["notAfter"]) for one in context.get_ca_certs()]
        if ends:
            last = max(ends, key=ssl.cert_time_to_seconds)
            yield hook, last, ssl.cert_time_to_seconds(last)


def _unreadable(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        bundle = hook.webhook.client_config.ca_bundle
        if bundle and _context(bundle) is None:
            yield hook.breach("holds no certificates in PEM: the webhook cannot be called", *_PATH)


UNREADABLE = Practice(
    rule="ca-bundle-unreadable",
    severity=Severity.ERROR,
    explanation="Without a certificate to trust, no call to the webhook succeeds.",
    fix="Put the PEM of the certificate authority into caBundle, base64-encoded once.",
    check=_unreadable,
)


def _expired(subject: Subject) -> Iterator[Breach]:
    for hook, text, end in _last_ends(subject):
        if end <= subject.now:
            yield hook.breach(f"expired at {text}: the webhook cannot be called", *_PATH)


EXPIRED = Practice(
    rule="ca-bundle-expired",
    severity=Severity.ERROR,
    explanation="A certificate that has expired is not trusted, and every call to the webhook fails.",
    fix="Renew the certificate authority, and put the new one into caBundle.",
    check=_expired,
)


def _expires_soon(subject: Subject) -> Iterator[Breach]:
    for hook, text, end in _last_ends(subject):
        if subject.now < end <= subject.now + SOON:
            yield hook.breach(f"expires at {text}", *_PATH)


EXPIRES_SOON = Practice(
    rule="ca-bundle-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate authority expires, every call to the webhook fails.",
    fix="Put the next certificate authority into caBundle beside this one.",
    check=_expires_soon,
)


def _not_a_ca(subject: Subject) -> Iterator[Breach]:
    for hook, context in _contexts(subject):
        stats = context.cert_store_stats()
        if stats["x509_ca"] < stats["x509"]:
            text = f"{stats['x509'] - stats['x509_ca']} of {stats['x509']} certificates are of no authority"
            yield hook.breach(text, *_PATH)


NOT_A_CA = Practice(
    rule="ca-bundle-not-a-ca",
    severity=Severity.WARNING,
    explanation="The certificate of a server can vouch for none but itself, and must be replaced with it.",
    fix="Put the certificate of the authority that signs the server's into caBundle.",
    check=_not_a_ca,
)
