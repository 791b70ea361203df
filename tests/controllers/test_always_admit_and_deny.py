"""AlwaysAdmit and AlwaysDeny."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import Phase
from pratique.apimachinery.json_values import JSONObject
from pratique.controllers import always_admit, always_deny
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check


@pytest.mark.parametrize("case", vector_cases.plugin("AlwaysAdmit"), ids=vector_cases.source)
def test_always_admit_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(always_admit.CONTROLLER, review_of(case["request"])), case["expected"])


@pytest.mark.parametrize("case", vector_cases.plugin("AlwaysDeny"), ids=vector_cases.source)
def test_always_deny_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(always_deny.CONTROLLER, review_of(case["request"])), case["expected"])


@pytest.mark.parametrize("phase", list(Phase))
def test_always_deny_denies_in_both_phases(phase: Phase) -> None:
    found = admit(always_deny.CONTROLLER, pod_review({}), phases=[phase])
    assert found.status is not None
    assert found.status.message == ('pods "web" is forbidden: admission control is denying all modifications')


def test_neither_is_on_by_default() -> None:
    assert not always_admit.CONTROLLER.default
    assert not always_deny.CONTROLLER.default
