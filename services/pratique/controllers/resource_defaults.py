"""ResourceDefaults: one processor and half a gibibyte for every container that sets no limits.

Source: ``plugin/pkg/admission/resourcedefaults/admission.go`` of the releases before 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import pods, statuses
from pratique.answers import Answer, deny
from pratique.definitions import MUTATE, Controller, Halves, NoSettings
from pratique.demands import read_list
from pratique.edits import Edits
from pratique.field_errors import FieldPath
from pratique.rules import rule

if TYPE_CHECKING:
    from pratique.reviews import Review

DEFAULTS = {"memory": "512Mi", "cpu": "1"}
"""``defaultMemory`` and ``defaultCPU``, in the order in which they are set."""


def mutate(review: Review) -> Answer:
    """Set the limits of containers that are missing or zero; init containers did not exist."""
    if not pods.is_pod(review.object):
        return deny(status=statuses.bad_request(pods.NOT_A_POD))
    edits = Edits(review.object)
    for field, index, _ in pods.containers(review.object):
        if field != "containers":
            continue
        path = ("spec", field, index, "resources", "limits")
        limits = read_list(edits.get(path), FieldPath(path))
        for name, default in DEFAULTS.items():
            if name not in limits or not limits[name].sign:
                edits.set((*path, name), default)
    return edits.answer()


def _build(_: NoSettings) -> Halves:
    return Halves(mutate=mutate)


CONTROLLER = Controller(
    name="ResourceDefaults",
    summary="Limits every container that sets no limits to one processor and 512 MiB.",
    phases=MUTATE,
    rules=(rule("pods"),),
    build=_build,
    removed_in="1.0",
    replaced_by="LimitRanger, with the default of a LimitRange",
    trusted=True,
)
