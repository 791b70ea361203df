"""The stack of examples/07-in-a-cluster as an API server learns of it: filled in as docs/kubernetes.md says."""

from __future__ import annotations

import copy
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from support.cluster_manifests import FILES, webhook_documents
from support.free_ports import free_port

SERVICE_RANGE = "127.0.64.0/24"
"""Addresses of Services that this host has itself, as Linux has all of 127.0.0.0/8: nothing needs to route them."""
VARIANTS: dict[str, dict[str, Any]] = {
    "documented": {},
    "closed": {"failurePolicy": "Fail"},
    "open": {"failurePolicy": "Ignore"},
    "everything": {
        "rules": [
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*"],
                "scope": "Namespaced",
            }
        ]
    },
    "by-url": {},
}
"""Namespaces, by how the webhooks of the manifests are changed for them."""
UNREGISTERED = "unregistered"
"""A namespace that none of these variants sees, for webhooks that a test writes itself."""
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owned.example.com}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods, pods/ephemeralcontainers]}
  validations:
  - expression: has(object.metadata.labels) && 'owner' in object.metadata.labels
    message: nobody owns it
  auditAnnotations: [{key: image, valueExpression: 'string(object.spec.containers[0].image)'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: owned.example.com}
spec: {policyName: owned.example.com, validationActions: [Warn, Audit]}
"""
_PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
_CALL_SECONDS = 2
"""Of each call to a webhook: what outages that hang cost a test."""


def service_port() -> int:
    """443, as in the manifests, if this process may listen there; otherwise a free port."""
    try:
        with socket.create_server(("127.0.64.1", 443)):
            return 443
    except OSError:
        return free_port()


def admission_configuration(certificates: Path, names: Sequence[str]) -> dict[str, Any]:
    """The page's AdmissionConfiguration, with its kubeconfig, which is for some further names of servers, too."""
    blocks = dict(
        re.findall(r"^```yaml (admission\.yaml)\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    )
    blocks |= dict(
        re.findall(r"^```yaml (kubeconfig)\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    )
    here = certificates / "kube-apiserver"
    kubeconfig = yaml.safe_load(blocks["kubeconfig"].replace("/etc/kubernetes/pratique", str(here)))
    [user] = kubeconfig["users"]
    kubeconfig["users"] += [user | {"name": name} for name in names]
    (here / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    configuration: dict[str, Any] = yaml.safe_load(
        blocks["admission.yaml"].replace("/etc/kubernetes/pratique", str(here))
    )
    return configuration


def filled_in(folder: Path, port: int) -> None:
    """Write the manifests as a reader fills them in, with a port for the Service that needs no privilege here."""
    folder.mkdir()
    for file in FILES:
        text = file.read_text().replace("192.0.2.0/24", "127.0.0.0/8").replace("0" * 64, "5c" * 32)
        (folder / file.name).write_text(text.replace("port: 443, targetPort", f"port: {port}, targetPort"))


def configurations(bundle: bytes, service_port: int, url_port: int) -> list[dict[str, Any]]:
    """The webhook configurations of all variants."""
    made = []
    for variant, changes in VARIANTS.items():
        for document in copy.deepcopy(webhook_documents(bundle)):
            document["metadata"]["name"] = variant
            [webhook] = document["webhooks"]
            service = webhook["clientConfig"]["service"]
            service["port"] = service_port
            if variant == "by-url":
                webhook["clientConfig"]["url"] = f"https://127.0.0.1:{url_port}/admit"
                del webhook["clientConfig"]["service"]
            selected: dict[str, Any] = {"key": "variant", "operator": "In", "values": [variant]}
            if variant == "documented":
                selected = {"key": "variant", "operator": "NotIn", "values": [*[*VARIANTS][1:], UNREGISTERED]}
            webhook["namespaceSelector"]["matchExpressions"].append(selected)
            webhook |= changes
            webhook["timeoutSeconds"] = _CALL_SECONDS
            made.append(document)
    return made
