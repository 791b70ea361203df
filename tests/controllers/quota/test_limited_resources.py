"""The configuration of limited resources."""

from __future__ import annotations

import pytest

from pratique.controllers.quota.resource_quotas import LimitedResource, ScopeRequirement, check_limited


def limited(*scopes: ScopeRequirement, resource: str = "pods") -> LimitedResource:
    return LimitedResource(resource=resource, match_scopes=scopes)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (limited(resource=""), "limitedResources[0].resource: Required value"),
        (
            limited(ScopeRequirement("PriorityClass", "Near")),
            (
                'limitedResources[0].matchScopes[0]: Invalid value: "{PriorityClass Near []}": failed to parse and'
                ' convert selector: "Near" is not a valid scope selector operator'
            ),
        ),
        (limited(ScopeRequirement("PriorityClass", "In", ("high",))), ""),
        (limited(ScopeRequirement("BestEffort")), ""),
    ],
)
def test_a_scope_that_cannot_be_evaluated_is_rejected_at_start(
    resource: LimitedResource, expected: str
) -> None:
    assert [str(error) for error in check_limited([resource])] == ([expected] if expected else [])
