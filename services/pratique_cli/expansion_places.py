"""Expansion places: which lines of a workload a denial of its Pod is about."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.told_fields import fields_of, parse_field, written_field
from pratique.field_errors import FieldPath
from pratique.json_values import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.field_errors import Step
    from pratique.positions import Position
    from pratique.statuses import Status
    from pratique_cli.expansions import Expansion
    from pratique_cli.outputs import Reviewed


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A field of a workload."""

    field: str
    """Its path, such as ``spec.template.spec.containers[0].image``."""
    position: Position
    """Where it is written, or what is nearest to it where it is not."""


def template_position(reviewed: Reviewed, expansion: Expansion) -> Position:
    """Find the template that a Pod was made of."""
    return reviewed.document.position((*beginning_of(reviewed), *expansion.made.template))


def places(reviewed: Reviewed, expansion: Expansion) -> list[Place]:
    """Find the fields of a workload that the denial of its Pod names; none where it names none."""
    status = expansion.decision.status
    if status is None:
        return []
    pod = expansion.decision.object_document.data or expansion.made.document
    found = dict.fromkeys(_fields(status, pod))
    return [field_place(reviewed, expansion, path) for path in found]


def field_place(reviewed: Reviewed, expansion: Expansion, path: tuple[Step, ...]) -> Place:
    """Find in a workload the field of its Pod, such as ``("spec", "containers", 0, "image")``.

    The Pod is the one that the chain left. What controllers, webhooks or the workload's own mutations added to it is
    written nowhere; its place is that of what it was added to.
    """
    made = expansion.made
    pod = expansion.decision.object_document.data or made.document
    in_workload = made.field_in_workload(_reindexed(path, pod, made.document))
    beginning = beginning_of(reviewed)
    written = member(reviewed.document.data, *beginning)
    admitted = reviewed.decision.object_document.data or written
    position = reviewed.document.position((*beginning, *written_field(in_workload, admitted, written)))
    return Place(str(FieldPath(in_workload)), position)


def _reindexed(path: tuple[Step, ...], told: object, written: object) -> tuple[Step, ...]:
    """The path in the Pod as it was made: as far as that goes by the names of items, the rest as it is told."""
    found = written_field(path, told, written)
    rest = path[len(found) :]
    is_new = bool(rest) and isinstance(rest[0], int)
    return found if is_new else (*found, *rest)


def beginning_of(reviewed: Reviewed) -> tuple[str, ...]:
    """Where the workload stands in its document, which may be an AdmissionReview."""
    return ("request", "object") if reviewed.document.data.get("kind") == "AdmissionReview" else ()


def _fields(status: Status, pod: object) -> Iterator[tuple[Step, ...]]:
    causes = status.details.causes if status.details else ()
    for cause in causes:
        if path := parse_field(cause.field):
            yield path
    texts = dict.fromkeys([status.message, *(cause.message for cause in causes)])
    for text in texts:
        yield from fields_of(text, pod)
