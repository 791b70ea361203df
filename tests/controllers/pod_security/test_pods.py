"""Pods, by the cases of Kubernetes' ``admission/admission_test.go`` and more."""

from __future__ import annotations

import copy

import pytest

from pratique.admission.results import Deny
from pratique.apimachinery.json_values import JSON, JSONObject
from support.pod_security_cases import pod_request
from support.pod_security_reviews import (
    BASE_DETAIL,
    BASELINE,
    EXEMPTING,
    NAMESPACES,
    OTHER_IMAGE,
    PRIVILEGED,
    RESTRICTED,
    RESTRICTED_DETAIL,
    RESTRICTED_OTHER_IMAGE,
    ROOT,
    SANDBOXED,
    TOLERANT,
    WOULD_BASELINE,
    WOULD_RESTRICTED,
    answer,
    audited,
    refusal,
)


@pytest.mark.parametrize(
    ("pod", "namespace", "members", "expected"),
    [
        (PRIVILEGED, "restricted", {"subResource": "status"}, {}),
        (PRIVILEGED, "exempt", {}, audited(exempt="namespace")),
        (PRIVILEGED, "exempt", ROOT, audited(exempt="namespace")),
        (PRIVILEGED, "restricted", ROOT, audited(exempt="user")),
        (SANDBOXED, "restricted", {}, audited(exempt="runtimeClass")),
        (PRIVILEGED, "implicit", {}, audited(enforce_policy="privileged:latest")),
        (PRIVILEGED, "privileged", {}, audited(enforce_policy="privileged:latest")),
        (SANDBOXED, "privileged", {}, audited(enforce_policy="privileged:latest")),
        (TOLERANT, "restricted", {"operation": "UPDATE", "oldObject": PRIVILEGED}, {}),
        (
            RESTRICTED_OTHER_IMAGE,
            "restricted",
            {"operation": "UPDATE", "oldObject": RESTRICTED},
            audited(enforce_policy="restricted:latest"),
        ),
        (BASELINE, "baseline", {}, audited(enforce_policy="baseline:latest")),
        (
            PRIVILEGED,
            "baseline-audit",
            {},
            audited(enforce_policy="privileged:latest", audit_violations=WOULD_BASELINE),
        ),
    ],
)
def test_an_allowed_pod_is_admitted_without_warnings(
    pod: JSONObject, namespace: str, members: JSONObject, expected: dict[str, str]
) -> None:
    found = answer(pod_request(pod, namespace, **members), NAMESPACES, EXEMPTING)
    assert not isinstance(found, Deny)
    assert (found.warnings, found.audit_annotations) == ((), expected)


def test_violations_of_the_warn_level_are_warned_about() -> None:
    found = answer(pod_request(PRIVILEGED, "baseline-warn"), NAMESPACES)
    assert not isinstance(found, Deny)
    assert found.warnings == (WOULD_BASELINE,)
    assert found.audit_annotations == audited(enforce_policy="privileged:latest")


@pytest.mark.parametrize("members", [{}, {"operation": "UPDATE", "oldObject": PRIVILEGED}])
@pytest.mark.parametrize("subresource", ["", "ephemeralcontainers", "resize", "yet-to-come"])
def test_a_denied_pod_is_audited_without_warnings(members: JSONObject, subresource: str) -> None:
    found = answer(pod_request(OTHER_IMAGE, "restricted", subResource=subresource, **members), NAMESPACES)
    assert isinstance(found, Deny)
    assert found.status is not None
    assert found.status.message == (
        f'pods "test" is forbidden: violates PodSecurity "restricted:latest": {RESTRICTED_DETAIL}'
    )
    assert found.status.details is not None
    assert (found.status.details.name, found.status.details.kind) == ("test", "pods")
    assert found.warnings == ()
    assert found.audit_annotations == audited(
        enforce_policy="restricted:latest", audit_violations=WOULD_RESTRICTED
    )


def test_a_namespace_with_invalid_labels_is_restricted() -> None:
    found = answer(pod_request(BASELINE, "invalid"), NAMESPACES)
    assert isinstance(found, Deny)
    assert found.status is not None
    assert 'violates PodSecurity "restricted:latest"' in found.status.message
    assert found.audit_annotations == audited(
        enforce_policy="restricted:latest",
        error="Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value:"
        ' "not-a-valid-level": must be one of privileged, baseline, restricted',
    )


def test_a_pod_in_a_missing_namespace_is_denied() -> None:
    text = 'Internal error occurred: failed to lookup namespace "missing"'
    assert refusal(answer(pod_request(RESTRICTED, "missing"), NAMESPACES)) == (
        *(500, "InternalError", text),
        audited(error=f'{text}: namespaces "missing" not found'),
    )


@pytest.mark.parametrize(
    ("pod", "members", "text", "error"),
    [
        (None, {}, "failed to decode object", ""),
        ({"kind": "Namespace"}, {}, "failed to decode pod", ""),
        (BASELINE, {"operation": "UPDATE"}, "failed to decode old object", ""),
        (
            BASELINE,
            {"operation": "UPDATE", "oldObject": {"kind": "Namespace"}},
            "failed to decode old pod",
            "",
        ),
        (
            {"spec": {"hostNetwork": 1}},
            {},
            "failed to decode object",
            ": json: cannot unmarshal number into Go struct field hostNetwork of type bool",
        ),
    ],
)
def test_a_malformed_pod_is_denied(pod: JSON, members: JSONObject, text: str, error: str) -> None:
    found = answer(pod_request(pod, "baseline", **members), NAMESPACES)
    assert refusal(found) == (400, "BadRequest", text, audited(error=f"{text}{error}"))
    assert isinstance(found, Deny)
    assert found.status is not None
    assert found.status.details is not None
    assert (found.status.details.name, found.status.details.kind) == ("test", "pods")


def test_the_denial_of_a_pod_with_a_generated_name_has_that_name() -> None:
    generated = {**PRIVILEGED, "metadata": {"generateName": "web-", "name": "web-x7k2p"}}
    for pod, subject in ((generated, 'pods "web-x7k2p"'), (PRIVILEGED, "pods")):
        found = answer(pod_request(pod, "baseline", name=""), NAMESPACES)
        assert (
            refusal(found)[2]
            == f'{subject} is forbidden: violates PodSecurity "baseline:latest": {BASE_DETAIL}'
        )


# Updates of Pods


def of_images(**fields: list[str]) -> JSONObject:
    """A forbidden Pod with containers of these images, named by their position."""
    containers = {
        field: [{"name": str(at), "image": image} for at, image in enumerate(images)]
        for field, images in fields.items()
    }
    return {"spec": {"hostNetwork": True, **containers}}


@pytest.mark.parametrize(
    ("old", "new", "significant"),
    [
        ({"containers": ["a"]}, {"containers": ["a"]}, False),
        ({"containers": ["a"]}, {"containers": ["b"]}, True),
        ({"containers": ["a"]}, {"containers": ["a", "b"]}, True),
        ({"containers": ["a", "b"]}, {"containers": ["a"]}, True),
        ({"initContainers": ["a"]}, {"initContainers": ["b"]}, True),
        ({"initContainers": ["a"]}, {"initContainers": []}, True),
        ({"ephemeralContainers": []}, {"ephemeralContainers": ["a"]}, True),
        ({"ephemeralContainers": ["a"]}, {"ephemeralContainers": ["b"]}, True),
        ({"ephemeralContainers": ["a", "b"]}, {"ephemeralContainers": ["a"]}, False),
    ],
)
def test_an_update_is_evaluated_only_if_containers_or_images_change(
    old: dict[str, list[str]], new: dict[str, list[str]], *, significant: bool
) -> None:
    request = pod_request(of_images(**new), "baseline", operation="UPDATE", oldObject=of_images(**old))
    assert isinstance(answer(request, NAMESPACES), Deny) is significant


def test_ephemeral_containers_are_compared_by_name() -> None:
    old = of_images(ephemeralContainers=["a", "b"])
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"].reverse()
    request = pod_request(
        new, "baseline", operation="UPDATE", oldObject=old, subResource="ephemeralcontainers"
    )
    assert not isinstance(answer(request, NAMESPACES), Deny)
