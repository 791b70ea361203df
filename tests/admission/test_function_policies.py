"""One callable is a policy."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from pratique.admission.controllers import MUTATE, VALIDATE, Controller
from pratique.admission.function_policies import mutator, validator
from pratique.admission.results import Answer, Edits, Patch, allow, deny, patch, warn
from pratique.admission.reviews import Review
from pratique.admission.rules import EVERYTHING, rule
from pratique.apimachinery.json_values import member
from support.admissions import admit, pod_review


@validator("RequireTeam", rule("pods"))
def require_team(review: Review) -> Answer:
    """Refuse Pods without a team.

    More is said here.
    """
    team = member(review.object, "metadata", "labels", "team")
    return allow() if team else deny("label team is missing")


@mutator("AddTeam", rule("pods"), summary="Adds the team.", default=True)
async def add_team(review: Review) -> Answer:
    """Add the team."""
    edits = Edits(review.object)
    edits.set(("metadata", "labels", "team"), "shop")
    return edits.answer()


def test_a_validator_is_a_controller() -> None:
    assert isinstance(require_team, Controller)
    assert (require_team.name, require_team.phases) == ("RequireTeam", VALIDATE)
    assert require_team.rules == (rule("pods"),)
    assert not require_team.default
    assert not require_team.trusted


def test_a_mutator_is_a_controller() -> None:
    assert (add_team.name, add_team.phases, add_team.default) == ("AddTeam", MUTATE, True)


def test_the_summary_is_the_first_line_of_the_docstring_unless_given() -> None:
    assert require_team.summary == "Refuse Pods without a team."
    assert add_team.summary == "Adds the team."
    assert validator("Bare")(lambda _: allow()).summary == "Bare"


def test_without_rules_every_request_matches() -> None:
    assert validator("All")(lambda _: allow()).rules == (EVERYTHING,)


def test_a_validator_answers() -> None:
    status = admit(require_team, pod_review({"kind": "Pod"})).status
    assert status is not None
    assert status.message == 'pods "web" is forbidden: label team is missing'
    assert admit(require_team, pod_review({"kind": "Pod", "metadata": {"labels": {"team": "a"}}})).allowed


def test_a_policy_may_be_async() -> None:
    found = admit(add_team, pod_review({"kind": "Pod"}))
    assert found.object == {"kind": "Pod", "metadata": {"labels": {"team": "shop"}}}


def test_a_policy_may_warn() -> None:
    found = admit(validator("Warn")(lambda _: warn("careful", "slow")), pod_review({}))
    assert (found.allowed, found.warnings) == (True, ("careful", "slow"))


def test_a_policy_may_patch_by_operations() -> None:
    operations = [{"op": "add", "path": "/a", "value": 1}]
    found = admit(mutator("Patch")(lambda _: patch(operations=operations)), pod_review({}))
    assert found.object == {"a": 1}


@pytest.mark.parametrize("name", ["", "Require Team", "A,B", "1st", "-x", "é"])
def test_a_name_can_be_written_in_a_flag(name: str) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        validator(name)


def test_forgotten_parentheses_are_noticed() -> None:
    with pytest.raises(ValueError, match='such as "RequireTeam"'):
        validator(require_team)  # type: ignore[arg-type]  # the mistake under test


def test_rules_must_be_created_by_rule() -> None:
    with pytest.raises(ValueError, match=r'RequireTeam: rules are written as rule\("pods"\)'):
        validator("RequireTeam", "pods")  # type: ignore[arg-type]  # the mistake under test


TEAMLESS = pod_review({"kind": "Pod"})


class LimitLabels:
    """Refuse Pods with many labels."""

    def __init__(self, most: int = 2) -> None:
        self.most = most

    def __call__(self, review: Review) -> Answer:
        labels = member(review.object, "metadata", "labels") or {}
        return deny("too many labels") if len(labels) > self.most else allow()


def test_a_decorated_function_can_be_called() -> None:
    assert require_team(TEAMLESS) == deny("label team is missing")
    assert list(inspect.signature(require_team).parameters) == ["review"]


def test_a_decorated_coroutine_function_is_awaited_as_before() -> None:
    answer = asyncio.run(_awaited(add_team(TEAMLESS)))
    assert isinstance(answer, Patch)
    assert answer.new_object == {"kind": "Pod", "metadata": {"labels": {"team": "shop"}}}


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


def test_a_copy_of_a_decorated_function_can_be_called() -> None:
    assert msgspec.structs.replace(require_team, default=True)(TEAMLESS) == require_team(TEAMLESS)


def test_a_class_of_callables_is_a_policy() -> None:
    limit = validator("LimitLabels", rule("pods"))(LimitLabels)
    crowded = pod_review({"kind": "Pod", "metadata": {"labels": {"a": "", "b": "", "c": ""}}})
    assert limit(crowded) == deny("too many labels")
    assert not admit(limit, crowded).allowed
    assert limit.summary == "Refuse Pods with many labels."


def test_an_instance_is_a_policy() -> None:
    limit = validator("NoLabels")(LimitLabels(0))
    assert limit(pod_review({"kind": "Pod", "metadata": {"labels": {"a": ""}}})) == deny("too many labels")


@pytest.mark.parametrize(("policy", "kind"), [(object(), "object"), (require_team, "CallableController")])
def test_what_takes_no_review_is_no_policy(policy: object, kind: str) -> None:
    with pytest.raises(TypeError, match=f"Odd: a policy is a callable .*, not an instance of {kind}"):
        validator("Odd")(policy)  # type: ignore[call-overload]  # the mistake under test


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most: int = 1


@validator("AtMost", settings=Limits)
def at_most(review: Review, limits: Limits) -> Answer:
    """Refuse Pods with too many containers."""
    found = len(review.object["spec"]["containers"])
    return deny(f"{found} containers") if found > limits.most else allow()


@validator("AtMostLater", settings=Limits)
async def at_most_later(review: Review, limits: Limits) -> Answer:
    """The same, but async."""
    await asyncio.sleep(0)
    return at_most(review, limits)


@pytest.mark.parametrize("policy", [at_most, at_most_later])
def test_a_policy_gets_its_settings(policy: Controller) -> None:
    review = pod_review({"kind": "Pod", "spec": {"containers": [{}, {}]}})
    assert not admit(policy, review).allowed
    assert admit(policy, review, {"most": 2}).allowed


def test_a_policy_with_settings_can_be_called() -> None:
    review = pod_review({"kind": "Pod", "spec": {"containers": [{}, {}]}})
    assert at_most(review, Limits(most=2)) == allow()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout_seconds": 31}, "A: timeout_seconds must be more than 0 and at most 30"),
        ({"failure_policy": "ignore"}, "A: failure_policy must be 'Fail' or 'Ignore'"),
        ({"before": "LimitRanger"}, "A: before takes a list of names of controllers"),
        (
            {"object_selector": {"matchLabel": {}}},
            'A: object_selector: strict decoding error: unknown field "matchLabel"',
        ),
        (
            {"namespace_selector": {"matchExpressions": [{"key": "a", "operator": "in"}]}},
            'A: namespace_selector.matchExpressions[0].operator: Invalid value: "in": not a valid selector operator',
        ),
        ({"timeout": 3}, "A: there is no option 'timeout'; there are summary, default, timeout_seconds,"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_an_error_where_it_is_written(options: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(error)):
        validator("A", **options)
