"""The defaults and limits of LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import ROOT
from pratique.pods.limit_ranges import bounds_of, container_defaults, limit_violations
from pratique.pods.resource_requirements import ResourceRequirements, read_requirements

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON, JSONObject


def limit_range(*items: JSONObject) -> JSONObject:
    return {"spec": {"limits": list(items)}}


def written(requirements: ResourceRequirements) -> tuple[dict[str, str], dict[str, str]]:
    requests = {name: str(amount) for name, amount in requirements.requests.items()}
    return requests, {name: str(amount) for name, amount in requirements.limits.items()}


@pytest.mark.parametrize(
    ("item", "requests", "limits"),
    [
        ({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {}),
        ({"default": {"cpu": "1"}, "max": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "1"}),
        ({"default": {"cpu": "2"}, "min": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "2"}),
        (
            {"defaultRequest": {"memory": "1Gi"}, "max": {"cpu": "2"}},
            {"cpu": "2", "memory": "1Gi"},
            {"cpu": "2"},
        ),
    ],
)
def test_an_item_is_defaulted_as_when_it_is_stored(
    item: JSONObject, requests: dict[str, str], limits: dict[str, str]
) -> None:
    defaults = container_defaults(limit_range({"type": "Container", **item}), filled=True)
    assert written(defaults) == (requests, limits)


def test_an_unfilled_item_has_only_its_own_defaults() -> None:
    item = {"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "3"}, "min": {"cpu": "1"}}
    assert written(container_defaults(limit_range(item), filled=False)) == ({}, {"cpu": "2"})


def test_the_last_item_wins_and_other_types_have_no_defaults() -> None:
    items = [
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}},
        {"type": "Pod", "default": {"cpu": "9"}},
        {"type": "Container", "default": {"cpu": "2"}},
    ]
    defaults = container_defaults(limit_range(*items), filled=False)
    assert written(defaults) == ({}, {"cpu": "2", "memory": "1Gi"})


def test_a_malformed_amount_is_named_with_its_item() -> None:
    item = {"type": "Pod", "max": {"cpu": "much"}}
    with pytest.raises(RefusalError, match=r"^spec\.limits\[1\]\.max\.cpu: quantities must match"):
        list(bounds_of(limit_range({"type": "Container"}, item), "Pod"))


@pytest.mark.parametrize(
    ("item", "resources", "violations"),
    [
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, []),
        ({"min": {"cpu": "1"}}, {}, ["minimum cpu usage per Container is 1.  No request is specified"]),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "999m"}},
            ["minimum cpu usage per Container is 1, but request is 999m"],
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}},
            ["minimum cpu usage per Container is 1, but limit is 500m"],
        ),
        ({"max": {"cpu": "1"}}, {}, ["maximum cpu usage per Container is 1.  No limit is specified"]),
        (
            {"max": {"cpu": "1"}},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            ["maximum cpu usage per Container is 1, but request is 2"],
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2500m"}},
            ["cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"],
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, []),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "0"}, "limits": {"cpu": "2"}},
            [
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"
            ],
        ),
        (
            {"max": {"cpu": "1", "a": "1"}, "min": {"b": "1"}},
            {},
            [
                "minimum b usage per Container is 1.  No request is specified",
                "maximum a usage per Container is 1.  No limit is specified",
                "maximum cpu usage per Container is 1.  No limit is specified",
            ],
        ),
    ],
)
def test_violations_are_worded_as_in_kubernetes(
    item: JSONObject, resources: JSON, violations: list[str]
) -> None:
    (bounds,) = bounds_of(limit_range({"type": "Container", **item}), "Container")
    assert list(limit_violations(bounds, read_requirements(resources, ROOT))) == violations


def test_a_claim_is_bounded_by_its_request_alone() -> None:
    item = {
        "type": "PersistentVolumeClaim",
        "max": {"storage": "1Gi"},
        "maxLimitRequestRatio": {"storage": "1"},
    }
    (bounds,) = bounds_of(limit_range(item), "PersistentVolumeClaim")
    allowed = read_requirements({"requests": {"storage": "1Gi"}, "limits": {"storage": "9Gi"}}, ROOT)
    assert list(limit_violations(bounds, allowed)) == []
    assert list(limit_violations(bounds, read_requirements({"requests": {"storage": "2Gi"}}, ROOT))) == [
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    ]


@pytest.mark.parametrize(
    ("request_", "limit", "ratio"),
    [
        ("3", "7", "2.333333"),
        ("3", "8", "2.666667"),
        ("2", "5", "2.500000"),
        ("1000000", "2000001", "2.000001"),
    ],
)
def test_a_ratio_prints_with_six_decimals(request_: str, limit: str, ratio: str) -> None:
    (bounds,) = bounds_of(limit_range({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}}), "Pod")
    resources = {"requests": {"cpu": request_}, "limits": {"cpu": limit}}
    (violation,) = limit_violations(bounds, read_requirements(resources, ROOT))
    assert violation.endswith(f"but provided ratio is {ratio}")
