"""PodTolerationRestriction."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_toleration_restriction import (
    CONTROLLER,
    DEFAULTS_ANNOTATION,
    MEMORY_PRESSURE,
    WHITELIST_ANNOTATION,
)
from pratique.pods.tolerations import Toleration
from support import vector_cases
from support.admissions import BOTH, Admission, admit, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import container, pod
from support.strategies.pods import pods
from support.strategies.tolerations import lists

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}


def settings_of(case: JSONObject) -> JSON:
    """The cases of 1.16 contradict the others."""
    exact = case.get("era", "").startswith("legacy (before merge-by-superset")
    return {**case["config"], "exact": True} if exact else case["config"] or None


@pytest.mark.parametrize("case", vector_cases.plugin("PodTolerationRestriction"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review, settings_of(case), phases), case["expected"])


DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"}
OTHER = {**DEDICATED, "value": "other"}
ANY_DEDICATED = {"key": "dedicated", "operator": "Exists"}
PRESSURE = MEMORY_PRESSURE.document


def pod_with_tolerations(*tolerations: JSONObject, promised: bool = False) -> JSONObject:
    resources = {"requests": {"cpu": "1"}} if promised else {}
    return pod(container(resources=resources), tolerations=list(tolerations))


def in_namespace(review: Review, defaults: JSON = None, whitelist: JSON = None) -> Review:
    """A review in a namespace with annotations: strings as they are, everything else as JSON."""
    written = {DEFAULTS_ANNOTATION: defaults, WHITELIST_ANNOTATION: whitelist}
    annotations = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in written.items()
        if value is not None
    }
    metadata = {"name": "shop", "annotations": annotations}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return msgspec.structs.replace(review, cluster=ObjectStore([namespace]))


def create(reviewed: JSON, defaults: JSON = None, whitelist: JSON = None, **configuration: JSON) -> Admission:
    return admit(CONTROLLER, in_namespace(pod_review(reviewed), defaults, whitelist), configuration)


def tolerated(found: Admission) -> JSON:
    assert found.allowed
    return found.object["spec"]["tolerations"]


def test_every_default_is_appended_by_its_own_operation() -> None:
    found = create(pod_with_tolerations({"key": "own"}, promised=True), [DEDICATED])
    assert found.operations == (
        {"op": "add", "path": "/spec/tolerations/1", "value": DEDICATED},
        {"op": "add", "path": "/spec/tolerations/2", "value": PRESSURE},
    )


def test_tolerations_that_a_default_covers_are_removed() -> None:
    found = create(pod_with_tolerations({"key": "own"}, DEDICATED, OTHER), [ANY_DEDICATED])
    assert found.operations == (
        {"op": "remove", "path": "/spec/tolerations/2"},
        {"op": "remove", "path": "/spec/tolerations/1"},
        {"op": "add", "path": "/spec/tolerations/1", "value": ANY_DEDICATED},
    )


def test_without_anything_to_add_even_duplicates_stay() -> None:
    assert create(pod_with_tolerations(DEDICATED, DEDICATED)).operations == ()


@pytest.mark.parametrize(
    ("annotation", "configuration", "expected"),
    [
        (None, {"default": [DEDICATED]}, [DEDICATED]),
        ([OTHER], {"default": [DEDICATED]}, [OTHER]),
        ([], {"default": [DEDICATED]}, []),
        ("", {"default": [DEDICATED]}, []),
        ("null", {"default": [DEDICATED]}, []),
        ([], {"default": [DEDICATED], "emptyOverrides": False}, [DEDICATED]),
        ("", {"default": [DEDICATED], "emptyOverrides": False}, [DEDICATED]),
    ],
)
def test_the_namespace_overrides_the_settings(
    annotation: JSON, configuration: JSONObject, expected: JSON
) -> None:
    assert tolerated(create(pod_with_tolerations(), annotation, **configuration)) == expected


def test_pods_other_than_best_effort_tolerate_memory_pressure() -> None:
    assert tolerated(create(pod_with_tolerations(promised=True))) == [PRESSURE]
    assert tolerated(create(pod_with_tolerations())) == []


def test_an_update_adds_only_memory_pressure() -> None:
    reviewed = pod_with_tolerations(OTHER, promised=True)
    review = in_namespace(pod_review(reviewed, operation="UPDATE", old=reviewed), [DEDICATED])
    assert tolerated(admit(CONTROLLER, review)) == [OTHER, PRESSURE]


@pytest.mark.parametrize(
    ("whitelist", "configuration", "scope"),
    [
        ([DEDICATED], {}, "namespace"),
        ([DEDICATED], {"whitelist": [OTHER]}, "namespace"),
        (None, {"whitelist": [DEDICATED]}, "cluster"),
        ([DEDICATED], {"exact": True}, "namespace"),
        ([ANY_DEDICATED], {"exact": True}, "namespace"),
        ([ANY_DEDICATED], {}, None),
        ([], {"whitelist": [DEDICATED]}, None),
        ("", {"whitelist": [DEDICATED]}, None),
        ([OTHER], {"exact": True}, None),
    ],
)
@pytest.mark.parametrize("phase", BOTH)
def test_tolerations_missing_from_the_whitelist_are_a_plain_error(
    whitelist: JSON, configuration: JSONObject, scope: str | None, phase: Phase
) -> None:
    review = in_namespace(pod_review(pod_with_tolerations(OTHER)), None, whitelist)
    status = admit(CONTROLLER, review, configuration, [phase]).status
    if scope is None:
        assert status is None
    else:
        assert status is not None
        assert (status.code, status.reason) == (500, "")
        assert status.message == (
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            f" {scope} whitelist"
        )


def test_old_releases_deny_conflicts_with_the_namespace() -> None:
    status = create(pod_with_tolerations(OTHER), [DEDICATED], exact=True).status
    assert status is not None
    assert (status.code, status.message) == (500, "namespace tolerations and pod tolerations conflict")


def test_old_releases_unite_tolerations() -> None:
    found = create(pod_with_tolerations(DEDICATED, promised=True), [DEDICATED, ANY_DEDICATED], exact=True)
    assert tolerated(found) == [DEDICATED, ANY_DEDICATED, PRESSURE]


def test_old_releases_replace_tolerations_of_memory_pressure() -> None:
    own = {**PRESSURE, "operator": "Equal", "value": "high"}
    assert tolerated(create(pod_with_tolerations(own, DEDICATED, promised=True), exact=True)) == [
        DEDICATED,
        PRESSURE,
    ]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ("[", "unexpected end of JSON input"),
        ('{"key": "a"}', "json: cannot unmarshal object into Go value of type []v1.Toleration"),
        ('["a"]', "json: cannot unmarshal string into Go value of type v1.Toleration"),
    ],
)
def test_a_malformed_annotation_is_a_plain_error(annotation: str, text: str) -> None:
    for found in (
        create(pod_with_tolerations(), annotation),
        create(pod_with_tolerations(DEDICATED), None, annotation),
    ):
        assert found.status is not None
        assert (found.status.code, found.status.reason, found.status.message) == (500, "", text)


def test_a_missing_namespace_is_not_found() -> None:
    review = msgspec.structs.replace(pod_review(pod_with_tolerations()), cluster=ObjectStore())
    status = admit(CONTROLLER, review).status
    assert status is not None
    assert (status.code, status.message) == (404, 'namespaces "shop" not found')


def test_a_missing_namespace_is_ignored_if_nothing_is_looked_up_in_it() -> None:
    review = msgspec.structs.replace(
        pod_review(pod_with_tolerations(), operation="UPDATE", old=pod_with_tolerations()),
        cluster=ObjectStore(),
    )
    assert admit(CONTROLLER, review).allowed


@pytest.mark.parametrize("subresource", ["status", "binding"])
def test_subresources_are_ignored(subresource: str) -> None:
    review = in_namespace(
        pod_review(pod_with_tolerations(promised=True), subresource=subresource), [DEDICATED]
    )
    assert admit(CONTROLLER, review).operations == ()


def test_objects_other_than_pods_are_ignored() -> None:
    assert create({"kind": "Service"}, [DEDICATED], [DEDICATED]).operations == ()


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        (
            {"default": [{"key": "a", "operator": "Lt"}]},
            "podtolerationrestriction.default[0].operator: Unsupported",
        ),
        ({"whitelist": [{}]}, "podtolerationrestriction.whitelist[0].operator: Invalid value"),
        ({"default": [{"seconds": 1}]}, 'unknown field "default[0].seconds"'),
        ({"kind": "Config"}, "apiVersion, kind: must be podtolerationrestriction.admission.k8s.io/v1alpha1"),
        (
            {"whiteList": []},
            'unknown field "whiteList"; known fields: apiVersion, kind, default, whitelist, exact',
        ),
    ],
)
def test_invalid_settings_are_rejected_with_their_field(configuration: JSONObject, text: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        admit(CONTROLLER, pod_review(pod_with_tolerations()), configuration)
    assert text in str(fault.value)


@given(pods(), st.none() | lists(), st.none() | lists(), st.sampled_from(["CREATE", "UPDATE"]), st.booleans())
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject,
    own: list[Toleration] | None,
    defaults: list[Toleration] | None,
    operation: str,
    exact: bool,  # noqa: FBT001 - hypothesis passes arguments by position
) -> None:
    if own is not None:
        written = [toleration.document for toleration in own]
        reviewed = {**reviewed, "spec": {**reviewed.get("spec", {}), "tolerations": written}}
    annotation = None if defaults is None else [toleration.document for toleration in defaults]
    review = in_namespace(pod_review(reviewed, operation=operation, old=reviewed), annotation)
    found = admitted_twice(CONTROLLER, review, {"exact": exact})
    assert found.allowed or exact
