"""A family for the controllers of ``certificates.k8s.io``: who may ask for, approve, sign and publish certificates."""

from __future__ import annotations

import base64
import copy
import dataclasses
import datetime as dt
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from differential.pairs import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    SIGNING_REQUESTS,
    TRUST_BUNDLES,
    USUAL,
    Request,
    Setup,
    User,
    World,
    made,
    some,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import WebhookServer

_SIGNERS = (
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kubelet-serving",
    "example.com/own",
    "example.com/other",
    "example.org/own",
)
_GRANTS = ("example.com/own", "example.com/*", "kubernetes.io/*", "example.org/own")
_KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
"""One key, so that what is drawn from a seed is the same each time."""
_DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_ASKING = (User.ADMIN, User.AUTHOR, User.GUEST, User.GUEST, User.GUEST)


@dataclasses.dataclass(frozen=True, slots=True)
class Signers:
    """CertificateSigningRequests and ClusterTrustBundles, of users who may do some of it."""

    name: str = "certificates"
    requests: int = 60
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a role for guests, and requests and bundles to change."""
        role = f"signers-{suffix}"
        rules = [_rule(random, verb) for verb in ("approve", "sign", "attest")]
        parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"]
        rules.append({"apiGroups": ["certificates.k8s.io"], "resources": parts, "verbs": ["update"]})
        subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "guests"}]
        reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": role}
        objects = [
            made(CLUSTER_ROLES, role, rules=rules),
            made(CLUSTER_ROLE_BINDINGS, role, roleRef=reference, subjects=subjects),
        ]
        for index, signer in enumerate(_SIGNERS):
            objects.append(
                made(SIGNING_REQUESTS, f"r{index}-{suffix}", spec=_signing_spec(random, signer, ""))
            )
            objects.append(_bundle(f"b{index}-{suffix}", signer))
        return World((*objects, _bundle(f"b9-{suffix}", "")), "default")

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation or a change."""
        draw = random.choice((_creation, _approval, _approval, _signing, _signing, _publication, _change))
        return draw(random, world)


def _rule(random: Random, verb: str) -> JSONObject:
    rule: JSONObject = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb]}
    if random.random() < 0.9:
        rule["resourceNames"] = list(some(random, 0.5, _GRANTS)) or ["example.com/own"]
    return rule


def _creation(random: Random, _world: World) -> Request:
    signer = random.choice((_SIGNERS[0], *_SIGNERS))
    organization = random.choice(("", "system:masters", "system:nodes", "people"))
    body = made(SIGNING_REQUESTS, "new", spec=_signing_spec(random, signer, organization))
    return Request(random.choice(_ASKING), "POST", SIGNING_REQUESTS, "", "new", body)


def _approval(random: Random, world: World) -> Request:
    body = _stored(random, world, "CertificateSigningRequest")
    conditions = [{"type": random.choice(("Approved", "Denied")), "status": "True", "reason": "drawn"}]
    body["status"] = {"conditions": conditions if random.random() < 0.9 else []}
    if random.random() < 0.2:
        body["spec"]["signerName"] = random.choice(_SIGNERS)
    return _update(random, body, "approval")


def _signing(random: Random, world: World) -> Request:
    body = _stored(random, world, "CertificateSigningRequest")
    status: JSONObject = {}
    if random.random() < 0.7:
        status["certificate"] = base64.b64encode(_certificate("signed")).decode()
    if random.random() < 0.4:
        status["conditions"] = [{"type": "Failed", "status": "True", "reason": "drawn"}]
    if random.random() < 0.2:
        body["metadata"]["labels"] = {"changed": "yes"}
    return _update(random, body | {"status": status}, "status")


def _publication(random: Random, _world: World) -> Request:
    body = _bundle("new", random.choice(("", *_SIGNERS)))
    return Request(random.choice(_ASKING), "POST", TRUST_BUNDLES, "", str(body["metadata"]["name"]), body)


def _change(random: Random, world: World) -> Request:
    """A change of a bundle, of what needs permission or of what does not."""
    body = _stored(random, world, "ClusterTrustBundle")
    metadata = body["metadata"]
    if random.random() < 0.4:
        body["spec"]["trustBundle"] = _certificate("another").decode()
    if random.random() < 0.3:
        metadata["finalizers"] = ["example.com/kept"]
    if random.random() < 0.3:
        metadata["labels"] = {"changed": "yes"}
    return _update(random, body, "")


def _update(random: Random, body: JSONObject, subresource: str) -> Request:
    resource = TRUST_BUNDLES if body["kind"] == "ClusterTrustBundle" else SIGNING_REQUESTS
    name = str(body["metadata"]["name"])
    return Request(random.choice(_ASKING), "PUT", resource, "", name, body, subresource)


def _stored(random: Random, world: World, kind: str) -> JSONObject:
    body: JSONObject = copy.deepcopy(random.choice([item for item in world.objects if item["kind"] == kind]))
    for name in ("uid", "resourceVersion"):
        body["metadata"].pop(name, None)
    return body


def _bundle(name: str, signer: str) -> JSONObject:
    spec: JSONObject = {"trustBundle": _certificate("root").decode()}
    if signer:
        spec["signerName"] = signer
        name = f"{signer.replace('/', ':')}:{name}"
    return made(TRUST_BUNDLES, name, spec=spec)


def _signing_spec(random: Random, signer: str, organization: str) -> JSONObject:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n0")]
    if organization:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    written = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(_KEY, None)
    request = base64.b64encode(written.public_bytes(Encoding.PEM)).decode()
    usages: list[JSON] = random.choice(
        (["client auth"], ["digital signature", "server auth"], ["digital signature", "client auth"])
    )
    return {"request": request, "signerName": signer, "usages": usages}


def _certificate(name: str) -> bytes:
    """A certificate that signs itself, the same for a name each time."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).serial_number(1)
    builder = builder.not_valid_before(_DAY).not_valid_after(_DAY + dt.timedelta(days=3650))
    builder = builder.public_key(_KEY.public_key())
    authority = x509.BasicConstraints(ca=True, path_length=None)
    return builder.add_extension(authority, critical=True).sign(_KEY, None).public_bytes(Encoding.PEM)
