"""AdmissionReviews as they come over HTTP."""

from __future__ import annotations

import json

from pratique.apimachinery.json_values import JSON

POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def review_document(version: str = "v1", **request: JSON) -> JSON:
    """An AdmissionReview of the creation of a pod, with ``request`` replaced in its request."""
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "name": "one",
            "namespace": "default",
            "userInfo": {"username": "admin"},
            "object": POD,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        }
        | request,
    }


def review_body(version: str = "v1", **request: JSON) -> bytes:
    """The same as JSON text."""
    return json.dumps(review_document(version, **request)).encode()


def review_body_of(size: int) -> bytes:
    """A review of exactly that many bytes, most of them in one string."""
    empty = review_body(object={"data": ""})
    return empty.replace(b'{"data": ""}', b'{"data": "%s"}' % (b"x" * (size - len(empty))))
