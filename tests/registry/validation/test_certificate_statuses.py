# ruff: noqa: ISC004 - messages are longer than lines
"""What signers and approvers answer requests for certificates, in the words of a real kube-apiserver."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from pratique.apimachinery.json_values import JSONObject
from support.manifest_decisions import decide_manifest

KEY, OTHER = (ed25519.Ed25519PrivateKey.from_private_bytes(letter * 32) for letter in (b"k", b"j"))
PAST = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
SIGNED = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(KEY, None)


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def certificate(
    key: ed25519.Ed25519PrivateKey = KEY,
    lifetime: dt.timedelta = HOUR,
    start: dt.datetime = PAST,
    names: Sequence[x509.GeneralName] = (),
) -> str:
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([]))
    builder = builder.serial_number(7).not_valid_before(start).not_valid_after(start + lifetime)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.public_key(key.public_key()).sign(OTHER, None).public_bytes(PEM).decode()


def pem(kind: str, body: str = "AAE=\n") -> str:
    return f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n"


def problems(old: JSONObject, status: JSONObject, subresource: str = "status") -> str:
    """Why an update of a status is refused; empty if it is not."""
    decision = decide_manifest({**old, "status": status}, old=old, subresource=subresource)
    return "" if decision.status is None else decision.status.message.partition(" is invalid: ")[2]


# CertificateSigningRequests

REQUEST: JSONObject = {
    "apiVersion": "certificates.k8s.io/v1",
    "kind": "CertificateSigningRequest",
    "metadata": {"name": "a"},
    "spec": {
        "request": encoded(SIGNED.public_bytes(PEM)),
        "signerName": "example.com/s",
        "usages": ["client auth"],
    },
}
APPROVED, DENIED = ({"type": type_, "status": "True"} for type_ in ("Approved", "Denied"))
ISSUED = {"conditions": [APPROVED], "certificate": encoded(certificate().encode())}
NO_APPROVAL = 'status.conditions: Forbidden: updates may not add a condition of type "Approved"'


@pytest.mark.parametrize(
    ("subresource", "before", "status", "errors"),
    [
        ("approval", {}, {"conditions": [APPROVED]}, ""),
        ("status", {}, {"conditions": [APPROVED]}, NO_APPROVAL),
        ("status", {"conditions": [APPROVED]}, ISSUED, ""),
        ("approval", {"conditions": [APPROVED]}, ISSUED, ""),
        ("approval", {"conditions": [APPROVED]}, {"conditions": [DENIED]},
         'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'),
        ("approval", {}, {"conditions": [{"type": "Denied", "status": "False"}]},
         'status.conditions[0].status: Unsupported value: "False": supported values: "True"'),
        ("approval", {}, {"conditions": [{}, {"type": "A", "status": "no"}]},
         "[status.conditions[0].type: Required value, status.conditions[0].status: Required value,"
         ' status.conditions[1].status: Unsupported value: "no": supported values: "False", "True", "Unknown"]'),
        ("approval", {"conditions": [APPROVED, DENIED]}, {"conditions": [APPROVED, DENIED, APPROVED]},
         'status.conditions[2].type: Duplicate value: "Approved"'),
        ("status", ISSUED, {**ISSUED, "certificate": encoded(certificate(OTHER).encode())},
         "status.certificate: Forbidden: updates may not modify existing certificate content"),
        ("status", {}, {"certificate": encoded(pem("A").encode())},
         'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "A"'),
        ("status", {}, {"certificate": encoded(pem("CERTIFICATE").encode())},
         'status.certificate: Invalid value: "<certificate data>": x509: malformed certificate'),
        ("status", {}, {"certificate": encoded(pem("CERTIFICATE", "").encode())},
         'status.certificate: Invalid value: "<certificate data>": found CERTIFICATE PEM block containing 0'
         " certificates"),
        ("status", {}, {"certificate": encoded(b"none")},
         'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'),
        ("status", {"certificate": encoded(b"none")}, {"certificate": encoded(b"none"), "conditions": []}, ""),
    ],
)  # fmt: skip
def test_an_answer_to_a_signing_request_is_held_against_its_rules(
    subresource: str, before: JSONObject, status: JSONObject, errors: str
) -> None:
    assert problems({**REQUEST, "status": before}, status, subresource) == errors


# PodCertificateRequests

POD_REQUEST: JSONObject = {
    "apiVersion": "certificates.k8s.io/v1",
    "kind": "PodCertificateRequest",
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {
        "signerName": "example.com/s",
        **{f"{owner}{what}": "x" for owner in ("pod", "serviceAccount", "node") for what in ("Name", "UID")},
        "maxExpirationSeconds": 3600,
        "stubPKCS10Request": encoded(SIGNED.public_bytes(DER)),
    },
}
INVALID_CHAIN = "status.certificateChain: Invalid value: "


def told(time: dt.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(type_: str, **status: Any) -> JSONObject:
    condition = {
        "type": type_,
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": told(PAST),
    }
    return {"conditions": [condition], **status}


def issued(
    rest: str = "",
    *,
    chain: str | None = None,
    key: ed25519.Ed25519PrivateKey = KEY,
    lifetime: dt.timedelta = HOUR,
    age: dt.timedelta = dt.timedelta(),
    names: Sequence[x509.GeneralName] = (),
    **others: Any,
) -> JSONObject:
    """A status with a certificate that begins now, or was issued some time ago."""
    start = dt.datetime.now(dt.UTC).replace(microsecond=0) - age
    leaf = certificate(key, lifetime, start, names) if chain is None else chain
    times = {"notBefore": start, "notAfter": start + lifetime, "beginRefreshAt": start + HOUR / 2}
    status = {"certificateChain": leaf + rest, **{name: told(time) for name, time in times.items()}, **others}
    return ended("Issued", **{name: value for name, value in status.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, ""),
        ({"rest": certificate(OTHER)}, ""),
        ({"chain": ""}, INVALID_CHAIN + '"": issued certificate chain must contain at least one certificate'),
        ({"chain": "a" * 102_401}, "status.certificateChain: Too long: may not be more than 102400 bytes"),
        ({"key": OTHER}, "leaf certificate was not issued to the requested public key"),
        ({"chain": pem("A")}, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"),
        ({"rest": pem("A")}, "issued certificate chain must consist entirely of CERTFICATE PEM blocks"),
        ({"chain": pem("CERTIFICATE")}, "leaf certificate does not parse as valid X.509"),
        ({"rest": pem("CERTIFICATE")}, "intermediate certificate does not parse as valid X.509"),
        ({"names": [x509.DNSName("a..b"), x509.RFC822Name("x")], "notAfter": None},
         f"[{INVALID_CHAIN}\"a..b\": leaf certificate's DNSName should not contain '..', "
         f'{INVALID_CHAIN}"x": leaf certificate should not contain invalid EmailAddress, '
         "status.notAfter: Required value: must be present and consistent with the issued certificate]"),
        ({"notBefore": told(PAST)}, f'status.notBefore: Invalid value: "{told(PAST)}": must be set to the NotBefore'
                                    " time encoded in the leaf certificate"),
        ({"age": HOUR}, "must be set to within 5 minutes of kube-apiserver's current time"),
        ({"lifetime": HOUR / 2}, INVALID_CHAIN + "1800000000000: leaf certificate lifetime must be >= 1 hour"),
        ({"lifetime": 2 * HOUR},
         INVALID_CHAIN + "7200000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (3600)"),
        ({"beginRefreshAt": told(PAST)}, f'status.beginRefreshAt: Invalid value: "{told(PAST)}": must be at least 10'
                                         " minutes after status.notBefore"),
    ],
)  # fmt: skip
def test_a_certificate_for_a_kubelet_is_held_against_its_request(changes: Any, errors: str) -> None:
    found = problems(POD_REQUEST, issued(**changes))
    assert found.endswith(errors)
    assert bool(found) == bool(errors)


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        (ended("Denied"), ""),
        ({}, ""),
        ({"notBefore": told(PAST)},
         'status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"'),
        (ended("Failed", notBefore=told(PAST)),
         "status: Invalid value: non-condition status fields must be empty when denying or failing the"
         " PodCertificateRequest"),
        ({"conditions": ended("Issued")["conditions"] + ended("Denied")["conditions"] + ended("A")["conditions"]},
         '[status.conditions.[1].type: Invalid value: "Denied": There may be at most one condition with type "Issued",'
         ' "Denied", or "Failed", status.conditions.[2].type: Unsupported value: "A": supported values: "Issued",'
         ' "Denied", "Failed"]'),
    ],
)  # fmt: skip
def test_a_request_of_a_kubelet_ends_in_one_way(status: JSONObject, errors: str) -> None:
    assert problems(POD_REQUEST, status) == errors


def test_an_answer_to_a_kubelet_never_changes() -> None:
    denied = {**POD_REQUEST, "status": ended("Denied")}
    assert problems(denied, ended("Denied")) == ""
    assert problems(denied, ended("Failed")) == (
        "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"
    )
