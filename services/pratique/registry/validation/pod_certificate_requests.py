"""PodCertificateRequests: what kubelets ask for in the name of Pods.

Source: ``ValidatePodCertificateRequestCreate`` of ``pkg/apis/certificates/validation/validation.go``. What is no valid
DER may be refused in other words than Go's.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    OMITTED,
    ROOT,
    FieldError,
    FieldPath,
    invalid,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.go_values import internal_value
from pratique.registry.validation.certificates import validate_signer_name
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    MAX_ANNOTATIONS_SIZE,
    annotations_size,
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_KEY, _PROOF, _REQUEST = (
    _SPEC / name for name in ("pkixPublicKey", "proofOfPossession", "stubPKCS10Request")
)
_LONGEST_UID = 128
_LARGEST = 10 * 1024
"""Bytes of a key, a proof or a request."""
_SHORTEST, _LONGEST_OF_KUBERNETES, _LONGEST = 60 * 60, 24 * 60 * 60, 91 * 24 * 60 * 60
"""Seconds that certificates may be valid for."""
_NAMES_AND_UIDS = (
    ("podName", "podUID"),
    ("serviceAccountName", "serviceAccountUID"),
    ("nodeName", "nodeUID"),
)
_RSA_BITS = (3072, 4096)
_CURVES = {"secp224r1": "P-224", "secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
"""The curves that Go knows, by the names that OpenSSL has for them."""
_UNKNOWN_KEY = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


def _create(request: JSONObject, _: Review) -> list[FieldError]:
    errors = validate_metadata(request.get("metadata") or {}, subdomain_name, _METADATA, namespaced=True)
    spec = request.get("spec") or {}
    signer = spec.get("signerName", "")
    errors += validate_signer_name(signer, _SPEC / "signerName")
    annotations = spec.get("unverifiedUserAnnotations") or {}
    errors += _validate_user_annotations(annotations, _SPEC / "unverifiedUserAnnotations")
    for name, uid in _NAMES_AND_UIDS:
        text = spec.get(name, "")
        errors += [invalid(_SPEC / name, text, message) for message in names.check_dns1123_subdomain(text)]
        errors += _validate_uid(spec.get(uid, ""), _SPEC / uid)
    seconds = spec.get("maxExpirationSeconds")
    if seconds is None:
        return [*errors, required(_SPEC / "maxExpirationSeconds", "must be set")]
    longest = _LONGEST_OF_KUBERNETES if _is_of_kubernetes(signer) else _LONGEST
    if not _SHORTEST <= seconds <= longest:
        detail = f"must be in the range [{_SHORTEST}, {longest}]"
        errors.append(invalid(_SPEC / "maxExpirationSeconds", seconds, detail))
    return errors + _validate_key(spec)


def _is_of_kubernetes(signer: str) -> bool:
    """``IsKubernetesSignerName``."""
    return f".{signer.partition('/')[0]}".endswith(".kubernetes.io")


def _validate_uid(uid: str, path: FieldPath) -> list[FieldError]:
    if not uid:
        return [invalid(path, uid, "must not be empty")]
    return [too_long(path, _LONGEST_UID)] if len(uid.encode()) > _LONGEST_UID else []


def _validate_user_annotations(annotations: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = [error for key in sorted(annotations) for error in _validate_prefixed_key(key.lower(), path)]
    if annotations_size(annotations) > MAX_ANNOTATIONS_SIZE:
        errors.append(too_long(path, MAX_ANNOTATIONS_SIZE))
    return errors


def _validate_prefixed_key(key: str, path: FieldPath) -> list[FieldError]:
    """``IsDomainPrefixedKey``."""
    if not key:
        return [required(path)]
    if messages := names.check_qualified_name(key):
        return [invalid(path, key, message) for message in messages]
    detail = 'must be a domain-prefixed key (such as "acme.io/foo")'
    return [] if "/" in key else [invalid(path, key, detail)]


def _validate_key(spec: JSONObject) -> list[FieldError]:
    """Validate that a request proves that who makes it has the key."""
    key, proof, request = (
        _bytes(spec.get(name)) for name in ("pkixPublicKey", "proofOfPossession", "stubPKCS10Request")
    )
    if request and not key and not proof:
        return _validate_stub(request)
    if key and proof and not request:
        return _validate_proof(spec, key, proof)
    detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
    return [invalid(_SPEC, OMITTED, detail)]


def _bytes(encoded: str | None) -> bytes:
    try:
        return base64.b64decode(encoded or "")
    except binascii.Error:
        return b""


def _validate_proof(spec: JSONObject, key: bytes, proof: bytes) -> list[FieldError]:
    """``validateDeprecatedPKIXPublicKey``."""
    for value, path in ((key, _KEY), (proof, _PROOF)):
        if len(value) > _LARGEST:
            return [too_long(path, _LARGEST)]
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - most chains see no keys: 20 ms
    from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415

    written = spec["pkixPublicKey"]
    try:
        public_key: object = load_der_public_key(key)
    except (UnsupportedAlgorithm, ValueError):
        return [invalid(_KEY, written, "must be a valid PKIX-serialized public key")]
    problem = _key_problem(public_key, _KEY, written, "P256 or P384")
    if problem is None and not _proves(public_key, spec.get("podUID", "").encode(), proof):
        problem = invalid(_PROOF, OMITTED, "could not verify proof-of-possession signature")
    return [] if problem is None else [problem]


def _key_problem(public_key: object, path: FieldPath, written: JSON, curves: str) -> FieldError | None:
    """What is wrong with the kind and the size of a key."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415

    unknown = invalid(path, OMITTED if written is None else written, _UNKNOWN_KEY)
    if isinstance(public_key, rsa.RSAPublicKey):
        bits = -(-public_key.key_size // 8) * 8
        detail = "RSA keys must have modulus size 3072 or 4096"
        return None if bits in _RSA_BITS else invalid(path, f"{bits}-bit modulus", detail)
    if isinstance(public_key, ec.EllipticCurvePublicKey):
        curve = _CURVES.get(public_key.curve.name, public_key.curve.name)
        if curve in {"P-256", "P-384", "P-521"}:
            return None
        return invalid(path, f"curve {curve}", f"elliptic public keys must use curve {curves}")
    return None if isinstance(public_key, ed25519.Ed25519PublicKey) else unknown


def _proves(public_key: object, uid: bytes, proof: bytes) -> bool:
    """Tell whether a signature of a UID was made with the private key."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa  # noqa: PLC0415

    sha256 = hashes.SHA256()
    try:
        match public_key:
            case ed25519.Ed25519PublicKey():
                public_key.verify(proof, uid)
            case ec.EllipticCurvePublicKey():
                public_key.verify(proof, uid, ec.ECDSA(sha256))
            case rsa.RSAPublicKey():
                pss = padding.PSS(padding.MGF1(sha256), padding.PSS.AUTO)
                public_key.verify(proof, uid, pss, sha256)
    except InvalidSignature:
        return False
    return True


def _validate_stub(request: bytes) -> list[FieldError]:
    """``validateStubPKCS10Request``."""
    if len(request) > _LARGEST:
        return [too_long(_REQUEST, _LARGEST)]
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    try:
        parsed = x509.load_der_x509_csr(request)
    except ValueError:
        return [invalid(_REQUEST, OMITTED, "must be a valid PKCS#10 CSR")]
    try:
        public_key: object = parsed.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return [invalid(_REQUEST, OMITTED, _UNKNOWN_KEY)]
    problem = _key_problem(public_key, _REQUEST, None, "P256, P384, or P521")
    if problem is None and not _is_signed(parsed):
        problem = invalid(_REQUEST, OMITTED, "invalid signature")
    return [] if problem is None else [problem]


def _is_signed(request: CertificateSigningRequest) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    try:
        return request.is_signature_valid
    except (UnsupportedAlgorithm, ValueError):
        return False


def _update(request: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata, spec = request.get("metadata") or {}, request.get("spec") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    if spec != (old.get("spec") or {}):
        value = internal_value("certificates.PodCertificateRequestSpec", spec)
        errors.append(invalid(_SPEC, value, FIELD_IS_IMMUTABLE))
    return errors


VALIDATIONS: ValidationTable = {
    ("certificates.k8s.io", "podcertificaterequests"): KindValidation(_create, _update),
}
