"""SecurityContextDeny: denies Pods that choose their user, groups or SELinux labels.

Source: ``plugin/pkg/admission/securitycontext/scdeny/admission.go`` of 1.29, the last release that had it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject, member
from pratique.pods import pod_spec

_POD_FIELDS = ("supplementalGroups", "seLinuxOptions", "runAsUser", "fsGroup")
_CONTAINER_FIELDS = ("seLinuxOptions", "runAsUser")
_GO_NAMES = {
    "supplementalGroups": "SupplementalGroups",
    "seLinuxOptions": "SELinuxOptions",
    "runAsUser": "RunAsUser",
    "fsGroup": "FSGroup",
}


def validate(review: Review) -> Answer:
    """Deny the first field that is set, even to an empty value."""
    pod = review.object
    if not pod_spec.is_pod(pod):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    field = next(_forbidden_fields(pod), None)
    if field is None:
        return allow()
    # Kubernetes does not fall back to the request's name or to generateName here.
    name = member(pod, "metadata", "name") or ""
    resource = review.resource
    status = statuses.forbidden(resource.group, resource.resource, str(name), f"{field} is forbidden")
    return deny(status=status)


def _forbidden_fields(pod: JSONObject) -> Iterator[str]:
    """The forbidden fields that are set, by their Go names, in the order in which Kubernetes looks."""
    for field in _POD_FIELDS:
        if member(pod, "spec", "securityContext", field) is not None:
            yield f"pod.Spec.SecurityContext.{_GO_NAMES[field]}"
    for kind, _, container in pod_spec.iter_containers(pod):
        # Kubernetes does not look at ephemeral containers here.
        for field in _CONTAINER_FIELDS if kind != "ephemeralContainers" else ():
            if member(container, "securityContext", field) is not None:
                yield f"SecurityContext.{_GO_NAMES[field]}"


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="SecurityContextDeny",
    summary="Denies Pods that choose their user, supplemental groups, fsGroup or SELinux labels.",
    phases=VALIDATE,
    rules=(rule("pods"),),
    build=_build,
    deprecated_in="1.27",
    removed_in="1.30",
    replaced_by="PodSecurity",
    trusted=True,
)
