from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import StatusCause, StatusDetails, failure
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import causes, field_of, original_field, parse_field

POD: JSONObject = {
    "metadata": {"name": "web", "labels": {"app/tier": "a"}},
    "spec": {
        "hostNetwork": True,
        "replicas": 3,
        "containers": [{"name": "web", "securityContext": {"privileged": True}}, {"name": "side"}],
        "initContainers": [{"name": "first"}],
        "volumes": [{"name": "data", "hostPath": {}}],
    },
}
DEPLOYMENT: JSONObject = {"spec": {"template": {"spec": POD["spec"]}}}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec", ("spec",)),
        ("spec.containers[1].image", ("spec", "containers", 1, "image")),
        ("metadata.labels[app/tier]", ("metadata", "labels", "app/tier")),
        ("", None),
        ("<nil>", None),
        ("spec..a", None),
        ("spec.a: Invalid value", None),
    ],
)
def test_field_paths_are_parsed_as_kubernetes_writes_them(
    text: str, path: tuple[str | int, ...] | None
) -> None:
    assert parse_field(text) == path


SIDE = ("spec", "containers", 1)


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ('pods "a" is forbidden: [spec.containers[1].image: Invalid value: "b": no, spec.x: no]', (*SIDE, "image")),
        ("metadata.labels[app/tier]: Forbidden", ("metadata", "labels", "app/tier")),
        ("it must hold that spec.replicas <= 5", ("spec", "replicas")),
        ("spec.replicas is more than spec.hostNetwork", None),
        ("status.phase: no", None),
        ("see https://spec.example.com/spec.html and docs.example.com", None),
        ('privileged (containers "side", "web" must not set securityContext.privileged=true)',
         (*SIDE, "securityContext", "privileged")),
        ('hostPort (container "first" uses hostPort 80)', ("spec", "initContainers", 0)),
        ('container "unknown" is bad', None),
        ("host namespaces (hostNetwork=true)", ("spec", "hostNetwork")),
        ('hostPath volumes (volume "data")', ("spec", "volumes", 0)),
        ("pod must not set securityContext.runAsUser=0", ("spec", "securityContext", "runAsUser")),
        ('pods "a" is forbidden: no', None),
    ],
)  # fmt: skip
def test_the_field_that_a_message_names_is_found(message: str, path: tuple[str | int, ...] | None) -> None:
    assert field_of(message, POD) == path


def test_the_pod_spec_of_a_workload_is_found() -> None:
    path = ("spec", "template", "spec", "containers", 1)
    assert field_of('container "side" uses hostPort 80', DEPLOYMENT) == path


def test_the_original_position_of_an_item_is_found_by_its_name() -> None:
    changed = {"spec": {"containers": [{"name": "new"}, *POD["spec"]["containers"]]}}
    assert original_field(("spec", "containers", 2, "image"), changed, POD) == ("spec", "containers", 1)
    assert original_field(("spec", "containers", 0), changed, POD) == ("spec", "containers")
    assert original_field(("spec", "replicas"), POD, POD) == ("spec", "replicas")


@pytest.mark.parametrize(
    ("field", "message", "text"),
    [
        ("spec", "exactly one must be specified", "spec: exactly one must be specified"),
        ("a", "spec.a is missing", "a: spec.a is missing"),
        ("spec.a", "spec.a is missing", "spec.a is missing"),
        ("spec", "[spec: Required value]", "[spec: Required value]"),
        ("", "no", "no"),
    ],
)
def test_a_cause_names_its_field_once(field: str, message: str, text: str) -> None:
    status = failure(422, "Invalid", "no", StatusDetails(causes=(StatusCause("", message, field),)))
    (cause,) = causes(Decision(uid="1", allowed=False, status=status), status)
    assert cause.text == text
