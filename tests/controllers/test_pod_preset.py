"""PodPreset."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_preset import CONTROLLER
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import pod
from support.strategies.pods import optional, pods

PREFIX = "podpreset.admission.kubernetes.io"


@pytest.mark.parametrize("case", vector_cases.plugin("PodPreset"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"], ObjectStore(case["cluster"]))), case["expected"])


def preset(name: str, selector: JSON = None, *, namespace: str = "shop", **spec: JSON) -> JSONObject:
    return {
        "apiVersion": "settings.k8s.io/v1alpha1",
        "kind": "PodPreset",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "7"},
        "spec": {"selector": {"matchLabels": {"app": "web"}} if selector is None else selector, **spec},
    }


def selected_pod(
    annotations: JSON = None, init: JSON = None, volumes: JSON = None, **fields: JSON
) -> JSONObject:
    """A Pod that the presets select, with a container of these fields."""
    spec = {"initContainers": init, "volumes": volumes}
    written = {name: value for name, value in spec.items() if value is not None}
    return pod({"name": "c", **fields}, labels={"app": "web"}, annotations=annotations, **written)


def create(reviewed: JSON, *presets: JSONObject, configuration: JSON = None) -> Admission:
    review = msgspec.structs.replace(pod_review(reviewed), cluster=ObjectStore(presets))
    return admitted_twice(CONTROLLER, review, configuration)


ENV = {"name": "DATABASE", "value": "db"}
OTHER_ENV = {"name": "DATABASE", "value": "other"}
MOUNT = {"name": "cache", "mountPath": "/cache"}
VOLUME = {"name": "cache", "emptyDir": {}}
SOURCE = {"configMapRef": {"name": "settings"}}
EVERYTHING: JSONObject = {"env": [ENV], "volumeMounts": [MOUNT], "envFrom": [SOURCE], "volumes": [VOLUME]}


def test_every_list_of_a_preset_is_injected() -> None:
    old = {"name": "A", "value": "a"}
    reviewed = selected_pod({"a": "b"}, init=[{"name": "i"}], volumes=[{"name": "v"}], env=[old])
    found = create(reviewed, preset("db", **EVERYTHING))
    assert found.operations == (
        {"op": "add", "path": "/spec/volumes/1", "value": VOLUME},
        {"op": "add", "path": "/spec/containers/0/env/1", "value": ENV},
        {"op": "add", "path": "/spec/containers/0/volumeMounts", "value": [MOUNT]},
        {"op": "add", "path": "/spec/containers/0/envFrom", "value": [SOURCE]},
        {"op": "add", "path": "/spec/initContainers/0/env", "value": [ENV]},
        {"op": "add", "path": "/spec/initContainers/0/volumeMounts", "value": [MOUNT]},
        {"op": "add", "path": "/spec/initContainers/0/envFrom", "value": [SOURCE]},
        {"op": "add", "path": f"/metadata/annotations/{PREFIX}~1podpreset-db", "value": "7"},
    )


def test_init_containers_can_be_excluded_as_before_1_14() -> None:
    reviewed = selected_pod(init=[{"name": "i"}])
    found = create(reviewed, preset("db", env=[ENV]), configuration={"initContainers": False})
    assert found.object["spec"]["initContainers"] == [{"name": "i"}]
    assert found.object["spec"]["containers"] == [{"name": "c", "env": [ENV]}]


def test_presets_are_merged_in_the_order_of_their_names() -> None:
    second = {"name": "B", "value": "b"}
    found = create(selected_pod(), preset("b", env=[second, ENV]), preset("a", env=[ENV]))
    assert found.object["spec"]["containers"][0]["env"] == [ENV, second]
    assert found.object["metadata"]["annotations"] == {
        f"{PREFIX}/podpreset-a": "7",
        f"{PREFIX}/podpreset-b": "7",
    }


def test_a_preset_that_injects_nothing_still_sets_its_annotation() -> None:
    found = create(selected_pod(), preset("empty"))
    assert found.object == selected_pod({f"{PREFIX}/podpreset-empty": "7"})


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({}, True),
    ],
)
def test_a_preset_applies_only_to_pods_that_it_selects(selector: JSONObject, *, matches: bool) -> None:
    assert bool(create(selected_pod(), preset("db", selector, env=[ENV])).operations) is matches


def test_presets_of_other_namespaces_are_ignored() -> None:
    assert create(selected_pod(), preset("db", namespace="other", env=[ENV])).operations == ()


@pytest.mark.parametrize("annotations", [{f"{PREFIX}/exclude": "true"}, {"kubernetes.io/config.mirror": "x"}])
def test_mirror_pods_and_excluded_pods_are_ignored(annotations: JSONObject) -> None:
    assert create(selected_pod(annotations), preset("db", env=[ENV])).operations == ()


def test_only_the_exact_word_true_excludes_a_pod() -> None:
    assert create(selected_pod({f"{PREFIX}/exclude": "yes"}), preset("db", env=[ENV])).operations


def projected(*secrets: JSONObject) -> JSONObject:
    return {"name": "all", "projected": {"sources": [{"secret": secret} for secret in secrets]}}


@pytest.mark.parametrize(
    ("reviewed", "spec"),
    [
        (selected_pod(env=[ENV]), {"env": [ENV]}),
        (selected_pod(env=[{"name": "A"}]), {"env": [{"name": "A", "value": ""}]}),
        (selected_pod(volumeMounts=[{**MOUNT, "readOnly": False}]), {"volumeMounts": [MOUNT]}),
        (selected_pod(volumes=[VOLUME]), {"volumes": [VOLUME]}),
        (selected_pod(envFrom=[{**SOURCE, "prefix": ""}]), {"envFrom": [SOURCE]}),
        (
            selected_pod(volumes=[projected({"name": "a", "optional": None})]),
            {"volumes": [projected({"name": "a"})]},
        ),
    ],
)
def test_items_that_are_there_already_are_not_added(reviewed: JSON, spec: JSONObject) -> None:
    (annotation,) = create(reviewed, preset("db", **spec)).operations
    assert annotation["path"].startswith("/metadata/annotations")


@pytest.mark.parametrize(
    ("reviewed", "spec", "conflict"),
    [
        (selected_pod(env=[OTHER_ENV]), {"env": [ENV]}, "merging env for db has a conflict on DATABASE"),
        (
            selected_pod(volumes=[projected({"name": "a"}, {"name": "b"})]),
            {"volumes": [projected({"name": "b"}, {"name": "a"})]},
            "merging volumes for db has a conflict on all",
        ),
        (
            selected_pod(volumeMounts=[{"name": "cache", "mountPath": "/other"}]),
            {"volumeMounts": [MOUNT]},
            "merging volume mounts for db has a conflict on cache",
        ),
        (
            selected_pod(volumeMounts=[{"name": "other", "mountPath": "/cache"}]),
            {"volumeMounts": [MOUNT]},
            "merging volume mounts for db has a conflict on mount path /cache",
        ),
        (
            selected_pod(volumeMounts=[{**MOUNT, "readOnly": True}]),
            {"volumeMounts": [MOUNT]},
            (
                "[merging volume mounts for db has a conflict on cache,"
                " merging volume mounts for db has a conflict on mount path /cache]"
            ),
        ),
        (
            selected_pod(volumes=[{"name": "cache", "hostPath": {"path": "/"}}]),
            {"volumes": [VOLUME], "env": [ENV]},
            "merging volumes for db has a conflict on cache",
        ),
        (
            selected_pod(envFrom=[{"configMapRef": {"name": "settings", "optional": True}}]),
            {"envFrom": [SOURCE]},
            "merging envFrom for db has a conflict",
        ),
        (
            selected_pod(init=[{"name": "i", "env": [OTHER_ENV]}]),
            {"env": [ENV]},
            "merging env for db has a conflict on DATABASE",
        ),
    ],
)
def test_a_conflict_leaves_the_pod_unchanged_and_warns(
    reviewed: JSON, spec: JSONObject, conflict: str
) -> None:
    found = create(reviewed, preset("db", **spec))
    assert found.allowed
    assert found.operations == ()
    assert found.warnings == (f"conflict occurred while applying podpresets: db: {conflict}",)


def test_conflicting_presets_are_all_left_out() -> None:
    found = create(selected_pod(), preset("a", env=[ENV]), preset("b", env=[OTHER_ENV]))
    assert found.operations == ()
    assert found.warnings == (
        "conflict occurred while applying podpresets: a,b: merging env for b has a conflict on DATABASE",
    )


def test_a_warning_contains_no_values() -> None:
    (warning,) = create(selected_pod(env=[OTHER_ENV]), preset("db", env=[ENV])).warnings
    assert "other" not in warning
    assert "'db'" not in warning


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (
            {
                "matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "a", "operator": "Like", "values": ["x", "y"]}],
            },
            '"Like" is not a valid label selector operator for selector: {map[a:1 b:2] [{a Like [x y]}]}',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            (
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                " for selector: {map[] [{a In []}]}"
            ),
        ),
    ],
)
def test_an_invalid_selector_is_a_plain_error(selector: JSONObject, text: str) -> None:
    status = create(selected_pod(), preset("db", selector)).status
    assert status is not None
    assert (status.code, status.reason) == (500, "")
    assert status.message == f"filtering pod presets failed: label selector conversion failed: {text}"


@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "Resource was marked with kind Pod but was unable to be converted"


@pytest.mark.parametrize("subresource", ["", "status"])
def test_updates_and_subresources_are_ignored(subresource: str) -> None:
    operation = "CREATE" if subresource else "UPDATE"
    review = pod_review(selected_pod(), operation=operation, old=selected_pod(), subresource=subresource)
    review = msgspec.structs.replace(review, cluster=ObjectStore([preset("db", env=[ENV])]))
    assert admit(CONTROLLER, review).operations == ()


@pytest.mark.parametrize("metadata", [None, {"annotations": "x"}, {"labels": ["app"]}])
def test_malformed_metadata_causes_no_failure(metadata: JSON) -> None:
    reviewed = {"kind": "Pod", "metadata": metadata, "spec": {"containers": ["x"], "volumes": 1}}
    review = msgspec.structs.replace(pod_review(reviewed), cluster=ObjectStore([preset("db", env=[ENV])]))
    assert admit(CONTROLLER, review).operations == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": ["x"]}, "spec.containers[0]: must be a mapping, not a string"),
        ({"containers": [{"env": "x"}]}, "spec.containers[0].env: must be a list, not a string"),
    ],
)
def test_a_malformed_list_in_the_pod_is_a_bad_request(spec: JSONObject, message: str) -> None:
    status = create({**selected_pod(), "spec": spec}, preset("db", env=[ENV])).status
    assert status is not None
    assert (status.code, status.message) == (400, message)


@pytest.mark.parametrize("containers", [None, 5, {"name": "c"}])
def test_containers_that_are_not_a_list_get_nothing(containers: JSON) -> None:
    found = create({**selected_pod(), "spec": {"containers": containers}}, preset("db", env=[ENV]))
    assert found.object["spec"] == {"containers": containers}


def lists(of: st.SearchStrategy[JSONObject]) -> st.SearchStrategy[list[JSONObject]]:
    return st.lists(of, max_size=2)


NAMES = st.sampled_from("ab")
INJECTED: dict[str, st.SearchStrategy[JSON]] = {
    "env": lists(optional({"name": NAMES}, value=st.sampled_from(["", "x"]))),
    "envFrom": lists(optional({}, prefix=NAMES, secretRef=optional({"name": NAMES}, optional=st.booleans()))),
    "volumeMounts": lists(st.fixed_dictionaries({"name": NAMES, "mountPath": st.sampled_from(["/a", "/b"])})),
}
VOLUMES = lists(optional({"name": NAMES}, emptyDir=st.just({})))
PRESETS = st.lists(optional({}, volumes=VOLUMES, **INJECTED), max_size=2)


@given(pods(), optional({}, **INJECTED), PRESETS)
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject, wanted: JSONObject, specs: list[JSONObject]
) -> None:
    spec = reviewed.get("spec", {})
    containers = [{**container, **wanted} for container in spec.get("containers", [])]
    found = create(
        {**reviewed, "spec": {**spec, "containers": containers}},
        *(preset(str(index), {}, **injected) for index, injected in enumerate(specs)),
    )
    assert found.allowed
    assert not (found.operations and found.warnings)
