"""Controllers of packages run where they wish to, and Kubernetes' own as ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Controller
from pratique.admission.function_policies import mutator
from pratique.admission.results import allow
from pratique.apimachinery.errors import ConfigurationError
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.chain_order import CHAIN_ORDER, in_chain_order

CONTRADICT = " to run before or after other admission controllers contradict each other or the order of Kubernetes' own"
OWN = tuple(controller for controller in load_catalogue() if controller.name in CHAIN_ORDER)


def policy(name: str, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Controller:
    return mutator(name, before=before, after=after)(lambda _: allow())


def order(*policies: Controller) -> list[str]:
    return [controller.name for controller in in_chain_order([*policies, *OWN])]


def test_policies_run_by_name_after_the_controllers_of_kubernetes_and_before_its_policies() -> None:
    found = order(policy("Zebra"), policy("Ant"))
    place = found.index("Ant")
    assert found[place - 1 : place + 3] == ["PodResizeValidator", "Ant", "Zebra", "MutatingAdmissionPolicy"]


def test_a_policy_runs_right_before_what_it_wants_to_precede() -> None:
    found = order(policy("Early", before=("LimitRanger",)), policy("Ant"))
    assert found.index("LimitRanger") - found.index("Early") == 1
    assert found.index("Ant") > found.index("PodResizeValidator")


def test_a_policy_runs_right_after_what_it_wants_to_follow() -> None:
    found = order(policy("Late", after=("MutatingAdmissionWebhook",)))
    assert found.index("Late") - found.index("MutatingAdmissionWebhook") == 1


def test_policies_can_be_ordered_among_themselves() -> None:
    found = order(policy("A", after=("C",)), policy("B", after=("A",)), policy("C"))
    assert [name for name in found if name in "ABC"] == ["C", "A", "B"]


def test_two_policies_may_name_each_other() -> None:
    found = order(
        policy("B", before=("A",)), policy("A", after=("B",)), policy("C", after=("B",), before=("A",))
    )
    assert [name for name in found if name in "ABC"] == ["B", "C", "A"]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (
            [policy("A", before=("LimitRange",))],
            'admission controller "A" wants to run before "LimitRange", which is unknown; did you mean "LimitRanger"?',
        ),
        (
            [policy("A", after=("ResourceQuota",))],
            (
                'admission controller "A" wants to run after "ResourceQuota",'
                " which charges what everything else has allowed"
            ),
        ),
        (
            [policy("A", before=("B",)), policy("B", before=("A",))],
            f'the wishes of "A", "B"{CONTRADICT}',
        ),
        (
            [policy("A", before=("LimitRanger",), after=("PodSecurity",))],
            f'the wishes of "A"{CONTRADICT}',
        ),
    ],
)  # fmt: skip
def test_a_wish_that_cannot_be_granted_is_an_error(policies: list[Controller], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        order(*policies)
    assert str(caught.value) == message


NAMES = st.sampled_from(["P", "Q", "R", "S", *CHAIN_ORDER[:-2]])


@given(st.lists(st.tuples(NAMES, st.booleans(), NAMES), max_size=6))
def test_every_wish_is_granted_or_refused_and_kubernetes_order_stays(
    wishes: list[tuple[str, bool, str]],
) -> None:
    before = {
        name: tuple(other for wisher, first, other in wishes if wisher == name and first) for name in "PQRS"
    }
    after = {
        name: tuple(other for wisher, first, other in wishes if wisher == name and not first)
        for name in "PQRS"
    }
    policies = {name: policy(name, before[name], after[name]) for name in "PQRS"}
    try:
        found = order(*policies.values())
    except ConfigurationError:
        return
    assert [name for name in found if name in CHAIN_ORDER] == [controller.name for controller in OWN]
    for controller in policies.values():
        place = found.index(controller.name)
        assert all(found.index(other) > place for other in controller.before)
        assert all(found.index(other) < place for other in controller.after)
