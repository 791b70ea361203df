"""Requests that built-in controllers have little to say of, for families of policies and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from differential.built_ins import create
from differential.pairs import CONFIG_MAPS, DEPLOYMENTS, PODS, Request, User, World, made
from pratique.apimachinery.json_values import JSONObject

STORED = "there"
"""The ConfigMap that requests change."""


def config_map(namespace: str) -> JSONObject:
    """The ConfigMap that requests change, for a world."""
    metadata = {"labels": {"app": "web", "team": "web"}}
    return made(CONFIG_MAPS, STORED, namespace, data={"a": "1", "b": "x"}, metadata=metadata)


def plain_request(random: Random, world: World, pod: Callable[[Random], JSONObject]) -> Request:
    """Draw the creation of a Pod or a Deployment, or what can be done to a ConfigMap."""
    drawn = random.random()
    if drawn < 0.4:
        return create(random, PODS, world.namespace, pod(random))
    if drawn < 0.5:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": pod(random)["spec"]}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        return create(random, DEPLOYMENTS, world.namespace, made(DEPLOYMENTS, "d", spec=spec))
    body = made(CONFIG_MAPS, STORED, world.namespace, data={"a": random.choice(("1", "2"))})
    body["metadata"]["labels"] = dict(random.choice(({}, {"app": "web"}, {"app": "web", "team": "db"})))
    if drawn < 0.75:
        body["metadata"]["name"] = f"c{random.randrange(100)}"
        return create(random, CONFIG_MAPS, world.namespace, body)
    if drawn < 0.9:
        return Request(User.AUTHOR, "PUT", CONFIG_MAPS, world.namespace, STORED, body)
    return Request(User.AUTHOR, "DELETE", CONFIG_MAPS, world.namespace, STORED, {})
