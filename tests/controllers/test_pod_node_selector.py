"""PodNodeSelector."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.controllers.pod_node_selector import ANNOTATION, CONTROLLER
from support import vector_cases
from support.admissions import BOTH, Admission, admit, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import pod
from support.strategies.pods import pods

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}
CONFLICT = "pod node label selector conflicts with its namespace node label selector"
NOT_ALLOWED = "pod node label selector labels conflict with its namespace whitelist"


@pytest.mark.parametrize("case", vector_cases.plugin("PodNodeSelector"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review, case["config"] or None, phases), case["expected"])


def pod_with_selector(**selector: str) -> JSONObject:
    return pod(nodeSelector=selector)


def in_namespace(review: Review, annotation: str | None = None) -> Review:
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    metadata = {"name": "shop", "annotations": annotations}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return msgspec.structs.replace(review, cluster=ObjectStore([namespace]))


def create(reviewed: JSON, annotation: str | None = None, **selectors: str) -> Admission:
    settings_ = {"podNodeSelectorPluginConfig": selectors}
    return admit(CONTROLLER, in_namespace(pod_review(reviewed), annotation), settings_)


def test_every_label_of_the_namespace_is_added_by_its_own_operation() -> None:
    assert create(pod_with_selector(env="test"), "infra = true, env=test").operations == (
        {"op": "add", "path": "/spec/nodeSelector/infra", "value": "true"},
    )


@pytest.mark.parametrize("spec", [None, {}, {"nodeSelector": None}])
def test_a_pod_without_a_selector_gets_one(spec: JSON) -> None:
    found = create({"kind": "Pod", "spec": spec}, "a=1,b=2")
    assert found.object["spec"] == {"nodeSelector": {"a": "1", "b": "2"}}


@pytest.mark.parametrize(
    ("annotation", "expected"), [(None, {"env": "dev"}), ("", {}), ("env=prod", {"env": "prod"})]
)
def test_an_annotation_overrides_the_default_of_the_cluster(
    annotation: str | None, expected: JSONObject
) -> None:
    found = create(pod_with_selector(), annotation, clusterDefaultNodeSelector="env=dev")
    assert found.object["spec"]["nodeSelector"] == expected


def validate(reviewed: JSON, annotation: str, **selectors: str) -> Admission:
    configuration = {"podNodeSelectorPluginConfig": selectors}
    return admit(CONTROLLER, in_namespace(pod_review(reviewed), annotation), configuration, [Phase.VALIDATE])


@pytest.mark.parametrize("ask", [create, validate])
@pytest.mark.parametrize(
    ("reviewed", "annotation", "selectors", "text"),
    [
        (pod_with_selector(env="prod"), "env=dev", {}, CONFLICT),
        (pod_with_selector(env="prod"), "", {"shop": "env=dev"}, NOT_ALLOWED),
        (pod_with_selector(a="1"), "env=dev", {"shop": "env=dev"}, NOT_ALLOWED),
        (pod_with_selector(env="dev"), "env=dev", {"shop": "env=dev, a=1"}, None),
        (pod_with_selector(a="1"), "env=dev", {"shop": ""}, None),
        (pod_with_selector(a="1"), "env=dev", {"other": "b=1"}, None),
    ],
)
def test_both_phases_deny_the_same(
    ask: object, reviewed: JSONObject, annotation: str, selectors: JSONObject, text: str | None
) -> None:
    assert callable(ask)
    status = ask(reviewed, annotation, **selectors).status
    if text is None:
        assert status is None
    else:
        assert (status.code, status.reason) == (403, "Forbidden")
        assert status.message == f'pods "web" is forbidden: {text}'


def test_the_merged_selector_must_be_allowed_too() -> None:
    status = create(pod_with_selector(), "env=dev", shop="a=1").status
    assert status is not None
    assert status.message.endswith(NOT_ALLOWED)


def test_the_denial_of_a_pod_with_a_generate_name_has_no_name() -> None:
    reviewed = {**pod_with_selector(env="prod"), "metadata": {"generateName": "web-"}}
    status = create(reviewed, "env=dev").status
    assert status is not None
    assert status.message == f"pods is forbidden: {CONFLICT}"


@pytest.mark.parametrize("phase", BOTH)
def test_a_missing_namespace_is_an_internal_error(phase: Phase) -> None:
    review = msgspec.structs.replace(pod_review(pod_with_selector()), cluster=ObjectStore())
    status = admit(CONTROLLER, review, phases=[phase]).status
    assert status is not None
    assert (status.code, status.reason) == (500, "InternalError")
    assert status.message == "Internal error occurred: namespace shop does not exist"


def test_a_malformed_annotation_is_a_plain_error() -> None:
    status = create(pod_with_selector(), "env in (dev)").status
    assert status is not None
    assert (status.code, status.reason) == (500, "")
    assert status.message == "invalid selector: [env in (dev)]"


@pytest.mark.parametrize(
    ("operation", "subresource", "reviewed"),
    [
        ("UPDATE", "", pod_with_selector(env="x")),
        ("CREATE", "binding", pod_with_selector(env="x")),
        ("CREATE", "", {"kind": "Service"}),
    ],
)
def test_everything_else_is_ignored(operation: str, subresource: str, reviewed: JSONObject) -> None:
    review = pod_review(reviewed, operation=operation, old=reviewed, subresource=subresource)
    found = admit(CONTROLLER, in_namespace(review, "env=dev"))
    assert found.allowed
    assert found.operations == ()


def test_without_cluster_files_nothing_is_added() -> None:
    assert (
        admit(
            CONTROLLER, msgspec.structs.replace(pod_review(pod_with_selector()), cluster=ANY_NAMESPACE)
        ).operations
        == ()
    )


@pytest.mark.parametrize(
    ("selectors", "text"),
    [
        ({"shop": "env"}, "podNodeSelectorPluginConfig.shop: invalid selector: [env]"),
        (
            {"clusterDefaultNodeSelector": "a=b c"},
            'podNodeSelectorPluginConfig.clusterDefaultNodeSelector: [a]: Invalid value: "b c": a valid label',
        ),
        ({"shop": 1}, 'podNodeSelectorPluginConfig.shop in body must be of type string: "integer"'),
    ],
)
def test_invalid_settings_are_rejected_with_their_field(selectors: JSONObject, text: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        admit(CONTROLLER, pod_review(pod_with_selector()), {"podNodeSelectorPluginConfig": selectors})
    assert text in str(fault.value)


LABELS = st.dictionaries(st.sampled_from(["a", "b", "example.com/c"]), st.sampled_from(["", "1", "2"]))


@given(pods(), LABELS, st.none() | LABELS, LABELS)
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject, selector: JSONObject, annotation: dict[str, str] | None, default: dict[str, str]
) -> None:
    reviewed = {**reviewed, "spec": {**reviewed.get("spec", {}), "nodeSelector": selector}}
    review = in_namespace(pod_review(reviewed), None if annotation is None else line(annotation))
    wanted = default if annotation is None else annotation
    configuration = {"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": line(default)}}
    found = admitted_twice(CONTROLLER, review, configuration)
    assert found.allowed is ((selector | wanted) == (wanted | selector))
    if found.allowed:
        assert found.object["spec"]["nodeSelector"] == selector | wanted


def line(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
