"""Peers on the same work: the restricted level of Pod Security, and a label and a sidecar.

Reviews, certificate and load are the same for all. Ours decides by the PodSecurity controller in a validator and a
MutatingAdmissionPolicy in a mutator, each a gRPC call away; and by the same two in one process. Who decides otherwise
on any of twenty reviews is not measured.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonpatch
from deployments import Certificate, Deployment, configured, deployed, deployed_in_one
from measures import HERE, Effort, Section, Shape, Target, interleaved, tell
from paths import connections
from peer_installs import NotInstallableError
from peer_servers import SERVERS, Peer, post
from sidecars import LABEL, SIDECAR, sidecar_policies

from pratique.apimachinery.json_values import JSONObject

OURS, IN_ONE = "Pratique", "Pratique, one process"
PHASES = ("validate", "mutate")
CASES = (
    *("base_linux", "capabilities_restricted0", "hostPorts0", "restrictedVolumes0", "runAsNonRoot0"),
    *("runAsNonRoot1", "runAsUser0", "seLinuxOptions1", "seccompProfile_restricted0", "sysctls0"),
)
"""Kubernetes' own cases of what the restricted level lets pass, and below of what it refuses."""
REFUSED = (
    *("allowPrivilegeEscalation0", "capabilities_baseline0", "capabilities_restricted0", "hostNamespaces0"),
    *("hostPathVolumes0", "hostPorts0", "privileged0", "runAsNonRoot0", "runAsUser0"),
    "seccompProfile_restricted0",
)
_FIXTURES = HERE.parent / "tests" / "data" / "pod_security" / "fixtures.jsonl"


def reviews() -> dict[str, tuple[bool, JSONObject]]:
    """Twenty reviews by the names of their cases, and whether the restricted level lets them pass."""
    wanted = {f"restricted/pass/{name}" for name in CASES} | {f"restricted/fail/{name}" for name in REFUSED}
    cases = (json.loads(line) for line in _FIXTURES.read_text("utf-8").splitlines())
    return {
        case["case"]: ("/pass/" in case["case"], review_of(case["pod"]))
        for case in cases
        if case["case"] in wanted and case["to"] == max(case["to"], 37)
    }


def review_of(pod: JSONObject) -> JSONObject:
    """The review of its creation, after the one that everything else here is measured by."""
    document: JSONObject = json.loads((HERE / "review.json").read_text())
    metadata = {"name": "web", "namespace": "default", **pod.get("metadata", {})}
    document["request"]["object"] = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}
    return document


def differences(targets: dict[str, Target]) -> list[str]:
    """Say on which reviews somebody decides otherwise than Kubernetes, or leaves another object."""
    found = []
    for name, (allowed, review) in reviews().items():
        body = json.dumps(review).encode()
        answer = _answer(targets["validate"], body)
        if answer.get("allowed") is not allowed:
            found.append(f"{name}: {'refused' if allowed else 'allowed'}")
        pod = review["request"]["object"]
        if _patched(pod, _answer(targets["mutate"], body)) != _wanted(pod):
            found.append(f"{name}: another object")
    return found


def _answer(target: Target, body: bytes) -> JSONObject:
    status, answer = post(target.port, target.path, body)
    return dict(json.loads(answer)["response"]) if status == 200 else {}


def _patched(pod: JSONObject, answer: JSONObject) -> object:
    if not answer.get("allowed") or "patch" not in answer:
        return None
    changed = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(answer["patch"])))
    annotations = changed["metadata"].get("annotations", {})
    for name in [name for name in annotations if ".pepr.dev/" in name]:
        del annotations[name]  # Pepr notes which of its capabilities have run
    return _compared(changed)


def _wanted(pod: JSONObject) -> object:
    labels = {**pod["metadata"].get("labels", {}), LABEL: "true"}
    return _compared(
        {
            **pod,
            "metadata": {**pod["metadata"], "labels": labels},
            "spec": {**pod["spec"], "containers": [*pod["spec"]["containers"], SIDECAR]},
        }
    )


def _compared(pod: Any) -> object:
    """What is compared: all of it, but for fields whose value is nothing, which some writers leave out."""
    if isinstance(pod, dict):
        return {key: _compared(value) for key, value in pod.items() if value not in (None, {}, [])}
    return [_compared(each) for each in pod] if isinstance(pod, list) else pod


def measure_contests(
    effort: Effort,
    folder: Path,
    certificate: Certificate,
    names: Iterable[str],
    left_out: dict[str, str],
) -> Section:
    """Figures of ours and of each peer, by phase; why a peer is none of them is put into ``left_out``."""
    flags = configured(folder, "contest", sidecar_policies(), "PodSecurity,MutatingAdmissionPolicy")
    chain = (*flags, "--pod-security", "restricted")
    with contextlib.ExitStack() as running:
        contestants: dict[str, dict[str, Target]] = {}
        for name, deploy in ((OURS, deployed), (IN_ONE, deployed_in_one)):
            ours = running.enter_context(deploy(chain, certificate=certificate))
            _enter(name, ours, contestants, left_out)
        for name in names:
            try:
                peer = running.enter_context(SERVERS[name](certificate, folder))
            except (NotInstallableError, TimeoutError) as error:
                left_out[name] = str(error)
            else:
                _enter(name, peer, contestants, left_out)
        return _measured(contestants, effort, folder)


def _enter(
    name: str, who: Deployment | Peer, contestants: dict[str, dict[str, Target]], left_out: dict[str, str]
) -> None:
    tell(f"twenty reviews: {name}")
    targets = {phase: who.target(phase if isinstance(who, Peer) else f"/{phase}") for phase in PHASES}
    if otherwise := differences(targets):
        left_out[name] = f"decides otherwise: {'; '.join(otherwise)}"
    else:
        contestants[name] = targets


def _measured(contestants: dict[str, dict[str, Target]], effort: Effort, folder: Path) -> Section:
    body = folder / "contest.json"
    _, review = reviews()["restricted/pass/base_linux"]
    body.write_text(json.dumps(review))
    targets = {
        f"{name}, {phase}": target
        for name, targets in contestants.items()
        for phase, target in targets.items()
    }
    shapes = {title: Shape(shape.connections, body) for title, shape in connections(1, 16).items()}
    return interleaved(targets, shapes, effort)
