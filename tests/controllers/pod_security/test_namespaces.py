"""Namespaces, by the cases of Kubernetes' ``admission/admission_test.go`` and more."""

from __future__ import annotations

import pytest

from pratique.admission.results import Deny
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_security import CONTROLLER
from support.admissions import admit, review_of
from support.pod_security_cases import labelled
from support.pod_security_reviews import answer, audited, half, refusal
from support.pods import pod


def namespace_request(new: dict[str, str], old: dict[str, str] | None = None, **members: JSON) -> JSONObject:
    return {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Namespace"},
        "resource": {"group": "", "version": "v1", "resource": "namespaces"},
        "namespace": "test",
        "name": "test",
        "object": labelled("test", **new),
        "oldObject": None if old is None else labelled("test", **old),
        **members,
    }


def host_network_pod(name: str, runtime_class: str | None = None, **spec: JSON) -> JSONObject:
    written: JSONObject = {"containers": [], "hostNetwork": True, "runtimeClassName": runtime_class, **spec}
    return pod(name=name, namespace="test", **written)


PODS = ObjectStore(
    [
        host_network_pod("plain"),
        host_network_pod("sandboxed", "sandbox"),
        host_network_pod("other", "other"),
        host_network_pod("worse", hostPID=True, volumes=[{"nfs": {}}]),
    ]
)
NAMESPACE_EXEMPTING = half(namespaces=["test"], runtimeClasses=["sandbox"])
RESTRICTED_1_0 = {"enforce": "restricted", "enforce_version": "v1.0"}


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"enforce": "privileged", "enforce_version": "v1.0"}, None),
        ({"enforce": "baseline"}, None),
        ({"enforce": "restricted"}, None),
        (RESTRICTED_1_0, RESTRICTED_1_0),
        ({"enforce": "unknown"}, {"enforce": "unknown"}),
        ({"enforce": "baseline", "enforce_version": "x"}, {"enforce": "baseline", "enforce_version": "x"}),
        ({"enforce": "baseline", "enforce_version": "v1.0"}, RESTRICTED_1_0),
        (
            {"enforce": "baseline", "enforce_version": "latest"},
            {"enforce": "restricted", "enforce_version": "latest"},
        ),
        ({"enforce": "baseline"}, {"enforce": "restricted"}),
        ({"enforce": "privileged"}, RESTRICTED_1_0),
        ({}, RESTRICTED_1_0),
        ({"audit": "restricted", "warn": "restricted"}, {}),
    ],
)
def test_labels_that_are_not_stricter_cause_no_warning(
    new: dict[str, str], old: dict[str, str] | None
) -> None:
    found = answer(namespace_request(new, old), PODS)
    assert not isinstance(found, Deny)
    assert (found.warnings, found.audit_annotations) == ((), {})


@pytest.mark.parametrize("old", [None, RESTRICTED_1_0, {"enforce": "other"}])
@pytest.mark.parametrize(
    ("new", "field", "text"),
    [
        ({"enforce": "unknown"}, "enforce", "must be one of privileged, baseline, restricted"),
        (
            {"enforce": "privileged", "enforce_version": "unknown"},
            "enforce-version",
            'must be "latest" or "v1.x"',
        ),
        ({"audit": "unknown"}, "audit", "must be one of privileged, baseline, restricted"),
        ({"warn_version": "unknown"}, "warn-version", 'must be "latest" or "v1.x"'),
    ],
)
def test_invalid_labels_are_denied(
    new: dict[str, str], field: str, text: str, old: dict[str, str] | None
) -> None:
    found = answer(namespace_request(new, old), PODS)
    place = f"metadata.labels[pod-security.kubernetes.io/{field}]"
    message = f'Namespace "test" is invalid: {place}: Invalid value: "unknown": {text}'
    assert refusal(found) == (422, "Invalid", message, {})
    assert isinstance(found, Deny)
    assert found.status is not None
    assert found.status.details is not None
    (cause,) = found.status.details.causes
    assert (cause.reason, cause.field) == ("FieldValueInvalid", place)


def test_all_invalid_labels_are_reported() -> None:
    found = answer(namespace_request({"enforce": "x", "warn": "y"}), PODS)
    assert refusal(found)[2].count("Invalid value") == 2


VIOLATE = 'existing pods in namespace "test" violate the new PodSecurity enforce level "{}"'


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (
            {"enforce": "baseline"},
            {"enforce": "privileged"},
            (VIOLATE.format("baseline:latest"), "other (and 2 other pods): host namespaces"),
        ),
        (
            {"enforce": "restricted"},
            {"enforce": "baseline"},
            (
                VIOLATE.format("restricted:latest"),
                "other (and 1 other pod): host namespaces",
                "worse: host namespaces, restricted volume types",
            ),
        ),
        (
            {"enforce": "baseline", "enforce_version": "v1.1"},
            RESTRICTED_1_0,
            (VIOLATE.format("baseline:v1.1"), "other (and 2 other pods): host namespaces"),
        ),
    ],
)
def test_a_stricter_level_warns_about_existing_pods(
    new: dict[str, str], old: dict[str, str], expected: tuple[str, ...]
) -> None:
    found = answer(namespace_request(new, old), PODS, half(runtimeClasses=["sandbox"]))
    assert not isinstance(found, Deny)
    assert found.audit_annotations == {}
    assert found.warnings == expected


def test_defaults_of_the_cluster_may_make_a_namespace_stricter() -> None:
    document = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "restricted"},
    }
    request = namespace_request({}, {"enforce": "baseline", "enforce_version": "v1.0"})
    found = admit(CONTROLLER, review_of(request, PODS), document)
    assert found.warnings[0] == VIOLATE.format("restricted:latest")


EXEMPT = 'namespace "test" is exempt from Pod Security, and the policy ({}) will be ignored'


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"enforce": "restricted"}, None, "enforce=restricted:latest"),
        ({"warn": "baseline"}, None, "warn=baseline:latest"),
        ({"audit": "restricted"}, None, "audit=restricted:latest"),
        (
            {**RESTRICTED_1_0, "audit": "restricted", "warn": "baseline"},
            {},
            "enforce=restricted:v1.0, audit=restricted:latest, warn=baseline:latest",
        ),
        ({}, None, None),
        ({"enforce": "privileged", "enforce_version": "v1.24", "warn_version": "v1.25"}, None, None),
        ({"warn": "baseline"}, {}, None),
    ],
)
@pytest.mark.parametrize("namespace", ["test", ""])
def test_labels_of_an_exempt_namespace_are_reported_as_ignored(
    new: dict[str, str], old: dict[str, str] | None, expected: str | None, namespace: str
) -> None:
    found = answer(namespace_request(new, old, namespace=namespace), PODS, NAMESPACE_EXEMPTING)
    assert not isinstance(found, Deny)
    assert found.warnings == (() if expected is None else (EXEMPT.format(expected),))


@pytest.mark.parametrize(
    ("labels", "expected"), [({}, None), ({"warn_version": "latest"}, EXEMPT.format("warn=baseline:latest"))]
)
def test_an_exempt_namespace_with_default_labels_causes_no_warning(
    labels: dict[str, str], expected: str | None
) -> None:
    modes = dict.fromkeys(("enforce", "audit", "warn"), "baseline")
    document = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": modes | {f"{mode}-version": "v1.23" for mode in modes},
        "exemptions": {"namespaces": ["test"]},
    }
    found = admit(CONTROLLER, review_of(namespace_request(labels), PODS), document)
    assert found.warnings == (() if expected is None else (expected,))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"object": None}, "failed to decode object"),
        ({"object": {"kind": "Pod"}}, "failed to decode namespace"),
        ({"operation": "UPDATE", "oldObject": None}, "failed to decode  old object"),
        ({"operation": "UPDATE", "oldObject": {"kind": "Pod"}}, "failed to decode  old namespace"),
    ],
)
def test_a_malformed_namespace_is_denied(members: JSONObject, text: str) -> None:
    found = answer(namespace_request({}, **members), PODS)
    assert refusal(found) == (400, "BadRequest", text, audited(error=text))


def test_subresources_of_namespaces_are_ignored() -> None:
    request = namespace_request({"enforce": "unknown"}, subResource="finalize")
    assert not isinstance(answer(request, PODS), Deny)
