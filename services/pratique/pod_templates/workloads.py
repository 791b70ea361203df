"""Workloads: what a controller knows when it makes a Pod, and how it begins.

Source: ``pkg/controller/controller_utils.go`` ``GetPodFromTemplate``, ``ComputeHash``, and
``k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go``.
"""

from __future__ import annotations

import dataclasses

import msgspec

from pratique import names
from pratique.json_values import JSON, JSONObject, member
from pratique.uids import named_uid

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What ``rand.SafeEncodeString`` writes with."""
_FNV_BASIS = 0x811C9DC5
_FNV_PRIME = 0x01000193
"""FNV-1a of 32 bits, as http://www.isthe.com/chongo/tech/comp/fnv has them."""

# The root of all uids made here; any fixed UUID would do.
_UIDS = "0b7d5d0e-3c55-4c5c-8f0e-5f6a1f0e7a52"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What makes Pods, and owns them."""

    api_version: str
    """As its controller writes it into owner references, whatever the version that was asked for."""
    kind: str
    """As its controller writes it into owner references."""
    name: str
    uid: str
    namespace: str
    document: JSONObject = dataclasses.field(repr=False)
    """The object. Not to be changed in place."""

    @property
    def spec(self) -> JSONObject:
        """What is wanted of it; empty where nothing is."""
        return mapping(self.document, "spec")

    @property
    def template(self) -> JSONObject:
        """What its Pods are to be like."""
        return mapping(self.document, "spec", "template")

    @property
    def prefix(self) -> str:
        """How the names of its Pods begin: ``getPodsPrefix``."""
        # The dash and what is before it are looked at as if they were a letter, as ``maskTrailingDash`` does.
        return self.name if names.check_dns1123_subdomain(f"{self.name[:-1]}a") else f"{self.name}-"

    @property
    def reference(self) -> JSONObject:
        """The owner reference of what it makes: ``NewControllerRef``."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def pod_from_template(workload: Workload, labels: JSONObject | None = None) -> JSONObject:
    """Make a Pod of a workload's template, with ``labels`` beside those of the template: ``GetPodFromTemplate``.

    Nothing in it belongs to the template: the metadata and the ``spec`` may be added to, not what is within them.
    """
    written = mapping(workload.template, "metadata")
    metadata: JSONObject = {"generateName": workload.prefix, "namespace": workload.namespace}
    metadata["labels"] = {**mapping(written, "labels"), **(labels or {})}
    metadata["annotations"] = dict(mapping(written, "annotations"))
    metadata["finalizers"] = list(items(written, "finalizers"))
    kept = {key: value for key, value in metadata.items() if value}
    kept["ownerReferences"] = [workload.reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": kept,
        "spec": dict(mapping(workload.template, "spec")),
    }


def mapping(value: JSON, *path: str) -> JSONObject:
    """The mapping that stands there; empty where there is none."""
    found = member(value, *path)
    return found if isinstance(found, dict) else {}


def items(value: JSON, *path: str) -> list[JSON]:
    """The list that stands there; empty where there is none."""
    found = member(value, *path)
    return found if isinstance(found, list) else []


def template_hash(template: JSON) -> str:
    """Stand in for the hash of a template: as long, of the same letters, the same for equal templates.

    Kubernetes hashes how Go prints its structs, which changes from version to version.
    """
    return safe_encoded(str(_fnv(msgspec.json.encode(template, order="sorted"))))


def safe_encoded(text: str) -> str:
    """Write a text in letters that leave nothing to be ashamed of: ``rand.SafeEncodeString``."""
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in text.encode())


def uid_of(*parts: str) -> str:
    """Stand in for the uid that an API server would draw, the same every time."""
    return named_uid(_UIDS, "\n".join(parts).encode())


def _fnv(data: bytes) -> int:
    value = _FNV_BASIS
    # Two bytes at a time take half as long: what stands above 32 bits may wait to be cut off.
    for first, second in zip(data[::2], data[1::2], strict=False):
        value = ((value ^ first) * _FNV_PRIME ^ second) * _FNV_PRIME & 0xFFFFFFFF
    if len(data) % 2:
        value = (value ^ data[-1]) * _FNV_PRIME & 0xFFFFFFFF
    return value
