"""Kubernetes' own examples of idempotent mutators, and of mutators that are not idempotent."""

import time

from pratique import Answer, Edits, Review, allow, deny, member, mutator, rule

PODS = rule("pods", operations=("CREATE",))
LIMITS = {"cpu": "500m", "memory": "128Mi"}
SIDECAR = {"name": "foo-sidecar", "image": "registry.example/sidecar:1.0", "resources": {"limits": LIMITS}}


@mutator("RunAsNonRoot", PODS)
def run_as_non_root(review: Review) -> Answer:
    """Always sets a field to the same value."""
    edits = Edits(review.object)
    edits.set(("spec", "securityContext", "runAsNonRoot"), value=True)
    return edits.answer()


@mutator("DefaultLimits", PODS)
def default_limits(review: Review) -> Answer:
    """Sets limits on containers without limits."""
    edits = Edits(review.object)
    for index, container in enumerate(review.object["spec"]["containers"]):
        if not member(container, "resources", "limits"):
            edits.set(("spec", "containers", index, "resources", "limits"), LIMITS)
    return edits.answer()


@mutator("SidecarOnce", PODS)
def sidecar_once(review: Review) -> Answer:
    """Adds a sidecar unless a container already has its name."""
    if any(container["name"] == SIDECAR["name"] for container in review.object["spec"]["containers"]):
        return allow()
    return with_container(review, SIDECAR)


@mutator("SidecarByTime", PODS)
def sidecar_by_time(review: Review) -> Answer:
    """Adds a sidecar with a new name every time."""
    return with_container(review, SIDECAR | {"name": f"foo-sidecar-{time.time_ns()}"})


@mutator("EnvOrNothing", rule("pods"))
def env_or_nothing(review: Review) -> Answer:
    """Sets a label, and denies Pods that already have it."""
    labels = member(review.object, "metadata", "labels") or {}
    if "env" in labels:
        return deny("label env is not yours to set")
    edits = Edits(review.object)
    edits.set(("metadata", "labels", "env"), "prod")
    return edits.answer()


@mutator("SidecarBlindly", PODS)
def sidecar_blindly(review: Review) -> Answer:
    """Adds a sidecar without checking whether there is one."""
    return with_container(review, SIDECAR)


def with_container(review: Review, container: dict) -> Answer:
    edits = Edits(review.object)
    edits.append(("spec", "containers"), container)
    return edits.answer()
