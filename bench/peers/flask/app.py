"""The policies as a Flask application, on gunicorn's threaded workers, which keep connections alive."""

from __future__ import annotations

import base64
import json
from typing import Any

import restricted
from flask import Flask, Response, jsonify, request

app = Flask(__name__)


def answer(review: dict[str, Any], **response: Any) -> Response:
    return jsonify(
        {
            "apiVersion": review["apiVersion"],
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], **response},
        }
    )


@app.post("/validate")
def validate() -> Response:
    review = request.get_json()
    found = restricted.problems(review["request"]["object"])
    if found:
        return answer(review, allowed=False, status={"code": 403, "message": "; ".join(found)})
    return answer(review, allowed=True)


@app.post("/mutate")
def mutate() -> Response:
    review = request.get_json()
    changed = restricted.with_sidecar(review["request"]["object"])
    operations = [
        {"op": "add", "path": "/metadata/labels", "value": changed["metadata"]["labels"]},
        {"op": "replace", "path": "/spec/containers", "value": changed["spec"]["containers"]},
    ]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answer(review, allowed=True, patchType="JSONPatch", patch=patch)
