from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa

from pratique.apimachinery.errors import InputError
from pratique.images.signatures import (
    ImageSignature,
    UnusableSignatureError,
    load_public_key,
    read_bundle,
    read_simple_signing,
)
from support.image_registries import KINDS, SIGNING, bundle, payload, signer, statement

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_verifies_what_it_has_signed_and_nothing_else(kind: str) -> None:
    made = signer(kind)
    signature = made.sign(b"content")
    assert made.public.verifies(signature, b"content")
    assert not made.public.verifies(signature, b"contend")
    assert not made.public.verifies(signature[:-1], b"content")
    assert not made.public.verifies(b"", b"content")
    assert not signer(kind, "another").public.verifies(signature, b"content")


def private_pem() -> bytes:
    return signer().private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.mark.parametrize(
    ("pem", "reason"),
    [
        (b"", "expected one public key"),
        (b"ssh-ed25519 AAAA", "expected one public key"),
        (b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n", "is not a public key"),
        (private_pem(), "is a private key"),
        (signer().pem * 2, "expected one public key"),
        (public_pem(rsa.generate_private_key(65537, 1024)), "expected a key of"),
        (public_pem(ec.generate_private_key(ec.SECP256K1())), "expected a key of"),
        (public_pem(dsa.generate_private_key(1024)), "expected a key of"),
    ],
    ids=["nothing", "ssh", "garbage", "private", "two", "short RSA", "another curve", "DSA"],
)
def test_what_is_not_an_accepted_key_is_refused(pem: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^cosign.pub: {reason}"):
        load_public_key(pem, "cosign.pub")


def test_a_payload_says_which_image_is_signed() -> None:
    claims = ImageSignature(
        b"", b"", payload(DIGEST, reference="r.example.com/web", env="prod", count=3), is_bundle=False
    ).claims()
    assert claims.digests == {DIGEST}
    assert claims.reference == "r.example.com/web"
    assert claims.annotations == {"env": "prod"}


def test_a_bundle_says_which_image_is_signed() -> None:
    made = signer()
    signature = read_bundle(bundle(statement(DIGEST, annotations={"env": "prod"}), made))
    assert signature.signers([made.public, signer(name="another").public]) == {made.public}
    assert signature.claims().digests == {DIGEST}
    assert signature.claims().annotations == {"env": "prod"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        payload(DIGEST, kind="atomic container signature"),
        payload(DIGEST).replace(b"docker-manifest-digest", b"digest").replace(b'"type"', b'"kind"'),
    ],
)
def test_a_payload_that_is_no_signature_of_an_image_is_of_no_use(content: bytes) -> None:
    with pytest.raises(UnusableSignatureError):
        read_simple_signing(content, "c2ln").claims()


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[" * 100_000,
        bundle(statement(DIGEST), signer()).replace(b"v0.3", b"v0.9"),
        bundle(statement(DIGEST), signer(), payload_type="text/plain"),
        bundle(statement(DIGEST, predicate="https://slsa.dev/provenance/v1"), signer()),
        bundle(b"{}", signer()),
        json.dumps(
            {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "messageSignature": {}}
        ).encode(),
    ],
)
def test_a_bundle_that_is_no_signature_of_an_image_is_of_no_use(content: bytes) -> None:
    with pytest.raises(UnusableSignatureError):
        read_bundle(content).claims()


def test_an_envelope_is_signed_with_its_type() -> None:
    made = signer()
    document = json.loads(bundle(statement(DIGEST), made, payload_type="text/plain"))
    document["dsseEnvelope"]["payloadType"] = "application/vnd.in-toto+json"
    assert not read_bundle(json.dumps(document).encode()).signers([made.public])


@pytest.mark.parametrize("encoded", ["", "!", "a", "c2ln" * 4096])
def test_what_is_not_base64_signs_nothing(encoded: str) -> None:
    made = signer()
    try:
        signers = read_simple_signing(payload(DIGEST), encoded).signers([made.public])
    except UnusableSignatureError:
        return
    assert not signers


@pytest.mark.parametrize("count", [0, 2, 50_000])
def test_an_envelope_has_one_signature(count: int) -> None:
    document = json.loads(bundle(statement(DIGEST), signer()))
    document["dsseEnvelope"]["signatures"] *= count
    with pytest.raises(UnusableSignatureError, match="not exactly one signature"):
        read_bundle(json.dumps(document).encode())


def test_a_statement_with_several_images_has_no_annotations_for_all() -> None:
    document = json.loads(statement(DIGEST, annotations={"env": "prod"}))
    document["subject"].append({"digest": {"sha256": "b" * 64}})
    claims = read_bundle(bundle(json.dumps(document).encode(), signer())).claims()
    assert len(claims.digests) == 2
    assert not claims.annotations
    assert document["predicateType"] == SIGNING
