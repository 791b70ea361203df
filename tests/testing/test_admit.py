"""Tests of policies: a request is made from a manifest, and asked of one policy or of a chain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pratique.admission.function_policies import mutator, validator
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import member
from pratique.apimachinery.requests import UserInfo
from pratique.controllers.always_pull_images import CONTROLLER as ALWAYS_PULL_IMAGES
from pratique.testing import PolicyChain, admit, make_review

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}
TEXT = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n"


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long names may be."""

    length: int = 3


@validator("ShortNames", rule("pods", operations=("CREATE", "UPDATE", "DELETE")), settings=Limit)
def short_names(review: Review, limit: Limit) -> Answer:
    """Denies long names."""
    if review.user.username == "careless":
        raise KeyError("secret of the object")
    return deny(f"longer than {limit.length}") if len(review.name) > limit.length else allow()


@mutator("AddTeam", rule("pods"))
async def add_team(review: Review) -> Answer:
    """Adds a team."""
    edits = Edits(review.object)
    edits.set(("metadata", "labels", "team"), review.namespace)
    return edits.answer()


def renamed(name: str) -> dict[str, Any]:
    return {**POD, "metadata": {**POD["metadata"], "name": name}}


def test_a_review_has_what_was_given(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(TEXT)
    review = make_review(
        tmp_path / "pod.yaml", operation="UPDATE", old=POD, user="ada", groups=["dev"], dry_run=True
    )
    assert (review.operation, review.name, review.namespace) == ("UPDATE", "web", "shop")
    assert review.user == UserInfo(username="ada", groups=("dev", "system:authenticated"))
    assert review.dry_run
    assert member(review.old_object, "spec") == POD["spec"]


def test_a_review_can_be_of_a_subresource_or_in_another_namespace() -> None:
    pod = {**POD, "metadata": {"name": "web"}}
    review = make_review(pod, operation="UPDATE", old=pod, subresource="status", namespace="lab")
    assert (review.subresource, review.namespace) == ("status", "lab")


def test_a_deleted_object_is_the_old_one() -> None:
    review = make_review(TEXT, operation="DELETE")
    assert review.object is None
    assert member(review.old_object, "metadata", "name") == "web"


def test_what_a_test_changes_later_is_not_in_the_review() -> None:
    pod = renamed("web")
    review = make_review(pod)
    pod["metadata"]["name"] = "other"
    assert member(review.object, "metadata", "name") == "web"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"manifest": ""}, "the manifest holds 0"),
        ({"manifest": f"{TEXT}---\n{TEXT}"}, "the manifest holds 2"),
        ({"manifest": {"kind": "Pud", "apiVersion": "v1"}}, "Pud"),
        ({"manifest": TEXT, "operation": "create"}, "none of CREATE, UPDATE, DELETE, CONNECT"),
        ({"manifest": TEXT, "operation": "UPDATE"}, "an UPDATE needs the object as it is stored"),
        ({"manifest": TEXT, "cluster": TEXT}, "a list of manifests"),
        ({"manifest": TEXT, "user": UserInfo(), "groups": ["dev"]}, "groups belong to a user given by name"),
    ],
)
def test_what_makes_no_review_is_an_error_that_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_review(**arguments)


def test_one_policy_gets_its_settings() -> None:
    assert admit(short_names, TEXT).allowed
    decision = admit(short_names, TEXT, settings={"length": 2})
    assert decision.message == 'pods "web" is forbidden: longer than 2'
    with pytest.raises(ConfigurationError, match="lenght"):
        admit(short_names, TEXT, settings={"lenght": 2})


def test_one_policy_is_asked_alone_and_only_about_what_its_rules_select() -> None:
    assert [step.controller for step in admit(add_team, POD).steps] == ["AddTeam"]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "long-name"}}
    assert admit(short_names, service).allowed


def test_a_policy_that_raises_denies_with_its_place_and_without_its_text() -> None:
    decision = admit(short_names, TEXT, user="careless")
    assert not decision.allowed
    assert "raised KeyError in short_names (" in decision.message
    assert f"{Path(__file__).name}:" in decision.message
    assert "secret" not in decision.message


def test_a_chain_has_the_default_controllers_and_the_policies() -> None:
    decision = PolicyChain(short_names, add_team).admit(POD)
    assert decision.allowed
    assert decision.object["metadata"]["labels"] == {"team": "shop"}
    assert {"ServiceAccount", "ShortNames", "AddTeam"} <= {step.controller for step in decision.steps}


def test_a_chain_takes_what_the_chain_flags_take(tmp_path: Path) -> None:
    plugins = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    block = {"name": "ShortNames", "configuration": {"length": 2}}
    (tmp_path / "admission.json").write_bytes(msgspec.json.encode({**plugins, "plugins": [block]}))
    file = tmp_path / "admission.json"
    assert not PolicyChain(short_names, admission_control_config_file=file).admit(POD).allowed
    exact = PolicyChain(short_names, admission_control=["AlwaysPullImages"]).admit(renamed("long-name"))
    assert exact.allowed
    assert exact.object["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert PolicyChain(short_names, disable=["ServiceAccount"]).admit(POD).object["spec"].keys() == {
        "containers", "priority", "preemptionPolicy", "tolerations",
    }  # fmt: skip


def test_a_phase_can_be_asked_alone() -> None:
    chain = PolicyChain(short_names, add_team)
    assert chain.admit(renamed("long-name"), phase="mutate").allowed
    assert not chain.admit(renamed("long-name"), phase="validate").allowed
    with pytest.raises(InputError, match="none of admit, mutate, validate"):
        chain.admit(POD, phase="both")


def test_requests_know_nothing_of_each_other() -> None:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}},
    }  # fmt: skip
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "shop"},
    }
    chain = PolicyChain()
    assert [chain.admit(POD, cluster=[quota, space, account]).message for _ in range(2)] == ["", ""]


def test_an_async_test_can_ask_too() -> None:
    async def ask() -> bool:
        return admit(add_team, POD).allowed

    assert asyncio.run(ask())


def test_a_controller_of_kubernetes_can_be_asked_but_not_replaced() -> None:
    assert admit(ALWAYS_PULL_IMAGES, POD).object["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    other = validator("AlwaysPullImages")(lambda _: allow())
    with pytest.raises(InputError, match="already Kubernetes'"):
        admit(other, POD)


def test_only_a_controller_is_a_policy() -> None:
    with pytest.raises(InputError, match="not a function"):
        PolicyChain(lambda _: allow())  # type: ignore[arg-type]  # the mistake under test


def test_a_review_takes_no_more_attributes() -> None:
    with pytest.raises(InputError, match="leave out user"):
        admit(add_team, make_review(POD), user="ada")


def test_a_decision_shows_why_and_nothing_of_the_object() -> None:
    secret = {**POD, "metadata": {**POD["metadata"], "name": "web-1", "annotations": {"token": "hidden"}}}
    denied, changed = admit(short_names, secret), admit(ALWAYS_PULL_IMAGES, secret)
    assert repr(denied).startswith('<Decision: denied, 403 Forbidden: pods "web-1" is forbidden: ')
    assert repr(changed) == "<Decision: allowed, changes: 1>"
    assert "hidden" not in repr(denied) + repr(changed)


def test_wrong_manifests_are_told_without_the_ways_below() -> None:
    with pytest.raises(InputError, match="is a text: write Path") as refused:
        admit(short_names, "pod.yaml")
    assert "source_documents.py" not in {Path(entry.path).name for entry in refused.traceback}
    assert all(entry.locals.get("__tracebackhide__") for entry in refused.traceback[1:])
