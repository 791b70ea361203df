"""DenyEscalatingExec: denies exec and attach to Pods from which a user could reach the node.

Source: ``plugin/pkg/admission/exec/admission.go`` of 1.20, the last release that had it.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject, member
from pratique.pods import pod_spec

RULES = (rule("pods/exec", "pods/attach", operations=("CONNECT",)),)
"""The requests that open a session in a running Pod. Port forwarding and proxying do not."""

_HOST_IDS = (("hostPID", "pid"), ("hostIPC", "ipc"))
_HOST_NETWORK = ("hostNetwork", "network")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    check_host_network: bool = True
    """Also deny Pods on the node's network, as 1.10 and later do. False: as earlier releases do."""


def validate(settings: Settings, review: Review) -> Answer:
    """Deny if the Pod shares a namespace with its node or has a privileged container."""
    pod = connected_pod(review)
    if isinstance(pod, Deny):
        return pod
    checked = (_HOST_NETWORK, *_HOST_IDS) if settings.check_host_network else _HOST_IDS
    for field, shared in checked:
        if member(pod, "spec", field) is True:
            return deny(f"cannot exec into or attach to a container using host {shared}")
    return refuse_privileged(pod)


def connected_pod(review: Review) -> JSONObject | Deny:
    """The Pod that the user wants to connect to, or the denial if it does not exist.

    The review's object holds only the options of the connection, not the Pod.
    """
    pod = review.cluster.get("", "pods", review.name, review.namespace)
    if pod is None:
        return deny(statuses.not_found("", "pods", review.name).message)
    return pod


def refuse_privileged(pod: JSONObject) -> Answer:
    """Deny if any container is privileged, whichever container the request names."""
    # The plugin predates ephemeral containers, and ignores them.
    for field, _, container in pod_spec.iter_containers(pod):
        privileged = member(container, "securityContext", "privileged") is True
        if privileged and field != "ephemeralContainers":
            return deny("cannot exec into or attach to a privileged container")
    return allow()


def _build(settings: Settings) -> Handlers:
    return Handlers(validate=functools.partial(validate, settings))


CONTROLLER = Controller(
    name="DenyEscalatingExec",
    summary="Denies exec and attach to Pods that are privileged or share the node's network, processes or IPC.",
    phases=VALIDATE,
    rules=RULES,
    build=_build,
    settings=Settings,
    looks_up=("pods",),
    deprecated_in="1.14",
    removed_in="1.21",
    replaced_by="PodSecurity",
    trusted=True,
)
