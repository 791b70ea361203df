"""Priority."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.priority import CONTROLLER
from support import vector_cases
from support.admissions import Admission, admit, forbidden_text, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.strategies.pods import pods

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}
AS_IN_1_10 = {"release": "1.10"}
PREEMPT = "PreemptLowerPriority"


@pytest.mark.parametrize("case", vector_cases.plugin("Priority"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    configuration = AS_IN_1_10 if case.get("era") == "legacy (1.10)" else None
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review, configuration, phases), case["expected"])


def priority_class(name: str, value: int = 100, **members: JSON) -> JSONObject:
    of = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**of, "value": value, **members}


LOW = priority_class("low", 10, globalDefault=True)
PATIENT = priority_class("patient", 20, preemptionPolicy="Never")
CRITICAL = priority_class("system-cluster-critical", 2_000_000_000)
CLASSES = ObjectStore([LOW, PATIENT, CRITICAL])


def create(
    cluster: ObjectStore = CLASSES, configuration: JSON = None, namespace: str = "shop", **spec: JSON
) -> Admission:
    review = pod_review({"kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    review = msgspec.structs.replace(review, cluster=cluster, namespace=namespace)
    return admit(CONTROLLER, review, configuration)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("low", 10, PREEMPT)),
        ({"priorityClassName": ""}, ("low", 10, PREEMPT)),
        ({"priorityClassName": None, "priority": None}, ("low", 10, PREEMPT)),
        ({"priorityClassName": "patient"}, ("patient", 20, "Never")),
        (
            {"priorityClassName": "patient", "priority": 20, "preemptionPolicy": "Never"},
            ("patient", 20, "Never"),
        ),
        (
            {"priorityClassName": "system-cluster-critical"},
            ("system-cluster-critical", 2_000_000_000, PREEMPT),
        ),
    ],
)
def test_a_pod_gets_the_values_of_its_class(spec: JSONObject, expected: tuple[str, int, str]) -> None:
    changed = create(**spec).object["spec"]
    assert (changed["priorityClassName"], changed["priority"], changed["preemptionPolicy"]) == expected


@pytest.mark.parametrize("cluster", [ObjectStore(), ObjectStore([PATIENT])])
def test_without_a_default_class_a_pod_gets_zero_and_no_class(cluster: ObjectStore) -> None:
    assert create(cluster).object["spec"] == {"priority": 0, "preemptionPolicy": PREEMPT}


def test_a_value_of_zero_is_written_too() -> None:
    cluster = ObjectStore([priority_class("none", 0, globalDefault=True)])
    assert create(cluster).object["spec"]["priorityClassName"] == "none"
    assert create(cluster).object["spec"]["priority"] == 0


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_default_class_with_the_lowest_value_wins(names: tuple[str, str]) -> None:
    low, high = names
    cluster = ObjectStore(
        [priority_class(low, -5, globalDefault=True), priority_class(high, 5, globalDefault=True)]
    )
    assert create(cluster).object["spec"]["priorityClassName"] == low


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 7},
            (
                "the integer value of priority (7) must not be provided in pod spec;"
                " priority admission controller computed 10 from the given PriorityClass name"
            ),
        ),
        (
            {"priorityClassName": "patient", "preemptionPolicy": PREEMPT},
            (
                f"the string value of PreemptionPolicy ({PREEMPT}) must not be provided in pod spec;"
                " priority admission controller computed Never from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec;"
                f" priority admission controller computed {PREEMPT} from the given PriorityClass name"
            ),
        ),
        (
            {"priority": 7, "preemptionPolicy": "Never"},
            (
                "the integer value of priority (7) must not be provided in pod spec;"
                " priority admission controller computed 10 from the given PriorityClass name"
            ),
        ),
    ],
)
def test_a_pod_cannot_choose_its_own_priority(spec: JSONObject, text: str) -> None:
    found = create(**spec)
    assert forbidden_text(found) == text
    assert found.operations == ()


def update(old: JSON, **spec: JSON) -> Admission:
    review = pod_review({"kind": "Pod", "spec": spec}, operation="UPDATE", old=old)
    return admitted_twice(CONTROLLER, msgspec.structs.replace(review, cluster=CLASSES))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"priority": 5, "preemptionPolicy": "Never"}, {}, {"priority": 5, "preemptionPolicy": "Never"}),
        ({"priority": 0}, {}, {"priority": 0}),
        ({}, {}, {}),
        ({}, {"priorityClassName": "patient"}, {"priorityClassName": "patient"}),
        ({"priority": 5}, {"priority": 6}, {"priority": 6}),
        ({"priority": 5, "priorityClassName": "low"}, {}, {"priority": 5}),
    ],
)
def test_an_update_keeps_the_fields_that_it_leaves_out(
    old: JSONObject, new: JSONObject, expected: JSONObject
) -> None:
    assert update({"kind": "Pod", "spec": old}, **new).object["spec"] == expected


@pytest.mark.parametrize(
    ("operation", "reviewed", "old"),
    [("CREATE", {"kind": "Service"}, None), ("UPDATE", {"kind": "Pod"}, None), ("CREATE", None, None)],
)
def test_an_object_other_than_a_pod_is_a_bad_request(operation: str, reviewed: JSON, old: JSON) -> None:
    status = admit(CONTROLLER, pod_review(reviewed, operation=operation, old=old)).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "resource was marked with kind Pod but was unable to be converted"


def create_group(gates: JSONObject, spec: JSONObject, kind: str = "PodGroup") -> Admission:
    request = {
        "operation": "CREATE",
        "kind": {"group": "scheduling.k8s.io", "version": "v1beta1", "kind": kind},
        "resource": {"group": "scheduling.k8s.io", "version": "v1beta1", "resource": f"{kind.lower()}s"},
        "namespace": "shop",
        "name": "g",
        "object": {"kind": kind, "metadata": {"name": "g"}, "spec": spec},
    }
    review = review_of(request, ObjectStore([priority_class("high", 7)]))
    return admit(CONTROLLER, review, {"featureGates": gates})


@pytest.mark.parametrize(
    ("kind", "gate"), [("PodGroup", "GenericWorkload"), ("CompositePodGroup", "CompositePodGroup")]
)
def test_a_group_gets_a_priority_if_its_gate_is_on(kind: str, gate: str) -> None:
    assert create_group({gate: True}, {}, kind).object["spec"] == {"priority": 0}
    named = create_group({gate: True}, {"priorityClassName": "high"}, kind)
    assert named.object["spec"] == {"priorityClassName": "high", "priority": 7}
    with_policy = create_group({gate: True, "PodGroupPreemptionPolicy": True}, {}, kind)
    assert with_policy.object["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert create_group({}, {}, kind).object["spec"] == {}


@pytest.mark.parametrize(
    ("kind", "called", "gate"),
    [
        ("PodGroup", "pod group", "GenericWorkload"),
        ("CompositePodGroup", "composite pod group", "CompositePodGroup"),
    ],
)
def test_a_group_cannot_choose_its_own_priority(kind: str, called: str, gate: str) -> None:
    gates = {gate: True, "PodGroupPreemptionPolicy": True}
    subject = f'{kind.lower()}s.scheduling.k8s.io "g"'
    assert forbidden_text(create_group(gates, {"priority": 9}, kind), subject) == (
        f"priority set in the {called} (9) must match the priority computed (0)"
        " based on the priority class set in the spec"
    )
    assert forbidden_text(create_group(gates, {"preemptionPolicy": "Never"}, kind), subject) == (
        f"the string value of PreemptionPolicy (Never) must not be provided in {called} spec;"
        " priority admission controller computed PreemptLowerPriority from the given PriorityClass name"
    )
    missing = create_group(gates, {"priorityClassName": "none"}, kind)
    assert forbidden_text(missing, subject) == "no PriorityClass with name none was found"


def put_class(
    reviewed: JSON, operation: str = "CREATE", cluster: ObjectStore = CLASSES, configuration: JSON = None
) -> Admission:
    group = {"group": "scheduling.k8s.io", "version": "v1"}
    request = {
        "operation": operation,
        "kind": {**group, "kind": "PriorityClass"},
        "resource": {**group, "resource": "priorityclasses"},
        "name": "new",
        "object": reviewed,
    }
    return admit(CONTROLLER, review_of(request, cluster), configuration)


DEFAULT = priority_class("new", globalDefault=True)
NEW_CLASS = 'priorityclasses.scheduling.k8s.io "new"'


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_second_default_class_is_denied(operation: str) -> None:
    text = "PriorityClass low is already marked as default. Only one default can exist"
    assert forbidden_text(put_class(DEFAULT, operation), NEW_CLASS) == text


@pytest.mark.parametrize(
    ("reviewed", "operation", "cluster"),
    [
        (DEFAULT, "CREATE", ObjectStore([PATIENT])),
        (LOW, "UPDATE", CLASSES),
        (priority_class("new"), "CREATE", CLASSES),
        (priority_class("system-mine", 2_000_000_000), "CREATE", CLASSES),
    ],
)
def test_other_classes_are_admitted(reviewed: JSON, operation: str, cluster: ObjectStore) -> None:
    found = put_class(reviewed, operation, cluster)
    assert found.allowed
    assert found.operations == ()


def test_the_default_class_cannot_be_created_again() -> None:
    assert not put_class(LOW).allowed


@pytest.mark.parametrize("reviewed", [{"kind": "Pod"}, None, "x"])
def test_an_object_other_than_a_priority_class_is_a_bad_request(reviewed: JSON) -> None:
    status = put_class(reviewed).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "resource was marked with kind PriorityClass but was unable to be converted"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"priority": 10}),
        ({"priorityClassName": "patient"}, {"priorityClassName": "patient", "priority": 20}),
        (
            {"priorityClassName": "system-node-critical"},
            {"priorityClassName": "system-node-critical", "priority": 2_000_001_000},
        ),
    ],
)
def test_release_1_10_sets_only_the_integer(spec: JSONObject, expected: JSONObject) -> None:
    assert create(configuration=AS_IN_1_10, **spec).object["spec"] == expected


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"priority": 10},
            (
                "the integer value of priority must not be provided in pod spec."
                " Priority admission controller populates the value from the given PriorityClass name"
            ),
        ),
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
    ],
)
def test_release_1_10_denies_any_integer(spec: JSONObject, text: str) -> None:
    assert forbidden_text(create(configuration=AS_IN_1_10, **spec)) == text


def test_release_1_10_ignores_updates() -> None:
    old = {"kind": "Pod", "spec": {"priority": 5}}
    review = pod_review({"kind": "Pod", "spec": {}}, operation="UPDATE", old=old)
    assert admit(CONTROLLER, review, AS_IN_1_10).operations == ()


@pytest.mark.parametrize(
    ("reviewed", "text"),
    [
        (
            priority_class("new", 1_000_000_001),
            "maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            priority_class("system-node-critical"),
            "the name of the priority class is a reserved name for system use only: system-node-critical",
        ),
        (DEFAULT, "PriorityClass low is already marked as default. Only one default can exist"),
    ],
)
def test_release_1_10_validates_classes(reviewed: JSON, text: str) -> None:
    assert forbidden_text(put_class(reviewed, configuration=AS_IN_1_10), NEW_CLASS) == text


def test_release_1_10_admits_other_classes() -> None:
    assert put_class(priority_class("system-mine", 1_000_000_000), configuration=AS_IN_1_10).allowed


@pytest.mark.parametrize(
    ("namespace", "name", "text"),
    [
        ("kube-system", "system-cluster-critical", ""),
        ("shop", "patient", ""),
        (
            "shop",
            "system-cluster-critical",
            "pods with system-cluster-critical priorityClass is not permitted in shop namespace",
        ),
        (
            "shop",
            "system-node-critical",
            "pods with system-node-critical priorityClass is not permitted in shop namespace",
        ),
    ],
)
def test_system_classes_can_be_restricted_to_kube_system(namespace: str, name: str, text: str) -> None:
    configuration = {"systemClassesOnlyInKubeSystem": True}
    found = create(configuration=configuration, namespace=namespace, priorityClassName=name)
    assert (found.allowed, forbidden_text(found) if text else "") == (not text, text)


@pytest.mark.parametrize(
    ("configuration", "fault"),
    [
        ({"release": "1.9"}, 'release: Unsupported value: "1.9": supported values: "1.10"'),
        ({"release": 1.1}, 'release in body must be of type string: "number"'),
    ],
)
def test_invalid_settings_are_rejected_with_their_field(configuration: JSON, fault: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        create(configuration=configuration)
    assert str(refused.value).startswith('couldn\'t init admission plugin "Priority": ')
    assert str(refused.value).endswith(fault)


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "priorityClassName": st.sampled_from(["", "low", "patient", "none", None]),
        "priority": st.sampled_from([None, 0, 10, 20]),
        "preemptionPolicy": st.sampled_from([None, "Never", PREEMPT]),
    },
)


@given(pods(), SPECS, st.sampled_from([ObjectStore(), CLASSES]))
def test_a_second_pass_changes_nothing(reviewed: JSONObject, spec: JSONObject, cluster: ObjectStore) -> None:
    pod = {**reviewed, "spec": {**reviewed.get("spec", {}), **spec}}
    admitted_twice(CONTROLLER, msgspec.structs.replace(pod_review(pod), cluster=cluster))


@given(pods(), SPECS, SPECS)
def test_an_update_never_changes_existing_values(
    reviewed: JSONObject, new: JSONObject, old: JSONObject
) -> None:
    pod = {**reviewed, "spec": {**reviewed.get("spec", {}), **new}}
    found = update({"kind": "Pod", "spec": old}, **pod["spec"])
    kept = {name: value for name, value in pod["spec"].items() if value is not None}
    assert found.object["spec"] | kept == found.object["spec"]
