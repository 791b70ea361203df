# ruff: noqa: ISC004 - messages are longer than lines
"""The validation of PodCertificateRequests, and of the pairs of certificates and keys in Secrets."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
UNPROVED = "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def public(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return encoded(key.public_key().public_bytes(serialization.Encoding.DER, form))


def request(version: str = "v1beta1", **changes: Any) -> JSONObject:
    spec = {
        "signerName": "a.b/c",
        "podName": "p",
        "podUID": "u",
        "serviceAccountName": "s",
        "serviceAccountUID": "v",
        "nodeName": "n",
        "nodeUID": "w",
        "maxExpirationSeconds": 3600,
        "pkixPublicKey": public(KEY),
        "proofOfPossession": encoded(KEY.sign(b"u")),
        **changes,
    }
    written = {name: value for name, value in spec.items() if value is not None}
    return {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "PodCertificateRequest",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": written,
    }


def stub(key: Any) -> str:
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, algorithm)
    return encoded(signed.public_bytes(serialization.Encoding.DER))


def stubbed(stub: str) -> JSONObject:
    return request("v1", stubPKCS10Request=stub, pkixPublicKey=None, proofOfPossession=None)


WEAK = ec.generate_private_key(ec.SECP224R1())
STRONG = ec.generate_private_key(ec.SECP256R1())
RANGE = "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"
ONE_WAY = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (request(), []),
        (request(proofOfPossession=encoded(KEY.sign(b"other"))), [UNPROVED]),
        (request(pkixPublicKey="AAE="), ['spec.pkixPublicKey: Invalid value: "AAE=": must be a valid PKIX-serialized '
                                         "public key"]),
        (request(pkixPublicKey=public(WEAK)), ['spec.pkixPublicKey: Invalid value: "curve P-224": elliptic public keys '
                                               "must use curve P256 or P384"]),
        (request(pkixPublicKey=public(STRONG),
                 proofOfPossession=encoded(STRONG.sign(b"u", ec.ECDSA(hashes.SHA256())))), []),
        (request(pkixPublicKey=None), [ONE_WAY]),
        (request(signerName="a.kubernetes.io/c", maxExpirationSeconds=86401), [RANGE]),
        (request(podUID="", proofOfPossession=encoded(KEY.sign(b""))), ['spec.podUID: Invalid value: "": must not be '
                                                                        "empty"]),
        (request(unverifiedUserAnnotations={"a": "b"}), [
            'spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as '
            '"acme.io/foo")']),
        (stubbed(stub(KEY)), []),
        (stubbed(stub(WEAK)), ['spec.stubPKCS10Request: Invalid value: "curve P-224": elliptic public keys must use '
                               "curve P256, P384, or P521"]),
        (stubbed("AAE="), ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"]),
        (stubbed(stub(KEY)[:-4] + "AAA="), ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"]),
    ],
)  # fmt: skip
def test_a_request_for_a_pod_proves_that_it_has_the_key(written: JSONObject, expected: list[str]) -> None:
    assert causes(written) == expected


def test_what_a_request_for_a_pod_asks_for_never_changes() -> None:
    (found,) = causes(
        {**stubbed(stub(KEY)), "spec": {**stubbed(stub(KEY))["spec"], "podName": "q"}}, stubbed(stub(KEY))
    )
    assert found.startswith('spec: Invalid value: {"SignerName":"a.b/c","PodName":"q"')
    assert found.endswith(": field is immutable")


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\nAAE=\n-----END {kind}-----\n"


@pytest.mark.parametrize(
    ("certificate", "key", "warning"),
    [
        ("", "", "failed to find any PEM data in certificate input"),
        (pem("RSA PRIVATE KEY"), "", "failed to find certificate PEM data in certificate input, but did find a private "
                                     "key; PEM inputs may have been switched"),
        (pem("A") + pem("B"), "", 'failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
                                  "blocks of the following types: [A B]"),
        (pem("CERTIFICATE"), "", "failed to find any PEM data in key input"),
        (pem("CERTIFICATE"), pem("CERTIFICATE"), "found a certificate rather than a key in the PEM for the private "
                                                 "key"),
    ],
)  # fmt: skip
def test_a_secret_for_tls_warns_of_what_is_no_pair(certificate: str, key: str, warning: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": "b"},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": certificate, "tls.key": key},
    }
    assert causes(secret) == [f"warning: tls: {warning}"]


def self_signed(key: Any) -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, LONG_AGO, LONG_AGO)
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM).decode()


def private(key: Any, form: str = "PKCS8", *, password: bytes = b"", block: str = "") -> str:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    written: bytes = key.private_bytes(
        serialization.Encoding.PEM, getattr(serialization.PrivateFormat, form), protection
    )
    text = written.decode()
    kind = text.partition("-----BEGIN ")[2].partition("-----")[0]
    return text.replace(kind, block) if block else text


LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
CURVE = ec.derive_private_key(7, ec.SECP256R1())
SHORT = rsa.generate_private_key(65537, 1024)
ANOTHER_TYPE = ["warning: tls: private key type does not match public key type"]
ANOTHER_KEY = ["warning: tls: private key does not match public key"]


@pytest.mark.parametrize(
    ("certificate", "key", "warnings"),
    [
        (KEY, private(KEY), []),
        (CURVE, private(CURVE), []),
        (CURVE, private(CURVE, "TraditionalOpenSSL"), []),
        (CURVE, private(CURVE, block="RSA PRIVATE KEY"), []),
        (SHORT, private(SHORT, "TraditionalOpenSSL", block="PRIVATE KEY"), []),
        (CURVE, private(ec.derive_private_key(8, ec.SECP256R1())), ANOTHER_KEY),
        (CURVE, private(ec.derive_private_key(8, ec.SECP256R1()), block="RSA PRIVATE KEY"), ANOTHER_KEY),
        (CURVE, private(ec.derive_private_key(8, ec.SECP384R1())), ANOTHER_KEY),
        (CURVE, private(KEY), ANOTHER_TYPE),
        (KEY, private(SHORT, "TraditionalOpenSSL"), ANOTHER_TYPE),
        (CURVE, private(KEY, password=b"p"), []),
    ],
)
def test_the_pair_of_a_secret_is_compared(certificate: Any, key: str, warnings: list[str]) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": "b"},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": self_signed(certificate), "tls.key": key},
    }
    assert causes(secret) == warnings
