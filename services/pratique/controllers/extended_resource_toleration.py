"""ExtendedResourceToleration: lets Pods that request a device tolerate the taint of the nodes that have it.

Source: ``plugin/pkg/admission/extendedresourcetoleration/admission.go``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import quantities, statuses
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSONObject, member
from pratique.pods import pod_spec, tolerations
from pratique.pods.tolerations import EXISTS, NO_SCHEDULE, Toleration

_FIELDS = ("containers", "initContainers")
"""Ephemeral containers cannot request resources."""


def mutate(review: Review) -> Answer:
    """Add a toleration for each extended resource that a container requests, in the order of their names."""
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(f"expected *core.Pod but got {go_type(review.object)}"))
    edits = Edits(review.object)
    places: dict[Toleration, list[int]] = defaultdict(list)
    for index, present in enumerate(tolerations.pod_tolerations(review.object)):
        places[msgspec.structs.replace(present, toleration_seconds=None)].append(index)
    for name in sorted(set(_extended_resources(review.object))):
        wanted = Toleration(key=name, operator=EXISTS, effect=NO_SCHEDULE)
        _tolerate(edits, wanted, places.get(wanted, ()))
    return edits.answer()


def _tolerate(edits: Edits, wanted: Toleration, places: Sequence[int]) -> None:
    """Add a toleration unless the Pod has it at ``places``. If the one it has expires, make it permanent."""
    for index in places:
        edits.remove((*tolerations.PATH, index, "tolerationSeconds"))
    if not places:
        edits.append(tolerations.PATH, wanted.document)


def _extended_resources(pod: JSONObject) -> Iterator[str]:
    for field, _, container in pod_spec.iter_containers(pod):
        requests = member(container, "resources", "requests")
        if field in _FIELDS and isinstance(requests, dict):
            yield from filter(quantities.is_extended_resource, requests)


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="ExtendedResourceToleration",
    summary="Lets Pods that request an extended resource tolerate the taint of its name.",
    phases=MUTATE,
    rules=(rule("pods"),),
    build=_build,
    trusted=True,
)
