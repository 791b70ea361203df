"""LimitPodHardAntiAffinityTopology: a Pod may keep others off its node, but not off a whole zone.

Source: ``plugin/pkg/admission/antiaffinity/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import member
from pratique.pods import pod_spec

HOSTNAME = "kubernetes.io/hostname"

_PATH = ("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def validate(review: Review) -> Answer:
    """Deny a required anti-affinity term whose topology is not the node; the first such term decides."""
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    terms = member(review.object, *_PATH)
    for term in terms if isinstance(terms, list) else ():
        key = member(term, "topologyKey") or ""
        if key != HOSTNAME:
            text = (
                f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key}"
                f" but only key {HOSTNAME} is allowed"
            )
            # The Pod's own name, which is still empty if it has a generateName.
            name = member(review.object, "metadata", "name") or ""
            resource = review.resource
            return deny(status=statuses.forbidden(resource.group, resource.resource, name, text))
    return allow()


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="LimitPodHardAntiAffinityTopology",
    summary=f"Denies Pods whose required anti-affinity reaches beyond a node ({HOSTNAME}).",
    phases=VALIDATE,
    rules=(rule("pods"),),
    build=_build,
    trusted=True,
)
