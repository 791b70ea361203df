from __future__ import annotations

from typing import TypeAlias

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSON, JSONObject, pointer
from pratique.apimachinery.statuses import StatusCause, StatusDetails, failure
from pratique_frontdoor.blame.changes import blame_document, blame_of
from support.blame_cases import decided, mutation

Denied: TypeAlias = "list[tuple[str, int | None]]"

POD: JSONObject = {
    "kind": "Pod",
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "web", "image": "web", "securityContext": {"runAsNonRoot": True}}],
        "hostPID": True,
    },
}
PATCHES: tuple[list[JSONObject], ...] = (
    [{"op": "replace", "path": "/spec/containers/0/image", "value": "mirror/web"}],
    [{"op": "add", "path": "/spec/containers/0", "value": {"name": "side", "image": "side"}}],
    [{"op": "remove", "path": "/spec/containers/1/securityContext/runAsNonRoot"}],
    [{"op": "add", "path": "/spec/containers/1/tty", "value": True}],
)
"""Of steps 0 to 3."""


def blamed(message: str, *causes: StatusCause, received: JSON = POD) -> Denied:
    """The path and last step of the fields that a denial after PATCHES names."""
    decision = decided(received, *PATCHES)
    status = failure(422, "Invalid", message, StatusDetails(causes=causes))
    denial = mutation(
        controller="Validator", phase=Phase.VALIDATE, outcome=OutcomeStatus.DENIED, reason=message
    )
    denied = msgspec.structs.replace(decision, allowed=False, status=status, steps=(*decision.steps, denial))
    found = blame_of(denied, received).denials
    assert {item.step for item in found} <= {4}
    return [(pointer(item.path), item.last_changed_by) for item in found]


def cause(field: str, message: str = "no") -> StatusCause:
    return StatusCause(reason="FieldValueInvalid", message=message, field=field)


@pytest.mark.parametrize(
    ("field", "blame"),
    [
        ("spec.containers[1].image", [("/spec/containers/1/image", 0)]),
        ("spec.containers[0].image", [("/spec/containers/0/image", 1)]),
        ("spec.containers[1]", [("/spec/containers/1", 3)]),
        ("spec.containers", [("/spec/containers", 3)]),
        ("spec.containers[1].securityContext", [("/spec/containers/1/securityContext", 2)]),
        ("spec.containers[1].securityContext.runAsNonRoot",
         [("/spec/containers/1/securityContext/runAsNonRoot", 2)]),
        ("metadata.labels[app]", [("/metadata/labels/app", None)]),
        ("metadata.labels[example.com/team]", [("/metadata/labels/example.com~1team", None)]),
        ("nothing.of.it", []),
        ("<nil>", []),
    ],
)  # fmt: skip
def test_the_field_of_a_cause_names_the_step_that_last_changed_it(field: str, blame: Denied) -> None:
    assert blamed("no", cause(field)) == blame


@pytest.mark.parametrize(
    ("message", "blame"),
    [
        ("pods is forbidden: spec.containers[1].image: Invalid value: no", [("/spec/containers/1/image", 0)]),
        ('x (container "web" must set securityContext.runAsNonRoot=true), host namespaces (hostPID=true)',
         [("/spec/containers/1/securityContext/runAsNonRoot", 2), ("/spec/hostPID", None)]),
        ('hostPort (container "side" uses hostPort 80)', [("/spec/containers/0", 1)]),
        ("images from elsewhere are not allowed", []),
        ("maximum cpu usage per Container is 1, but limit is 2", []),
        ('container "unknown" is bad', []),
    ],
)  # fmt: skip
def test_fields_are_read_from_the_message_of_a_denial(message: str, blame: Denied) -> None:
    assert blamed(message) == blame


def test_a_container_named_without_a_field_is_blamed_only_if_one_change_is_possible() -> None:
    assert blamed('hostPort (container "web" uses hostPort 80)') == []


def test_every_cause_has_its_own_field() -> None:
    assert blamed("no", cause("spec.containers[1].tty"), cause("spec.hostPID"), cause("spec.hostPID")) == [
        ("/spec/containers/1/tty", 3),
        ("/spec/hostPID", None),
    ]


def test_every_denial_names_its_step() -> None:
    decision = decided(POD, *PATCHES)
    denials = [
        mutation(
            controller=name, phase=Phase.VALIDATE, outcome=OutcomeStatus.DENIED, reason=f"{field}: {name}"
        )
        for name, field in (("First", "spec.hostPID"), ("Second", "spec.containers[1].image"))
    ]
    causes = tuple(StatusCause(message=denial.reason) for denial in denials)
    status = failure(403, "Forbidden", denials[0].reason, StatusDetails(causes=causes))
    decision = msgspec.structs.replace(
        decision, allowed=False, status=status, steps=(*decision.steps, *denials)
    )
    mutator = {"step": 0, "controller": "Mutator", "name": "Mutator", "configuration": "", "round": 0}
    assert blame_document(blame_of(decision, POD), decision)["denials"] == [
        {"step": 4, "controller": "First", "name": "First", "path": "/spec/hostPID", "lastChangedBy": None},
        {
            "step": 5,
            "controller": "Second",
            "name": "Second",
            "path": "/spec/containers/1/image",
            "lastChangedBy": mutator,
        },
    ]
