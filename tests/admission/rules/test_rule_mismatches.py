"""What people read where no rule wants to see a request."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import Review
from pratique.admission.rules import Rule, mismatch
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation

POD = GroupVersionResource("", "v1", "pods")
SCALE = GroupVersionResource("apps", "v1", "deployments")


def review(resource: GroupVersionResource = POD, subresource: str = "", namespace: str = "shop") -> Review:
    return Review(
        uid="1",
        operation=Operation.DELETE,
        kind=GroupVersionKind("", "v1", "Any"),
        resource=resource,
        subresource=subresource,
        namespace=namespace,
    )


def rule(
    *resources: str,
    operations: tuple[str, ...],
    group: str = "",
    versions: tuple[str, ...] = ("*",),
    scope: str = "*",
) -> Rule:
    """A rule as configurations hold it, which may be one that no request can match."""
    return Rule(operations, (group,), versions, resources, scope)


ANY_DELETE = rule("pods", operations=("DELETE",))


@pytest.mark.parametrize(
    ("rules", "review", "expected"),
    [
        ([], review(), "there are no rules"),
        ([ANY_DELETE], review(), ""),
        (
            [rule("pods", operations=("CREATE",))],
            review(),
            "no rule matches: operations [CREATE] do not include DELETE",
        ),
        (
            [rule("pods", operations=("DELETE",), group="apps")],
            review(),
            'no rule matches: apiGroups [apps] do not include ""',
        ),
        (
            [rule("deployments/*", operations=("DELETE",))],
            review(SCALE, "scale"),
            'no rule matches: apiGroups [""] do not include apps',
        ),
        (
            [rule("pods", operations=("DELETE",), versions=("v2", "v3"))],
            review(),
            "no rule matches: apiVersions [v2, v3] do not include v1",
        ),
        (
            [rule("deployments", operations=("*",), group="apps")],
            review(SCALE, "scale"),
            "no rule matches: resources [deployments] do not include deployments/scale",
        ),
        (
            [rule("pods", operations=("DELETE",), scope="Cluster")],
            review(),
            "no rule matches: scope Cluster does not include namespaced pods",
        ),
        (
            [rule("*", operations=("DELETE",), group="*", scope="Namespaced")],
            review(SCALE, namespace=""),
            "no rule matches: scope Namespaced does not include cluster-scoped deployments.apps",
        ),
        (
            [rule("nodes", operations=("*",), versions=("v2",))],
            review(),
            "no rule matches: apiVersions [v2] do not include v1, resources [nodes] do not include pods",
        ),
        (
            [Rule((), ("*",), ("*",))],
            review(),
            "no rule matches: operations [] do not include DELETE, resources [] do not include pods",
        ),
    ],
)
def test_a_mismatch_names_the_part_of_the_rule(rules: list[Rule], review: Review, expected: str) -> None:
    assert mismatch(rules, review) == expected


def test_the_closest_of_several_rules_is_explained() -> None:
    far = rule("nodes", operations=("CREATE",), group="apps")
    near = rule("pods", operations=("CREATE",))
    expected = "no rule matches: operations [CREATE] do not include DELETE"
    assert mismatch([far, near], review()) == mismatch([near, far], review()) == expected
