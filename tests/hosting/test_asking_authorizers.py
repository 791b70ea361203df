"""Controllers, policies and conditions whose authorizer has to ask an API server first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import Controller, Handler
from pratique.admission.function_policies import validator
from pratique.admission.results import ALLOWED, Answer, Denied, Outcome, allow, deny
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.hosting.catalogue import HostedController, configure_controller, load_catalogue
from pratique.hosting.running import MutatorHost, ValidatorHost
from support.access_review_servers import AccessReviewServer, access_review_server, asking
from support.mutating_policies import bound, labelled, mutating
from support.services.controllers import hosted
from support.services.reviews import POD, review_of
from support.validating_policies import binding, loaded, match_condition, policy


@pytest.fixture(name="server")
def _server() -> Iterator[AccessReviewServer]:
    with access_review_server() as server:
        yield server


def may(review: Review, verb: str) -> bool:
    attributes = AuthorizationAttributes(user=review.user, verb=verb, resource="pods")
    return review.authorizer.authorize(attributes).allowed


def both_allowed(review: Review) -> Answer:
    return allow() if may(review, "get") and may(review, "list") else deny("refused")


async def both_allowed_later(review: Review) -> Answer:
    await asyncio.sleep(0)
    return both_allowed(review)


def both_allowed_or_anything_else(review: Review) -> Answer:
    try:
        return both_allowed(review)
    except Exception:  # noqa: BLE001 - as careless policies do
        return allow()


def run(
    server: AccessReviewServer, folder: Path, controllers: Sequence[HostedController], user: str
) -> list[Outcome]:
    """Let a user's review of a Pod through controllers, both phases where they have both."""

    async def decide() -> list[Outcome]:
        async with asking(server, folder) as store:
            review = msgspec.structs.replace(review_of(POD, cluster=store), user=UserInfo(user))
            outcomes = []
            for host in (MutatorHost(controllers, store), ValidatorHost(controllers, store)):
                calls = [Call(name, 30.0) for name in host.runners]
                ask = host.mutate if isinstance(host, MutatorHost) else host.validate
                outcomes += await ask(review, calls)
            return outcomes

    return asyncio.run(decide())


@pytest.mark.parametrize("handler", [both_allowed, both_allowed_later, both_allowed_or_anything_else])
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
def test_a_controller_is_called_again_with_each_answer(
    server: AccessReviewServer, tmp_path: Path, handler: Handler, *, trusted: bool
) -> None:
    controllers = [hosted("C", handler, trusted=trusted)]
    assert run(server, tmp_path, controllers, "ann")[0].decision == ALLOWED
    assert isinstance(run(server, tmp_path, controllers, "bob")[0].decision, Denied)
    asked = [(spec["user"], spec["resourceAttributes"]["verb"]) for spec in server.asked]
    assert asked == [("ann", "get"), ("ann", "list"), ("bob", "get")]


def test_an_error_of_the_api_server_is_no_permission(server: AccessReviewServer, tmp_path: Path) -> None:
    server.script = [(403, {"message": "you may not ask"})]
    outcomes = run(server, tmp_path, [hosted("C", both_allowed)], "ann")
    assert [type(outcome.decision) for outcome in outcomes] == [Denied, Denied]
    assert len(server.asked) == 1


def policies_of(*documents: JSONObject) -> list[HostedController]:
    """Host the controllers of both kinds of policies with these policies."""
    catalogue = {controller.name: controller for controller in load_catalogue()}
    names = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    controllers = [configure_controller(catalogue[name], None) for name in names]
    configurations = loaded(*documents)
    for controller in controllers:
        controller.handlers.use_configurations(configurations)
    return controllers


def check(verb: str) -> str:
    return f"authorizer.group('').resource('pods').check('{verb}')"


@pytest.mark.parametrize(("user", "denial"), [("ann", ""), ("bob", "failed expression")])
def test_policies_go_on_where_they_asked(
    server: AccessReviewServer, tmp_path: Path, user: str, denial: str
) -> None:
    controllers = policies_of(
        policy("true", f"{check('get')}.allowed() && {check('list')}.allowed()", name="p"),
        binding("p"),
        policy(
            "variables.asked.allowed()",
            name="q",
            variables=[{"name": "asked", "expression": check("watch")}],
        ),
        binding("q", name="b2"),
    )
    outcomes = run(server, tmp_path, controllers, user)
    texts = [outcome.decision.status.message for outcome in outcomes if isinstance(outcome.decision, Denied)]
    assert [denial in text for text in texts] == ([True] if denial else [])


def test_a_mutation_is_made_once_its_question_is_answered(server: AccessReviewServer, tmp_path: Path) -> None:
    value = f"string({check('get')}.allowed())"
    controllers = policies_of(mutating(labelled("first", "'1'"), labelled("allowed", value)), bound())
    outcome = run(server, tmp_path, controllers, "ann")[0]
    assert outcome.document is not None
    assert outcome.document.data["metadata"]["labels"] == {"first": "1", "allowed": "true"}


def asks_in_condition() -> Controller:
    return validator("C", match_conditions={"may": f"{check('get')}.allowed()"})(lambda _: deny("seen"))


@pytest.mark.parametrize(("user", "called"), [("ann", True), ("bob", False)])
def test_conditions_ask_before_a_policy_is_called(
    server: AccessReviewServer, tmp_path: Path, user: str, *, called: bool
) -> None:
    controllers = [configure_controller(asks_in_condition(), None)]
    [outcome] = run(server, tmp_path, controllers, user)
    assert isinstance(outcome.decision, Denied) is called


def test_conditions_of_admission_policies_ask(server: AccessReviewServer, tmp_path: Path) -> None:
    conditions = match_condition(f"{check('get')}.allowed()")
    controllers = policies_of(policy("false", matchConditions=conditions), binding())
    assert isinstance(run(server, tmp_path, controllers, "ann")[-1].decision, Denied)
    assert run(server, tmp_path, controllers, "bob")[-1].decision == ALLOWED
