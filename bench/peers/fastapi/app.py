"""The policies as a FastAPI application, on gunicorn's workers."""

from __future__ import annotations

import base64
import json
from typing import Any

import restricted
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Request(BaseModel):
    """As much of it as is looked at."""

    uid: str
    operation: str
    object: dict[str, Any]


class AdmissionReview(BaseModel):
    """As it comes."""

    apiVersion: str  # noqa: N815 - Kubernetes' name
    kind: str
    request: Request


def answer(review: AdmissionReview, **response: Any) -> dict[str, Any]:
    return {
        "apiVersion": review.apiVersion,
        "kind": "AdmissionReview",
        "response": {"uid": review.request.uid, **response},
    }


@app.post("/validate")
async def validate(review: AdmissionReview) -> dict[str, Any]:
    found = restricted.problems(review.request.object)
    if found:
        return answer(review, allowed=False, status={"code": 403, "message": "; ".join(found)})
    return answer(review, allowed=True)


@app.post("/mutate")
async def mutate(review: AdmissionReview) -> dict[str, Any]:
    pod = review.request.object
    changed = restricted.with_sidecar(pod)
    operations = [
        {"op": "add", "path": "/metadata/labels", "value": changed["metadata"]["labels"]},
        {"op": "replace", "path": "/spec/containers", "value": changed["spec"]["containers"]},
    ]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answer(review, allowed=True, patchType="JSONPatch", patch=patch)
