"""A label and a sidecar: what the mutating webhook of the comparison adds, and ours adds by a policy in CEL."""

from __future__ import annotations

from pathlib import Path

from deployments import configured, deployed
from measures import Effort, Section, interleaved
from paths import connections

from pratique.apimachinery.json_values import JSONObject

LABEL = "bench.example.com/injected"
SIDECAR: JSONObject = {
    "name": "sidecar",
    "image": "registry.example/sidecar:1.0",
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}


def sidecar_policies() -> list[JSONObject]:
    """The label and the sidecar as a MutatingAdmissionPolicy: JSON Patches, because ``drop`` cannot be applied."""
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "sidecar"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    patches = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}} for patch in (_LABELLED, _INJECTED)
    ]
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "mutations": patches,
    }
    return [
        {**head, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "sidecar"}},
    ]


_LABELLED = f"""
has(object.metadata.labels)
? [JSONPatch{{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("{LABEL}"), value: "true"}}]
: [JSONPatch{{op: "add", path: "/metadata/labels", value: {{"{LABEL}": "true"}}}}]
"""
_INJECTED = """
object.spec.containers.exists(c, c.name == "sidecar") ? [] : [JSONPatch{
  op: "add", path: "/spec/containers/-", value: Object.spec.containers{
    name: "sidecar",
    image: "registry.example/sidecar:1.0",
    securityContext: Object.spec.containers.securityContext{
      allowPrivilegeEscalation: false,
      runAsNonRoot: true,
      capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]},
      seccompProfile: Object.spec.containers.securityContext.seccompProfile{type: "RuntimeDefault"}
    }
  }
}]
"""


def measure_mutating_policies(effort: Effort, folder: Path) -> Section:
    """``/mutate`` by that policy, with the review of 2 KB."""
    flags = configured(folder, "mutating", sidecar_policies(), "MutatingAdmissionPolicy")
    with deployed(flags) as ours:
        return interleaved({"/mutate": ours.target("/mutate")}, connections(1, 16), effort)
