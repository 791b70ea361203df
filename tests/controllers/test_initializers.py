"""Initializers."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision, Authorizer
from pratique.cluster.store import ObjectStore
from pratique.controllers.initializers import CONTROLLER
from support import vector_cases
from support.admissions import Admission, admit, denial, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import pod
from support.strategies.pods import pods


@dataclasses.dataclass(frozen=True)
class Answering:
    """An authorizer with a single answer that records the questions."""

    decision: AuthorizationDecision
    asked: list[AuthorizationAttributes] = dataclasses.field(default_factory=list, repr=False)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        self.asked.append(attributes)
        return self.decision


def admin() -> Answering:
    return Answering(AuthorizationDecision(allowed=True))


def user() -> Answering:
    return Answering(AuthorizationDecision(allowed=False, reason="no rule says so"))


@pytest.mark.parametrize("case", vector_cases.plugin("Initializers"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    decisions = case["external"]["authorizer"]
    authorizer = Answering(
        AuthorizationDecision(allowed=decisions["default"] == "allow", reason=decisions.get("reason", ""))
    )
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    check(admit(CONTROLLER, msgspec.structs.replace(review, authorizer=authorizer)), case["expected"])


def rule(*resources: str, group: str = "", version: str = "v1") -> JSONObject:
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def configuration(name: str, **rules: list[JSONObject]) -> JSONObject:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1alpha1",
        "kind": "InitializerConfiguration",
        "metadata": {"name": name},
        "initializers": [
            {"name": initializer.replace("_", "."), "rules": of} for initializer, of in rules.items()
        ],
    }


def pending(*names: str) -> JSONObject:
    return {"pending": [{"name": name} for name in names]}


SIDECAR = ObjectStore([configuration("mesh", sidecar_example_com=[rule("pods")])])
WAITING = pending("sidecar.example.com")
DONE: JSONObject = {}
FAILED = {"result": {"status": "Failure"}}


def pod_with_initializers(initializers: JSON = None, **annotations: str) -> JSONObject:
    metadata = None if initializers is None else {"initializers": initializers}
    return pod(annotations=annotations, metadata=metadata)


def review(
    reviewed: JSON,
    old: JSON = None,
    authorizer: Authorizer | None = None,
    cluster: ObjectStore = SIDECAR,
    name: str = "web",
) -> Review:
    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": name,
        "object": reviewed,
        "oldObject": old,
    }
    return msgspec.structs.replace(review_of(request, cluster), authorizer=authorizer or user())


def waiting_for(found: Admission) -> JSON:
    assert found.allowed
    return found.object["metadata"].get("initializers")


def test_a_new_object_waits_for_all_initializers_in_configuration_order() -> None:
    cluster = ObjectStore(
        [
            configuration("b", third_example_com=[rule("pods")]),
            configuration(
                "a", second_example_com=[rule("pods")], other=[rule("services")], first=[rule("pods")]
            ),
        ]
    )
    found = admitted_twice(CONTROLLER, review(pod_with_initializers(), cluster=cluster))
    assert waiting_for(found) == pending("second.example.com", "first", "third.example.com")
    assert len(found.operations) == 1


@pytest.mark.parametrize(
    ("rules", "matches"),
    [
        ([], False),
        ([rule("pods")], True),
        ([rule("services", "pods")], True),
        ([rule("*")], True),
        ([rule("*/*")], True),
        ([rule("services", "*")], False),
        ([rule("pods/status")], False),
        ([rule("pods/*")], False),
        ([rule("pods", group="*")], True),
        ([rule("pods", group="apps")], False),
        ([rule("pods", version="*")], True),
        ([rule("pods", version="v2")], False),
        ([rule("pods"), rule("*")], True),
        ([rule("pods"), rule("services")], False),
        ([{"apiGroups": [], "apiVersions": ["*"], "resources": ["*"]}], False),
    ],
)
def test_every_rule_of_an_initializer_must_match(rules: list[JSONObject], *, matches: bool) -> None:
    cluster = ObjectStore([configuration("mesh", sidecar_example_com=rules)])
    expected = WAITING if matches else None
    assert waiting_for(admit(CONTROLLER, review(pod_with_initializers(), cluster=cluster))) == expected


@pytest.mark.parametrize(
    "reviewed",
    [pod_with_initializers(**{"kubernetes.io/config.mirror": ""}), {"kind": "Pod"}, {"metadata": "x"}, None],
)
def test_mirror_pods_and_objects_without_metadata_get_no_initializers(reviewed: JSON) -> None:
    found = admit(CONTROLLER, review(reviewed))
    assert found.allowed
    assert found.operations == ()


def test_a_user_who_may_initialize_can_name_the_initializers() -> None:
    authorizer = admin()
    assert waiting_for(
        admit(CONTROLLER, review(pod_with_initializers(pending("mine")), authorizer=authorizer))
    ) == pending("mine")
    (asked,) = authorizer.asked
    assert (asked.verb, asked.group, asked.resource, asked.subresource) == ("initialize", "", "pods", "")
    assert (asked.namespace, asked.name) == ("shop", "web")


@pytest.mark.parametrize("empty", [{}, {"pending": []}, {"pending": None, "result": None}])
def test_a_user_who_may_initialize_can_bypass_initialization(empty: JSONObject) -> None:
    found = admit(CONTROLLER, review(pod_with_initializers(empty), authorizer=admin()))
    assert found.operations == ({"op": "remove", "path": "/metadata/initializers"},)


@pytest.mark.parametrize("initializers", [{}, pending("mine"), FAILED])
def test_other_users_can_neither_name_initializers_nor_bypass_them(initializers: JSONObject) -> None:
    assert denial(admit(CONTROLLER, review(pod_with_initializers(initializers)))) == (
        403,
        "Forbidden",
        'pods "web" is forbidden: create with initializers denied: no rule says so',
    )


def test_the_denial_of_an_object_with_a_generate_name_has_no_name() -> None:
    code, _, message = denial(admit(CONTROLLER, review(pod_with_initializers({}), name="")))
    assert (code, message) == (403, "pods is forbidden: create with initializers denied: no rule says so")


def test_naming_exactly_the_configured_initializers_needs_no_permission() -> None:
    assert waiting_for(admit(CONTROLLER, review(pod_with_initializers(WAITING)))) == WAITING


def test_an_authorizer_failure_is_a_plain_error() -> None:
    undecided = Answering(AuthorizationDecision(allowed=False, error="no answer"))
    assert denial(admit(CONTROLLER, review(pod_with_initializers({}), authorizer=undecided))) == (
        500,
        "",
        "no answer",
    )


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (None, None, None),
        (None, {}, None),
        (WAITING, {}, None),
        (WAITING, None, None),
        (WAITING, WAITING, WAITING),
        (pending("a", "b"), pending("b"), pending("b")),
        (WAITING, {**WAITING, **FAILED}, {**WAITING, **FAILED}),
        (FAILED, FAILED, FAILED),
        (FAILED, None, None),
    ],
)
def test_a_user_who_may_initialize_completes_objects(old: JSON, new: JSON, left: JSON) -> None:
    found = admitted_twice(
        CONTROLLER, review(pod_with_initializers(new), pod_with_initializers(old), admin())
    )
    assert waiting_for(found) == left


@pytest.mark.parametrize(("old", "new"), [(WAITING, WAITING), (WAITING, None), (WAITING, {}), (FAILED, None)])
def test_other_users_cannot_update_uninitialized_objects(old: JSON, new: JSON) -> None:
    assert denial(admit(CONTROLLER, review(pod_with_initializers(new), pod_with_initializers(old)))) == (
        403,
        "Forbidden",
        'pods "web" is forbidden: update to uninitialized resource denied: no rule says so',
    )


@pytest.mark.parametrize("new", [None, {}])
def test_anybody_may_update_an_initialized_object(new: JSON) -> None:
    assert waiting_for(admit(CONTROLLER, review(pod_with_initializers(new), pod_with_initializers()))) is None


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        (None, WAITING, "", 'Invalid value: "null": field is immutable once initialization has completed'),
        (FAILED, WAITING, ".result", 'Invalid value: "null": field is immutable'),
        (
            FAILED,
            {"result": {"status": "Success"}},
            ".result",
            'Invalid value: {"status":"Success"}: field is immutable',
        ),
        (
            WAITING,
            {"result": {"status": "Success"}},
            ".result.status",
            "Invalid value: \"Success\": must be 'Failure'",
        ),
        (WAITING, {"result": {}}, ".result.status", "Invalid value: \"\": must be 'Failure'"),
    ],
)
def test_other_changes_are_invalid_for_everybody(old: JSON, new: JSON, field: str, message: str) -> None:
    found = admit(CONTROLLER, review(pod_with_initializers(new), pod_with_initializers(old), admin()))
    place = f"metadata.initializers{field}"
    assert denial(found) == (422, "Invalid", f'Pod "web" is invalid: {place}: {message}')
    assert found.status is not None
    assert found.status.details is not None
    (cause,) = found.status.details.causes
    assert (cause.reason, cause.message, cause.field) == ("FieldValueInvalid", message, place)


def test_subresources_get_no_initializers() -> None:
    status = msgspec.structs.replace(review(pod_with_initializers()), subresource="status")
    assert admit(CONTROLLER, status).operations == ()


@given(pods(), st.sampled_from([None, WAITING, pending("mine")]), st.sampled_from([admin(), user()]))
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject, initializers: JSON, authorizer: Answering
) -> None:
    metadata = {**reviewed.get("metadata", {}), "initializers": initializers}
    admitted_twice(CONTROLLER, review({**reviewed, "metadata": metadata}, authorizer=authorizer))
