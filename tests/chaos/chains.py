"""The chain of chaos tests: its controllers, third-party ones among them, its cluster, and two configurations."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pratique import Answer, Review, allow, deny, member, patch
from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.apimachinery.json_values import JSONObject
from support.controller_packages import lay_out

CONTROLLERS = (
    "NamespaceLifecycle",
    "LimitRanger",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "AlwaysPullImages",
    "Chaperone",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
)
"""None that draws names by chance or counts, so that a decision follows from the review alone."""
SLOW_SECONDS = 0.1
FIRST, SECOND = "first", "second"
"""The two configurations. The first refuses Pods of the tier gold, the second those of silver; each leaves its name."""
_TIERS = {FIRST: "gold", SECOND: "silver"}
PACKAGE = """
from chaos.chains import CHAPERONE as CONTROLLER
"""


MUTATED, JUDGED = "mutated", "judged"
"""The names of the chaperone's audit annotations, by phase."""


def ticket(uid: str, name: str) -> str:
    """The chaperone's annotation for a review, which only it can write."""
    return f"{uid} {name}"


async def _chaperone(review: Review) -> Answer:
    """Mark allowed objects; third-party and slow."""
    if member(review.object, "metadata", "annotations", "chaperone") == "slow":
        await asyncio.sleep(SLOW_SECONDS)
    seen = {MUTATED: ticket(review.uid, review.name)}
    if review.object is None:
        return allow(audit_annotations=seen)
    metadata = review.object["metadata"]
    labels = {**metadata.get("labels", {}), "chaperoned": "yes"}
    return patch({**review.object, "metadata": {**metadata, "labels": labels}}, audit_annotations=seen)


def _refuse(review: Review) -> Answer:
    """Deny Pods with an anti-affinity to all others."""
    alone = member(review.object, "metadata", "annotations", "chaperone") == "no"
    seen = {JUDGED: ticket(review.uid, review.name)}
    return deny("nobody goes alone", audit_annotations=seen) if alone else allow(audit_annotations=seen)


CHAPERONE = Controller(
    name="Chaperone",
    summary="Goes with every Pod.",
    phases=BOTH,
    build=lambda _: Handlers(mutate=_chaperone, validate=_refuse),
)


def _namespace(name: str, level: str) -> JSONObject:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


_LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits", "namespace": "open"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "50m"}}]},
}
_HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
CLUSTER = (
    _namespace("default", "privileged"),
    _namespace("open", "privileged"),
    _namespace("quiet", "baseline"),
    _namespace("strict", "restricted"),
    _LIMITS,
    _HIGH,
)


def configuration(name: str) -> list[JSONObject]:
    """The policies of one of the two configurations: equal names and rules, different expressions."""
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods"],
    }
    matching = {"resourceRules": [pods]}
    stamp = f'Object{{metadata: Object.metadata{{annotations: {{"configuration": "{name}"}}}}}}'
    stamping: dict[str, Any] = {
        "matchConstraints": matching,
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": stamp}}],
    }
    refusing = {
        "matchConstraints": matching,
        "failurePolicy": "Fail",
        "validations": [{"expression": f'object.metadata.labels.tier != "{_TIERS[name]}"'}],
    }
    return [
        _policy("MutatingAdmissionPolicy", "stamp", stamping),
        _policy("MutatingAdmissionPolicyBinding", "stamp", {"policyName": "stamp"}),
        _policy("ValidatingAdmissionPolicy", "tiers", refusing),
        _policy(
            "ValidatingAdmissionPolicyBinding",
            "tiers",
            {"policyName": "tiers", "validationActions": ["Deny"]},
        ),
    ]


def _policy(kind: str, name: str, spec: Any) -> JSONObject:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def write_documents(path: Path, documents: Any) -> Path:
    """Write documents to a file, whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    new.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
    new.replace(path)
    return path


@contextlib.contextmanager
def chaperone_installed(folder: Path) -> Iterator[Path]:
    """Install the package of the third-party controller for as long as this lasts; gives the folder that it is in."""
    place = lay_out(folder, "acme_chaperone", PACKAGE, chaperone="CONTROLLER")
    sys.path.insert(0, str(place))
    try:
        yield place
    finally:
        sys.path.remove(str(place))
