"""Generated objects: they have the kinds and the vocabulary of the mutators, and an API server can decode them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.rules import EVERYTHING, Rule, rule
from pratique.cluster.schemas import ListType, MapType, Structure, Type
from pratique.cluster.store import ObjectStore
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.mutator_checks.generation import (
    GeneratedKind,
    Vocabulary,
    gather_vocabulary,
    generate_objects,
    kinds_for,
    smallest,
)
from pratique_frontdoor.engines.mutator_sets import Mutator

STORE = ObjectStore(assume_namespaces=True)
WORDS = Vocabulary(frozenset({"env"}), ("env", "foo-sidecar", "prod"))


def mutator(*rules: Rule, placed: bool = False) -> Mutator:
    return Mutator(controller="C", name="c", rules=rules, placed=placed)


def kinds(*mutators: Mutator) -> list[str]:
    return [
        f"{item.operation} {item.kind.api_version}/{item.kind.kind}"
        for item in kinds_for(mutators, STORE, ())
    ]


def kind_named(name: str) -> GeneratedKind:
    (found,) = kinds_for([mutator(rule(name, group="*"))], STORE, ())
    return found


def generated(name: str, examples: int = 30, seed: int = 0) -> list[Any]:
    objects: list[Any] = []
    generate_objects(kind_named(name), WORDS, seed=seed, examples=examples, visit=objects.append)
    return objects


@pytest.mark.parametrize(
    ("mutators", "expected"),
    [
        ([mutator(rule("pods"))], ["CREATE v1/Pod"]),
        ([mutator(rule("pods", operations=("UPDATE",)))], ["UPDATE v1/Pod"]),
        ([mutator(rule("pods/status"))], []),
        ([mutator(rule("deployments", group="apps"))], ["CREATE apps/v1/Deployment"]),
        ([mutator(EVERYTHING)], ["CREATE v1/ConfigMap", "CREATE v1/Pod", "CREATE apps/v1/Deployment"]),
        ([mutator(rule("pods")), mutator(rule("nodes"), placed=True)], ["CREATE v1/Pod"]),
        ([mutator(rule("nodes"), placed=True)], ["CREATE v1/Node"]),
    ],
)
def test_objects_are_generated_for_the_kinds_that_mutators_name(
    mutators: list[Mutator], expected: list[str]
) -> None:
    assert kinds(*mutators) == expected


@pytest.mark.parametrize("name", ["pods", "deployments", "services", "persistentvolumeclaims", "nodes"])
def test_generated_objects_are_valid_for_their_kind(name: str) -> None:
    kind = kind_named(name)
    for document in [smallest(kind), *generated(name)]:
        assert MutatorCase(document, STORE).review().object["kind"] == kind.kind.kind
        check(document, kind.schema)


def check(value: Any, type_: Type) -> None:
    if isinstance(type_, Structure) and not type_.open:
        assert type_.required <= value.keys()
        for name, item in value.items():
            check(item, type_.fields[name])
    elif isinstance(type_, ListType):
        keys = [json.dumps([item.get(key) for key in type_.keys]) for item in value if type_.keys]
        assert len(set(keys)) == len(keys)
        for item in value:
            check(item, type_.items)
    elif isinstance(type_, MapType):
        assert isinstance(value, dict)


def test_the_same_seed_generates_the_same_objects() -> None:
    assert generated("pods", seed=3) == generated("pods", seed=3)
    assert generated("pods", seed=3) != generated("pods", seed=4)


def test_generated_objects_use_the_vocabulary() -> None:
    text = json.dumps(generated("pods", 100))
    assert all(word in text for word in ('"env"', '"foo-sidecar"', '"prod"'))


def test_generating_objects_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generated("pods", 3)
    assert list(tmp_path.iterdir()) == []


def test_the_vocabulary_comes_from_expressions_selectors_and_objects() -> None:
    policy = {
        "spec": {"mutations": [{"jsonPatch": {"expression": "object.spec.?tier == 'a' && has('/x/y~1z')"}}]}
    }
    webhook = {"webhooks": [{"objectSelector": {"matchExpressions": [{"key": "k", "values": ["v1", "v2"]}]}}]}
    found = gather_vocabulary(
        [policy, webhook], [{"metadata": {"labels": {"team": "red"}}, "spec": {"n": 3}}], ()
    )
    assert {"a", "x", "y/z", "k", "v1", "v2", "team", "red"} <= set(found.texts)
    assert {"spec", "tier", "n"} <= found.fields
    assert found.by_field["n"] == (3,)


def test_the_vocabulary_comes_from_functions_and_their_constants() -> None:
    found = gather_vocabulary([], [], [uses_words])
    assert {"quoted-in-it", "named-by-it", "called-by-it"} <= set(found.texts)


NAMED = {"a": "named-by-it"}


def called() -> str:
    return "called-by-it"


def uses_words() -> tuple[str, str, str]:
    return "quoted-in-it", NAMED["a"], called()
