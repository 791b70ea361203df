"""Random policies decide as a simple model in Python."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSONObject
from support.validating_policies import binding, decide, deployment_review, policy


class Broken(Exception):  # noqa: N818 - it is what the model says of an expression
    """The evaluation of an expression fails."""


@dataclasses.dataclass(frozen=True)
class Known:
    """``true``, ``false``, or a missing field."""

    value: bool | None

    @property
    def text(self) -> str:
        return "dyn(object).none" if self.value is None else f"dyn({str(self.value).lower()})"


@dataclasses.dataclass(frozen=True)
class Asked:
    """A variable, by its index among earlier ones."""

    place: int

    @property
    def text(self) -> str:
        return f"variables.v{self.place}"


@dataclasses.dataclass(frozen=True)
class Joined:
    """``a && b`` or ``a || b``."""

    operator: str
    left: Tree
    right: Tree

    @property
    def text(self) -> str:
        return f"({self.left.text} {self.operator} {self.right.text})"


Tree: TypeAlias = Known | Asked | Joined


def trees(variables: int) -> st.SearchStrategy[Tree]:
    """Expressions that use the first few variables."""
    leaves: st.SearchStrategy[Tree] = st.builds(Known, st.sampled_from([True, False, None]))
    if variables:
        leaves |= st.builds(Asked, st.integers(0, variables - 1))
    return st.recursive(
        leaves, lambda inner: st.builds(Joined, st.sampled_from(["&&", "||"]), inner, inner), max_leaves=4
    )


def value_of(tree: Tree, variables: list[Tree]) -> bool:
    """The value of an expression: an operand that decides absorbs the other's error."""
    match tree:
        case Known(value=None):
            raise Broken
        case Known(value=bool() as value):
            return value
        case Asked(place=place):
            return value_of(variables[place], variables)
        case Joined(operator=operator):
            return joined(operator == "||", [tree.left, tree.right], variables)
    raise AssertionError(tree)


def joined(deciding: bool, sides: list[Tree], variables: list[Tree]) -> bool:  # noqa: FBT001
    broken = False
    for side in sides:
        try:
            if value_of(side, variables) is deciding:
                return deciding
        except Broken:
            broken = True
    if broken:
        raise Broken
    return not deciding


@st.composite
def sets(draw: st.DrawFn) -> tuple[list[Tree], list[Tree], list[Tree], bool]:
    """Variables, match conditions, validations, and whether the failure policy is Ignore."""
    variables = [draw(trees(place)) for place in range(draw(st.integers(0, 3)))]
    conditions = draw(st.lists(trees(0), max_size=2))
    validations = draw(st.lists(trees(len(variables)), min_size=1, max_size=3))
    return variables, conditions, validations, draw(st.booleans())


def expected(
    variables: list[Tree], conditions: list[Tree], validations: list[Tree], *, fails_open: bool
) -> list[str]:
    """The indexes of the denying validations, or ``conditions`` if match conditions deny."""
    found = [outcome(tree, []) for tree in conditions]
    if False in found:
        return []
    if None in found:
        return [] if fails_open else ["conditions"]
    outcomes = [outcome(tree, variables) for tree in validations]
    refusing = {False} if fails_open else {False, None}
    return [str(place) for place, outcome in enumerate(outcomes) if outcome in refusing]


def outcome(tree: Tree, variables: list[Tree]) -> bool | None:
    try:
        return value_of(tree, variables)
    except Broken:
        return None


def document(
    variables: list[Tree], conditions: list[Tree], validations: list[Tree], *, fails_open: bool
) -> JSONObject:
    named = [{"name": f"v{place}", "expression": tree.text} for place, tree in enumerate(variables)]
    matching = [
        {"name": f"c{place}", "expression": f"{tree.text} == true"} for place, tree in enumerate(conditions)
    ]
    checked = [
        {"expression": f"{tree.text} == true", "messageExpression": f"'{place}'"}
        for place, tree in enumerate(validations)
    ]
    failure = "Ignore" if fails_open else "Fail"
    return policy(*checked, variables=named, matchConditions=matching, failurePolicy=failure)


@given(sets())
def test_policies_decide_as_the_model_does(made: tuple[list[Tree], list[Tree], list[Tree], bool]) -> None:
    *parts, fails_open = made
    found = decide(document(*parts, fails_open=fails_open), binding(), explain=True)
    wanted = expected(*parts, fails_open=fails_open)
    assert len(found.denials) == len(wanted)
    for status, place in zip(found.denials, wanted, strict=True):
        text = status.message.partition(" denied request: ")[2]
        assert text == place or "resulted in error" in text
    (decision,) = found.decisions
    assert (decision.outcome in (OutcomeStatus.DENIED, OutcomeStatus.FAILED)) is bool(wanted)


@given(
    st.one_of(st.just(""), st.text(st.sampled_from("ab \n\té<>&"), max_size=6)),
    st.text(st.sampled_from("xy "), max_size=4),
)
def test_messages_fall_back_as_the_model_does(evaluated: str, written: str) -> None:
    validation = {"expression": "1 == 2", "messageExpression": "string(object.text)"}
    if written.strip():
        validation["message"] = written
    review = deployment_review({"metadata": {"name": "web"}, "text": evaluated})
    status = decide(policy(validation), binding(), review=review).status
    assert status is not None
    said = evaluated.strip()
    wanted = said if said and "\n" not in said else written.strip() or "failed expression: 1 == 2"
    assert status.message.endswith(f" denied request: {wanted}")
