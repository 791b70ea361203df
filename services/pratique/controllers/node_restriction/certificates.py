"""Certificates: a node asks for its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.base64_values import decode_base64
from pratique.certificate_requests import read_subject
from pratique.controllers.node_restriction.requests import NodeRequest, Refusal, is_kind, unexpected_type
from pratique.errors import InputError
from pratique.json_values import member
from pratique.node_identities import USER_PREFIX
from pratique.reviews import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNERS = frozenset({"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"})
"""Those that sign for nodes."""


def check(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a new CertificateSigningRequest, as far as it is for a certificate of a node."""
    review = request.review
    gates = request.gates
    if review.operation is not Operation.CREATE or gates.allow_insecure_kubelet_certificate_signing_requests:
        return
    if not is_kind(review.object, "CertificateSigningRequest"):
        yield unexpected_type(review.object)
    if member(review.object, "spec", "signerName") not in _SIGNERS:
        return
    try:
        pem = decode_base64(str(member(review.object, "spec", "request") or ""))
        subject = read_subject(pem)
    except (ValueError, InputError) as error:
        yield f"unable to parse csr: {error}"
        return
    expected = f"{USER_PREFIX}{request.node}"
    if subject.common_name != expected:
        yield f"can only create a node CSR with CN={expected}"
