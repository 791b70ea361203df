"""Signatures of images as cosign makes them, and the public keys that verify them.

There are two formats. Both sign a statement that names the image's digest, and neither says which key signed.

- A *simple signing* payload (``specs/SIGNATURE_SPEC.md`` of sigstore/cosign), signed as it is.
- A *bundle* (``specs/BUNDLE_SPEC.md``, ``sigstore_bundle.proto``): a DSSE envelope with an in-toto statement, signed
  with its type by DSSE's pre-authentication encoding.

Everything here comes from a registry, so nothing counts before its signature is verified.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.prepared_types import prepared

SIMPLE_SIGNING_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
"""The media type of a payload."""
BUNDLE_TYPES = frozenset(
    {"application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.sigstore.bundle+json;version=0.3"}
)
"""The media types of a bundle: the second is how early programs wrote it."""
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
"""The predicate of a statement that signs. Others attest something else, which need not be in the image's favour."""

_SIGNATURE_KIND = "cosign container image signature"
_STATEMENT_KIND = "https://in-toto.io/Statement/v1"
_STATEMENT_TYPE = "application/vnd.in-toto+json"
_MIN_RSA_BITS = 2048
_MAX_SIGNATURE = 8 * 1024
"""Characters of an encoded signature; one of RSA with 16,384 bits has 2,732."""

_CurveHashes: TypeAlias = Mapping[str, tuple[hashes.HashAlgorithm, ...]]
_HASHES_OF_CURVES: _CurveHashes = {
    "secp256r1": (hashes.SHA256(),),
    "secp384r1": (hashes.SHA256(), hashes.SHA384()),
    "secp521r1": (hashes.SHA256(), hashes.SHA512()),
}
"""The hashes that cosign uses with a curve: SHA-256 for payloads, and in bundles the one that fits the curve."""

_Key: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey


class UnusableSignatureError(PratiqueError):
    """What a registry holds as a signature cannot be one. The text says why, and quotes nothing of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures."""

    name: str = dataclasses.field(compare=False)
    """Where it came from, for messages."""
    fingerprint: str
    """The SHA-256 digest of the key, in hexadecimal: equal keys have equal ones."""
    _key: _Key = dataclasses.field(compare=False, repr=False)

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Whether ``signature`` is this key's signature of ``content``."""
        try:
            match self._key:
                case ec.EllipticCurvePublicKey():
                    return any(
                        self._verifies_ecdsa(signature, content, digest)
                        for digest in _HASHES_OF_CURVES[self._key.curve.name]
                    )
                case rsa.RSAPublicKey():
                    self._key.verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
                case ed25519.Ed25519PublicKey():
                    self._key.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def _verifies_ecdsa(self, signature: bytes, content: bytes, digest: hashes.HashAlgorithm) -> bool:
        assert isinstance(self._key, ec.EllipticCurvePublicKey)  # noqa: S101 - for the type checker
        try:
            self._key.verify(signature, content, ec.ECDSA(digest))
        except InvalidSignature:
            return False
        return True


def load_public_key(pem: bytes, name: str) -> PublicKey:
    """Load a public key in PEM, as cosign writes it to ``cosign.pub``.

    Raises:
        InputError: it is none, or of a kind or size that is not accepted.
    """
    if b"PRIVATE KEY-----" in pem:
        raise InputError(f"{name}: is a private key; give the public one, such as cosign.pub")
    if pem.count(b"-----BEGIN ") != 1:
        raise InputError(
            f"{name}: expected one public key in PEM, which begins with -----BEGIN PUBLIC KEY-----"
        )
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{name}: is not a public key in PEM") from None
    match key:
        case ec.EllipticCurvePublicKey() if key.curve.name in _HASHES_OF_CURVES:
            return _public_key(name, key)
        case rsa.RSAPublicKey() if key.key_size >= _MIN_RSA_BITS:
            return _public_key(name, key)
        case ed25519.Ed25519PublicKey():
            return _public_key(name, key)
    raise InputError(
        f"{name}: expected a key of ECDSA with P-256, P-384 or P-521, of RSA with {_MIN_RSA_BITS} bits or more, "
        "or of Ed25519"
    )


def _public_key(name: str, key: _Key) -> PublicKey:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return PublicKey(
        name, hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest(), key
    )


class SignedClaims(msgspec.Struct, frozen=True):
    """What a signature says of an image."""

    digests: frozenset[str]
    """The digests of what is signed."""
    reference: str
    """The repository that the signer had in mind; empty if the format has none."""
    annotations: Mapping[str, str]
    """What the signer added. Values that are not strings are left out."""


class ImageSignature(msgspec.Struct, frozen=True):
    """A signature that has been read, and not been verified yet."""

    signature: bytes
    signed: bytes
    """The bytes that it signs."""
    payload: bytes
    """The statement in them."""
    is_bundle: bool

    def signers(self, keys: Sequence[PublicKey]) -> frozenset[PublicKey]:
        """Which of the keys have signed."""
        return frozenset(key for key in keys if key.verifies(self.signature, self.signed))

    def claims(self) -> SignedClaims:
        """What is signed. Call it only if a key has signed it.

        Raises:
            UnusableSignatureError: it is not the statement of a signature of an image.
        """
        return _claims_of_statement(self.payload) if self.is_bundle else _claims_of_payload(self.payload)


class _SignedImage(msgspec.Struct, frozen=True):
    digest: str = msgspec.field(name="docker-manifest-digest", default="")


class _Identity(msgspec.Struct, frozen=True):
    reference: str = msgspec.field(name="docker-reference", default="")


class _Critical(msgspec.Struct, frozen=True):
    image: _SignedImage
    type: str
    identity: _Identity = _Identity()


class _Payload(msgspec.Struct, frozen=True):
    critical: _Critical
    optional: dict[str, JSON] | None = None


_payload_decoder = msgspec.json.Decoder(prepared(_Payload))


def read_simple_signing(payload: bytes, encoded_signature: str) -> ImageSignature:
    """Read a payload and its signature in Base64.

    Raises:
        UnusableSignatureError: the signature is not in Base64.
    """
    return ImageSignature(_decoded(encoded_signature), payload, payload, is_bundle=False)


def _claims_of_payload(payload: bytes) -> SignedClaims:
    try:
        document = _payload_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableSignatureError("the payload is not of simple signing") from None
    critical = document.critical
    if critical.type != _SIGNATURE_KIND:
        raise UnusableSignatureError("the payload is not that of a signature by cosign")
    return SignedClaims(
        frozenset({critical.image.digest}), critical.identity.reference, _texts(document.optional or {})
    )


class _EnvelopeSignature(msgspec.Struct, frozen=True):
    sig: str


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_EnvelopeSignature, ...] = ()


class _Bundle(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str
    dsse_envelope: _Envelope | None = None


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str] = {}
    annotations: dict[str, JSON] | None = None


class _Statement(msgspec.Struct, frozen=True, rename="camel"):
    type: str = msgspec.field(name="_type")
    predicate_type: str
    subject: tuple[_Subject, ...] = ()


_bundle_decoder = msgspec.json.Decoder(prepared(_Bundle))
_statement_decoder = msgspec.json.Decoder(prepared(_Statement))


def read_bundle(content: bytes) -> ImageSignature:
    """Read a bundle.

    Raises:
        UnusableSignatureError: it is none, or holds no envelope with a statement and one signature.
    """
    try:
        bundle = _bundle_decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableSignatureError("the bundle is not one of sigstore") from None
    envelope = bundle.dsse_envelope
    if bundle.media_type not in BUNDLE_TYPES:
        raise UnusableSignatureError("the bundle is not of version 0.3")
    if envelope is None or envelope.payload_type != _STATEMENT_TYPE:
        raise UnusableSignatureError("the bundle holds no in-toto statement")
    if len(envelope.signatures) != 1:
        # As the specification asks for. Each of them is tried with each key, and a bundle has room for thousands.
        raise UnusableSignatureError("the envelope of the bundle has not exactly one signature")
    payload = _decoded(envelope.payload, limit=len(content))
    signed = _encoding_to_sign(envelope.payload_type, payload)
    return ImageSignature(_decoded(envelope.signatures[0].sig), signed, payload, is_bundle=True)


def _encoding_to_sign(kind: str, payload: bytes) -> bytes:
    """``PAE`` of https://github.com/secure-systems-lab/dsse/blob/master/protocol.md."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)


def _claims_of_statement(payload: bytes) -> SignedClaims:
    try:
        statement = _statement_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableSignatureError("the envelope holds no in-toto statement") from None
    if statement.type != _STATEMENT_KIND or statement.predicate_type != SIGN_PREDICATE:
        raise UnusableSignatureError("the statement attests something, and is not a signature")
    annotations = dict(_annotations(statement.subject)) if len(statement.subject) == 1 else {}
    digests = frozenset(
        f"sha256:{subject.digest['sha256']}" for subject in statement.subject if "sha256" in subject.digest
    )
    return SignedClaims(digests, "", annotations)


def _annotations(subjects: Sequence[_Subject]) -> Iterator[tuple[str, str]]:
    for subject in subjects:
        yield from _texts(subject.annotations or {}).items()


def _texts(values: Mapping[str, JSON]) -> Mapping[str, str]:
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _decoded(text: str, limit: int = _MAX_SIGNATURE) -> bytes:
    if len(text) > limit:
        raise UnusableSignatureError("a signature is too long")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnusableSignatureError("a signature is not in Base64") from None
