"""Nodes: the node a user belongs to, the labels it may set, and the subject of its certificate requests.

Sources: ``plugin/pkg/admission/noderestriction/admission.go`` and ``pkg/kubelet/apis/well_known_labels.go``.
"""

from __future__ import annotations

import binascii
import dataclasses
import re
from collections.abc import Iterator

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import UserInfo

NODE_USER_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"


def node_name(user: UserInfo) -> str | None:
    """The name of the node that a user is, possibly empty; None for a user who is not a node."""
    if NODES_GROUP not in user.groups or not user.username.startswith(NODE_USER_PREFIX):
        return None
    return user.username.removeprefix(NODE_USER_PREFIX)


_RESERVED_DOMAINS = ("node-restriction.kubernetes.io",)
"""Nodes may not set labels in these domains and their subdomains."""

_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""In these domains and their subdomains nodes may only set the kubelet's labels."""

_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)


def may_set_label(label: str) -> bool:
    """Tell whether a node may add, change or remove a label of its Node object."""
    # A label without a slash has no domain, and is the node's to set.
    domain, slash, _ = label.partition("/")
    domain = domain if slash else ""
    if _is_within(domain, _RESERVED_DOMAINS):
        return False
    return (
        not _is_within(domain, _KUBERNETES_DOMAINS)
        or label in _KUBELET_LABELS
        or _is_within(domain, _KUBELET_DOMAINS)
    )


def forbidden_label_changes(node: JSON, old: JSON = None) -> list[str]:
    """The labels that differ between two states of a Node and that the node may not set, sorted."""
    new_labels, old_labels = _labels(node), _labels(old)
    changed = {key for key in new_labels.keys() | old_labels.keys() if _differ(new_labels, old_labels, key)}
    return sorted(key for key in changed if not may_set_label(key))


def _differ(first: dict[str, JSON], second: dict[str, JSON], key: str) -> bool:
    return (key in first) != (key in second) or first[key] != second[key]


def _labels(node: JSON) -> dict[str, JSON]:
    labels = member(node, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def _is_within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n(.*?)-----END \1-----", re.DOTALL)
_PEM_TYPE = b"CERTIFICATE REQUEST"

_SEQUENCE, _SET, _OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
_COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3
_ORGANIZATION = b"\x55\x04\x0a"  # 2.5.4.10
_ENCODINGS = {0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
"""The encodings of ASN.1 string types in names: UTF8, Numeric, Printable, T61, IA5 and BMP."""

_LONG_FORM = 0x80
_LENGTH_BYTES = 4
"""More length bytes would mean more than 4 GiB."""


@dataclasses.dataclass(frozen=True, slots=True)
class CertificateSubject:
    """The subject of a certificate request."""

    common_name: str = ""
    """The user name; the last of several."""
    organizations: tuple[str, ...] = ()
    """The user's groups."""


def read_subject(pem: bytes) -> CertificateSubject:
    """Read the subject of a PEM-encoded certificate request.

    Raises:
        InputError: it is not a certificate request. The message quotes nothing of it.
    """
    block = _PEM.search(pem)
    if block is None or block[1] != _PEM_TYPE:
        raise InputError(f"PEM block type must be {_PEM_TYPE.decode()}")
    try:
        der = binascii.a2b_base64(block[2])
        names = list(_subject_attributes(der))
    except (ValueError, IndexError):
        raise InputError("malformed certificate request") from None
    common_names = [value for identifier, value in names if identifier == _COMMON_NAME]
    organizations = tuple(value for identifier, value in names if identifier == _ORGANIZATION)
    return CertificateSubject(common_names[-1] if common_names else "", organizations)


def _subject_attributes(der: bytes) -> Iterator[tuple[bytes, str]]:
    """The attributes of the subject: object identifiers and values."""
    ((tag, request),) = _der_values(der)
    _expect_tag(tag, _SEQUENCE)
    (tag, information), *_ = _der_values(request)
    _expect_tag(tag, _SEQUENCE)
    _, (tag, subject), *_ = _der_values(information)
    _expect_tag(tag, _SEQUENCE)
    for set_tag, relative_name in _der_values(subject):
        _expect_tag(set_tag, _SET)
        for sequence_tag, attribute in _der_values(relative_name):
            _expect_tag(sequence_tag, _SEQUENCE)
            (identifier_tag, identifier), (value_tag, value) = _der_values(attribute)
            _expect_tag(identifier_tag, _OBJECT_IDENTIFIER)
            yield identifier, value.decode(_ENCODINGS[value_tag]) if value_tag in _ENCODINGS else ""


def _der_values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """A sequence of DER values: their tags and contents."""
    position = 0
    while position < len(der):
        tag, (start, end) = der[position], _der_content(der, position + 1)
        if end > len(der):
            raise ValueError("a value is longer than what holds it")
        yield tag, der[start:end]
        position = end


def _der_content(der: bytes, position: int) -> tuple[int, int]:
    """The start and end of the value whose length is at ``position``."""
    length, start = der[position], position + 1
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 0 < count <= _LENGTH_BYTES or start + count > len(der):
            raise ValueError("a length is malformed")
        length, start = int.from_bytes(der[start : start + count]), start + count
    return start, start + length


def _expect_tag(tag: int, expected: int) -> None:
    if tag != expected:
        raise ValueError("a value of another type stands there")
