"""ResourceDefaults: limits every container without limits to one CPU and half a gibibyte.

Source: ``plugin/pkg/admission/resourcedefaults/admission.go`` of the releases before 1.0.
"""

from __future__ import annotations

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import FieldPath
from pratique.pods import pod_spec
from pratique.pods.resource_requirements import read_resource_list

DEFAULTS = {"memory": "512Mi", "cpu": "1"}
"""``defaultMemory`` and ``defaultCPU``, in the order in which they are set."""


def mutate(review: Review) -> Answer:
    """Set the limits of containers that are missing or zero. Init containers did not exist then."""
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    edits = Edits(review.object)
    for field, index, _ in pod_spec.iter_containers(review.object):
        if field != "containers":
            continue
        path = ("spec", field, index, "resources", "limits")
        limits = read_resource_list(edits.get(path), FieldPath(path))
        for name, default in DEFAULTS.items():
            if name not in limits or not limits[name].sign:
                edits.set((*path, name), default)
    return edits.answer()


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="ResourceDefaults",
    summary="Limits every container without limits to one CPU and 512 MiB.",
    phases=MUTATE,
    rules=(rule("pods"),),
    build=_build,
    removed_in="1.0",
    replaced_by="LimitRanger, with the default of a LimitRange",
    trusted=True,
)
