"""Configurations from objects of a live cluster: read once they have settled, and kept where they become invalid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.cluster.store import ObjectKey
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.configuration.live_configurations import (
    ConfigurationObjects,
    LiveConfigurations,
    collections_of,
)

BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "a", "resourceVersion": "1", "uid": "u"},
    "spec": {"policyName": "a", "validationActions": ["Deny"]},
}
BINDING_KEY = ObjectKey("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "a")
MAP_KEY = ObjectKey("", "configmaps", "rules", "a")


def config_map(**data: str) -> dict[str, Any]:
    names = {name.replace("_", "."): text for name, text in data.items()}
    return {"metadata": {"name": "a", "namespace": "rules"}, "data": names}


def run(
    scenario: Callable[[ConfigurationObjects, LiveConfigurations], Coroutine[Any, Any, None]],
) -> LiveConfigurations:
    """Run a scenario while a binding is followed."""
    objects = ConfigurationObjects()
    objects.change(BINDING_KEY, BINDING)
    configurations = LiveConfigurations((), objects, ())

    async def followed() -> None:
        suspended: list[bool] = []
        following = asyncio.create_task(configurations.keep_current(suspended.append))
        await asyncio.wait_for(scenario(objects, configurations), 120)
        following.cancel()

    asyncio.run(followed())
    return configurations


async def until(fact: Callable[[], bool]) -> None:
    while not fact():  # noqa: ASYNC110 - a reload tells nobody but its listeners
        await asyncio.sleep(0.01)


def test_objects_that_change_together_are_one_new_set() -> None:
    seen: list[int] = []

    async def scenario(objects: ConfigurationObjects, configurations: LiveConfigurations) -> None:
        configurations.add_listener(lambda value: seen.append(len(value.validating_bindings)))
        for name in "bcd":
            objects.change(BINDING_KEY._replace(name=name), BINDING | {"metadata": {"name": name}})
        await until(lambda: bool(seen))

    run(scenario)
    assert seen == [4]


def test_a_new_version_of_what_does_not_count_reloads_nothing() -> None:
    told: list[bool] = []
    objects = ConfigurationObjects()
    objects.change(BINDING_KEY, BINDING)
    objects.add_listener(lambda: told.append(True))
    objects.change(BINDING_KEY, BINDING | {"status": {"a": 1}, "metadata": {"name": "a", "uid": "v"}})
    assert not told
    objects.change(BINDING_KEY, None)
    assert told


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"rules_yaml": "a: [", "b_txt": ""}, 'configmaps "rules/a", rules.yaml'),
        ({"rules_yaml": "# nothing"}, "it holds no documents"),
        ({"rules_txt": "a: 1"}, "has no key that ends in .yaml, .yml, .json"),
        ({"rules_json": json.dumps({"kind": "Pod", "apiVersion": "v1"})}, 'no kind "Pod" is registered'),
        ({"rules_json": json.dumps(BINDING)}, 'duplicate name "a"'),
    ],
)
def test_an_unusable_config_map_keeps_the_last_good_set(data: dict[str, str], said: str) -> None:
    async def scenario(objects: ConfigurationObjects, configurations: LiveConfigurations) -> None:
        objects.change(MAP_KEY, config_map(**data))
        await until(lambda: bool(configurations.failure))
        assert said in configurations.failure
        assert len(configurations.value.validating_bindings) == 1
        objects.change(MAP_KEY, None)
        await until(lambda: not configurations.failure)

    assert len(run(scenario).value.validating_bindings) == 1


@pytest.mark.parametrize("source", ["", "clusters", "configmaps=", "configmaps=A_b", "configmaps=a/b"])
def test_what_is_no_source_is_refused_with_those_that_are(source: str) -> None:
    with pytest.raises(ConfigurationError, match="give cluster, webhooks or configmaps=NAMESPACE"):
        collections_of(source)


def test_inputs_are_nobodys_while_they_may_be_out_of_date() -> None:
    held = RecentInputs(InputDigests.of("a", "b", "c"), "host")
    told: list[bool] = []
    held.listen(lambda: told.append(True))
    held.suspend(True)
    held.suspend(True)
    assert held.find("") is None
    assert held.get(held.digests.whole) is None
    assert list(held) == []
    assert told == [True]
    held.suspend(False)
    assert held.get("") == "host"
