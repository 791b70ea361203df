"""Practices about the certificates that servers of webhooks show, where the cluster holds them in Secrets."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.base64_values import decode_base64
from pratique.json_values import member
from pratique.practices.backends import server_name
from pratique.practices.certificate_chains import bears_name, in_words, is_signed_by, read_certificates
from pratique.practices.certificates import SOON
from pratique.practices.definitions import Breach, Practice, Severity
from pratique.practices.start_objects import mounted
from pratique.practices.starts import known_workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.x509 import Certificate

    from pratique.json_values import JSONObject
    from pratique.practices.backends import Backend
    from pratique.practices.subjects import Hook, Subject

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


def _longest_lived(subject: Subject) -> Iterator[tuple[Hook, _Shown]]:
    for hook, _, _, fitting in _fitting(subject):
        if fitting:
            yield hook, max(fitting, key=lambda each: each.leaf.not_valid_after_utc)


def _expired(subject: Subject) -> Iterator[Breach]:
    for hook, last in _longest_lived(subject):
        end = last.leaf.not_valid_after_utc
        if end.timestamp() <= subject.now:
            text = f"{last} expired at {in_words(end)}: the webhook cannot be called"
            yield hook.breach(text, "clientConfig")


EXPIRED = Practice(
    rule="serving-certificate-expired",
    severity=Severity.ERROR,
    explanation="A certificate that has expired is not trusted, and every call to the webhook fails.",
    fix="Renew the certificate in the Secret, and see that the server reads it.",
    check=_expired,
)


def _expires_soon(subject: Subject) -> Iterator[Breach]:
    for hook, last in _longest_lived(subject):
        end = last.leaf.not_valid_after_utc
        if subject.now < end.timestamp() <= subject.now + SOON:
            yield hook.breach(f"{last} expires at {in_words(end)}", "clientConfig")


EXPIRES_SOON = Practice(
    rule="serving-certificate-expires-soon",
    severity=Severity.WARNING,
    explanation="Once the certificate of the server expires, every call to the webhook fails.",
    fix="Renew the certificate in the Secret, or see that what renews it is at work.",
    check=_expires_soon,
)
