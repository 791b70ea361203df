"""Policies and webhook configurations, valid and with flaws: what the API server says when somebody creates them."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from differential.comparison import Difference
from differential.drawn_expressions import flawed
from differential.judging import Judge
from differential.listed import is_listed
from differential.pairs import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    USUAL,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    Request,
    Resource,
    Setup,
    User,
    made,
)
from differential.policies import binding, mutating_policy, validating_policy
from differential.tallies import Found, Tally
from differential.webhooks import drawn_webhook
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.configuration.loading import load_configurations

CONFIGURATIONS = "configurations"
"""The name in the table of ``docs/conformance.md``."""

_NAME = "drawn.example.com"
_UNREADABLE = 400
_EXPRESSIONS = frozenset({"expression", "messageExpression", "valueExpression"})
_WORDS = ("", "Other", "a b", "x" * 70, "UPPER", "*", "v1", "pods/status", "9", "é")


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedConfigurations:
    """Whether both sides take a configuration, and what each says that does not."""

    name: str = CONFIGURATIONS
    requests: int = 100
    setup: Setup = USUAL

    def compare(self, judge: Judge, drawn_from: str, pairs: int, told: Callable[[str], None]) -> Tally:
        """Compare so many policies, bindings and webhook configurations."""
        tally, random = Tally(pairs=pairs), Random(drawn_from)
        for _ in range(pairs):
            request = draw(random)
            taken, difference = compare_refusals(judge, request)
            if difference is None:
                tally.same += 1
                tally.refused += not taken
            elif is_listed(difference):
                tally.listed += 1
            else:
                found = Found(self.name, drawn_from, request, difference)
                if found.cause not in {known.cause for known in tally.found}:
                    body = json.dumps(request.body)
                    told(f"{request.resource.kind} in {drawn_from}\n  {difference.describe()}\n  {body}")
                tally.found.append(found)
        return tally


def draw(random: Random) -> Request:
    """Draw the creation of a policy, a binding or a webhook configuration."""
    resource = random.choice(
        (
            VALIDATING_POLICIES,
            VALIDATING_POLICIES,
            MUTATING_POLICIES,
            MUTATING_POLICIES,
            VALIDATING_BINDINGS,
            MUTATING_BINDINGS,
            MUTATING_WEBHOOKS,
            VALIDATING_WEBHOOKS,
        )
    )
    body = _drawn(random, resource)
    for _ in range(random.choice((0, 1, 1, 2))):
        _spoil(random, body)
    return Request(User.ADMIN, "POST", resource, "", _NAME, body)


def compare_refusals(judge: Judge, request: Request) -> tuple[bool, Difference | None]:
    """Whether the API server takes an object, and where ours says something else.

    What an object of the wrong types is called is compared by neither: an API server reads it into Go types before it
    looks at it.
    """
    real = judge.store(request)
    refused = _refusal(request.body)
    if real.allowed is bool(refused):
        return real.allowed, Difference("decision", f"{real.code} {real.message}", refused or "takes it")
    if real.allowed:
        return True, None
    if real.code == _UNREADABLE:
        return False, None
    words = real.message.partition(" is invalid: ")[2]
    return False, None if words == refused else Difference("message", words, refused)


def _refusal(item: JSON) -> str:
    """What our loader says of an object in a file of its own, in the words of the API server; empty if it takes it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drawn.json"
        file.write_text(json.dumps(item))
        try:
            load_configurations([file])
        except ConfigurationError as error:
            return _words(str(error), f"{file}: document 1")
    return ""


def _words(text: str, where: str) -> str:
    first, *others = text.split(f"\n{where}")
    about = re.sub(r'^: \S+(?: "(?:[^"\\]|\\.)*")?', "", first.removeprefix(where))
    if others:
        return about.removeprefix(" is invalid: ")
    return re.sub(r" \(line \d+\)$", "", about.removeprefix(": "))


def _drawn(random: Random, resource: Resource) -> JSONObject:
    """One without flaws, or nearly so."""
    if resource is VALIDATING_POLICIES:
        return made(resource, _NAME, spec=validating_policy(random, "drawn"))
    if resource is MUTATING_POLICIES:
        return made(resource, _NAME, spec=mutating_policy(random, "drawn"))
    if resource in {VALIDATING_BINDINGS, MUTATING_BINDINGS}:
        spec: JSONObject = {"policyName": "p", **binding(random, {"paramKind": {}}, "drawn")}
        if resource is VALIDATING_BINDINGS:
            spec["validationActions"] = random.choice(
                (["Deny"], ["Warn", "Audit"], ["Deny", "Warn"], ["Deny", "Deny"])
            )
        return made(resource, _NAME, spec=spec)
    webhooks = [
        drawn_webhook(random, f"h{index}", f"https://localhost/{index}")
        for index in range(random.choice((1, 1, 2)))
    ]
    return made(resource, _NAME, webhooks=webhooks)


def _spoil(random: Random, body: JSONObject) -> None:
    """Change one thing, so that it is likely to be refused."""
    holders = [holder for holder in _objects(body) if holder is not body and holder]
    holder = random.choice(holders)
    name = random.choice(list(holder))
    if holder is body["metadata"]:
        return
    if name in _EXPRESSIONS and random.random() < 0.8:
        holder[name] = flawed(random)
        return
    value = holder[name]
    drawn = random.random()
    if drawn < 0.3:
        del holder[name]
    elif isinstance(value, str):
        holder[name] = random.choice(_WORDS)
    elif isinstance(value, int):
        holder[name] = random.choice((0, -1, 31, 100))
    elif isinstance(value, list) and value:
        holder[name] = random.choice(([], [*value, copy.deepcopy(value[0])], [copy.deepcopy(value[0])] * 2))
    else:
        del holder[name]


def _objects(value: JSON) -> list[JSONObject]:
    """All objects within a value."""
    if isinstance(value, dict):
        return [value, *(found for member in value.values() for found in _objects(member))]
    return [found for item in value for found in _objects(item)] if isinstance(value, list) else []
