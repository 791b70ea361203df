"""The policies as handlers of kopf: ``kopf run --standalone --all-namespaces handlers.py``.

As kopf's page on admission controllers has it: certificates from files, a fixed address, and no managed configurations.
"""

from __future__ import annotations

import os
from typing import Any

import kopf
import restricted


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=int(os.environ["PORT"]),
        host="localhost",
        certfile=os.environ["TLS_CERT"],
        pkeyfile=os.environ["TLS_KEY"],
    )


@kopf.on.login()
async def login(**_: Any) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=os.environ["KUBERNETES_API"])


@kopf.on.validate("pods", id="validate", operation="CREATE")
async def validate(body: kopf.Body, **_: Any) -> None:
    found = restricted.problems(body)
    if found:
        raise kopf.AdmissionError("; ".join(found), code=403)


@kopf.on.mutate("pods", id="mutate", operation="CREATE")
async def mutate(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.labels["bench.example.com/injected"] = "true"
    containers = body["spec"]["containers"]
    if not any(container["name"] == "sidecar" for container in containers):
        patch.spec["containers"] = [*containers, restricted.sidecar()]
