"""What a configuration says of limited resources."""

from __future__ import annotations

import pytest

from pratique.controllers.quota.resource_quotas import LimitedResource, ScopeRequirement, check_limited


def limited(*scopes: ScopeRequirement, resource: str = "pods") -> LimitedResource:
    return LimitedResource(resource=resource, match_scopes=scopes)


@pytest.mark.parametrize(
    ("one", "fault"),
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
def test_what_could_not_be_matched_is_found_at_start(one: LimitedResource, fault: str) -> None:
    assert [str(each) for each in check_limited([one])] == ([fault] if fault else [])
