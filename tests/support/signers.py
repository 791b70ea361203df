"""CertificateSigningRequests and ClusterTrustBundles, the reviews of them, and who may do what for a signer."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision
from pratique.cluster.store import ObjectStore
from support.admissions import review_of
from support.role_bindings import binding, role

GROUP = "certificates.k8s.io"
SIGNER = "example.com/workloads"

GRANTS: dict[str, bool] = {
    SIGNER: True,
    "example.com/*": True,
    "example.com/others": False,
    "other.example.com/workloads": False,
    "example.com": False,
    "*": False,
    "example.com/": False,
    "*/*": False,
    "example.com/work*": False,
}
"""What a role may name, and whether it thereby grants the signer ``example.com/workloads``."""


def permission(
    verb: str,
    *names: str,
    user: str = "ann",
    groups: Sequence[str] = (GROUP,),
    resources: Sequence[str] = ("signers",),
) -> tuple[JSONObject, JSONObject]:
    """A role for signers, and its binding to a user."""
    granted = role("signing", verbs=[verb], groups=groups, resources=resources, names=names)
    return granted, binding("signing", "ClusterRole/signing", f"User/{user}")


@dataclasses.dataclass(frozen=True)
class FailingAuthorizer:
    """An authorizer that cannot decide, and says yes nevertheless."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Fail."""
        del attributes
        return AuthorizationDecision(allowed=True, reason="why not", error="the authorizer is out of order")


def pem_request(*organizations: str, common_name: str = "ann") -> bytes:
    """A certificate request whose subject has these organizations."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = unsigned.sign(ed25519.Ed25519PrivateKey.generate(), None)
    return signed.public_bytes(serialization.Encoding.PEM)


def signing_request(signer: str = SIGNER, request: bytes = b"", **status: JSON) -> JSONObject:
    """A CertificateSigningRequest with this status."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "web"},
        "spec": {
            "signerName": signer,
            "request": base64.b64encode(request).decode(),
            "usages": ["client auth"],
        },
        **({"status": status} if status else {}),
    }


def trust_bundle(signer: str | None = SIGNER, *, bundle: str = "pem", **metadata: JSON) -> JSONObject:
    """A ClusterTrustBundle with these metadata."""
    named = {} if signer is None else {"signerName": signer}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": "web", **metadata},
        "spec": {**named, "trustBundle": bundle},
    }


def certificates_review(
    resource: str, new: JSON, old: JSON = None, *cluster: JSONObject, **fields: JSON
) -> Review:
    """A review in the group ``certificates.k8s.io``, of ann: a CREATE, or an UPDATE if there is a stored object."""
    collection, _, subresource = resource.partition("/")
    kind = {"clustertrustbundles": "ClusterTrustBundle"}.get(collection, "CertificateSigningRequest")
    request: JSONObject = {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": GROUP, "version": "v1", "kind": kind},
        "resource": {"group": GROUP, "version": "v1", "resource": collection},
        "subResource": subresource,
        "name": "web",
        "userInfo": {"username": "ann"},
        "object": new,
        "oldObject": old,
    }
    return review_of(request | fields, ObjectStore(cluster))
