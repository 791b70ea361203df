"""What a policy in Python says about itself holds in services, in one process, and offline, and decides the same."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import forked_commands
from support.controller_packages import lay_out
from support.local_stacks import Stack, running, running_alone

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
CODE = '''
import msgspec
from pratique import Answer, Review, allow, deny, mutator, patch, rule, validator, warn

class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: str = "unset"

def names(review):
    return review.object["metadata"].get("annotations", {}).get("order", "")

def appended(review, name):
    metadata = review.object["metadata"]
    order = {**metadata.get("annotations", {}), "order": names(review) + name}
    return patch({**review.object, "metadata": {**metadata, "annotations": order}})

@mutator("Second", rule("pods"), after=["First"])
def second(review: Review) -> Answer:
    """Comes after the first."""
    return appended(review, "2") if "2" not in names(review) else allow()

@mutator("First", rule("pods"), before=["Second"])
def first(review: Review) -> Answer:
    """Comes before the second."""
    return appended(review, "1") if "1" not in names(review) else allow()

@validator("Told", rule("pods"), settings=Settings)
def told(review: Review, settings: Settings) -> Answer:
    """Warns, and writes into the audit log."""
    return warn("label is " + settings.label, audit_annotations={"label": settings.label})

@validator("OfProduction", rule("pods"), namespace_selector={"matchLabels": {"tier": "prod"}})
def of_production(review: Review) -> Answer:
    """Denies everything in production."""
    return deny("in production")

@validator("OfLabelled", rule("pods"), object_selector={"matchLabels": {"refuse": "me"}})
def of_labelled(review: Review) -> Answer:
    """Denies what is labelled."""
    return deny("labelled")

@validator("OfJane", rule("pods"), match_conditions={"jane": "request.userInfo.username == 'jane'"})
def of_jane(review: Review) -> Answer:
    """Denies what jane makes."""
    return deny("jane's")

@validator("Ignored", rule("pods"), failure_policy="Ignore")
def ignored(review: Review) -> Answer:
    """Raises, and is ignored."""
    raise KeyError("a secret of the object")

@validator("Failing", rule("pods"), match_conditions={"fail": "'fail' in request.userInfo.groups"})
def failing(review: Review) -> Answer:
    """Raises, and is not ignored."""
    raise KeyError("a secret of the object")
'''
POLICIES = {
    "First": "first",
    "Second": "second",
    "Told": "told",
    "OfProduction": "of_production",
    "OfLabelled": "of_labelled",
    "OfJane": "of_jane",
    "Ignored": "ignored",
    "Failing": "failing",
}
CLUSTER = """
{apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: prod}}}
"""
SETTINGS = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins: [{name: Told, configuration: {label: blue}}]
"""


@pytest.fixture(name="flags", scope="module")
def _flags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    folder = tmp_path_factory.mktemp("python-policies")
    packages = lay_out(folder / "packages", "own_policies", CODE, **POLICIES)
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "settings.yaml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(packages))
        yield (
            *("--disable-admission-plugins", "ServiceAccount,PodSecurity"),
            *("--enable-admission-plugins", ",".join(POLICIES)),
            *("--cluster", str(folder / "cluster.yaml")),
            *("--admission-control-config-file", str(folder / "settings.yaml")),
        )


class Offline:
    """Decides as ``pratique review`` does."""

    def __init__(self, flags: tuple[str, ...]) -> None:
        self._flags = flags

    def decide(self, review: Any) -> Any:
        command = [sys.executable, "-m", "pratique_cli", "review", *self._flags, "-o", "json", "-"]
        ran = forked_commands.run(command, input=json.dumps(review))
        (decision,) = json.loads(ran.stdout)
        return decision


class Running:
    """Decides as a stack does."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def decide(self, review: Any) -> Any:
        return self._stack.post("/explain?phase=admit", review)


@pytest.fixture(name="chain", scope="module", params=["services", "one process", "offline"])
def _chain(request: pytest.FixtureRequest, flags: tuple[str, ...]) -> Iterator[Offline | Running]:
    if request.param == "offline":
        yield Offline(flags)
        return
    services = request.param == "services"
    with running("--validators", "1", *flags) if services else running_alone(*flags) as stack:
        yield Running(stack)


def decided(chain: Offline | Running, change: str = "") -> Any:
    """The decision on a Pod in the namespace ``default`` of nobody in particular, or with one change."""
    review = copy.deepcopy(REVIEW)
    request = review["request"]
    namespace = "shop" if change == "namespace" else "default"
    request["namespace"] = request["object"]["metadata"]["namespace"] = namespace
    labels = request["object"]["metadata"].setdefault("labels", {})
    labels |= {"refuse": "me"} if change == "label" else {}
    user = "jane" if change == "user" else "somebody"
    request["userInfo"] = {"username": user, "groups": ["fail" if change == "group" else "people"]}
    return chain.decide(review)


def test_what_nobody_refuses_is_changed_in_order_warned_of_and_audited(chain: Offline | Running) -> None:
    decision = decided(chain)
    assert decision["allowed"], decision["status"]
    assert decision["object"]["metadata"]["annotations"]["order"] == "12"
    assert "label is blue" in decision["warnings"]
    assert {key.partition("/")[2]: value for key, value in decision["auditAnnotations"].items()}[
        "label"
    ] == "blue"
    outcomes = {step["controller"]: step["outcome"] for step in decision["steps"]}
    assert outcomes["Ignored"] == "failedOpen"
    assert {outcomes[name] for name in ("OfProduction", "OfLabelled", "OfJane", "Failing")} == {"skipped"}


@pytest.mark.parametrize(
    ("change", "denier", "message"),
    [
        ("namespace", "OfProduction", "in production"),
        ("label", "OfLabelled", "labelled"),
        ("user", "OfJane", "jane's"),
    ],
)
def test_selectors_and_conditions_choose_who_is_asked(
    chain: Offline | Running, change: str, denier: str, message: str
) -> None:
    decision = decided(chain, change)
    assert not decision["allowed"]
    assert decision["status"]["message"].endswith(message)
    assert [step["controller"] for step in decision["steps"] if step["outcome"] == "denied"] == [denier]


def test_a_policy_that_raises_denies_and_tells_nothing_of_the_object(chain: Offline | Running) -> None:
    decision = decided(chain, "group")
    assert not decision["allowed"]
    assert decision["status"]["code"] == 500
    assert 'admission controller "Failing" failed' in decision["status"]["message"]
    assert "a secret" not in json.dumps(decision)
