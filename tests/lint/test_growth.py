"""Linear time: twice the input takes twice the work, not four times. The tests count calls, not seconds."""

from __future__ import annotations

import cProfile
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.configuration.loading import load_configurations
from pratique.lint.deadlocks import find_cycles
from support.lint_findings import findings_of, policy, rule, service, validating, webhook

MOST = 2.6
"""How many times the calls of ``n`` those of ``2 n`` may be: twice, and sorting. Where the work grows with the square
it is nearly 4."""


def calls(act: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(act)
    return sum(entry.callcount for entry in profile.getstats())


def unknown(index: int) -> JSONObject:
    return {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": f"n{index}"}}


def slow(index: int) -> JSONObject:
    return validating(webhook(timeoutSeconds=20), name=f"checks-{index}")


def listed(documents: list[JSONObject]) -> JSONObject:
    return {"apiVersion": "v1", "kind": "List", "items": documents}


def in_yaml(documents: list[JSONObject]) -> str:
    note = "# pratique: disable=wildcard-rules\n"
    return "".join(
        f"---\n{note}{yaml.safe_dump(document, default_flow_style=None)}" for document in documents
    )


SPELLINGS: dict[str, tuple[str, Callable[[list[JSONObject]], str]]] = {
    "YAML documents": ("a.yaml", in_yaml),
    "a list in YAML": ("a.yaml", lambda documents: in_yaml([listed(documents)])),
    "JSON values": ("a.json", lambda documents: "\n".join(map(json.dumps, documents))),
    "a list in JSON": ("a.json", lambda documents: json.dumps(listed(documents), indent=1)),
}


def written(folder: Path, spelling: str, documents: list[JSONObject]) -> Path:
    name, write = SPELLINGS[spelling]
    path = folder / f"{len(documents)}-{name}"
    path.write_text(write(documents))
    return path


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_checking_time_is_linear_in_unknown_documents(spelling: str, tmp_path: Path) -> None:
    def refused(path: Path) -> None:
        with pytest.raises(ConfigurationError):
            load_configurations([path])

    refused(written(tmp_path, spelling, [unknown(0)]))
    once, twice = (
        calls(functools.partial(refused, path))
        for path in (written(tmp_path, spelling, [unknown(i) for i in range(n)]) for n in (40, 80))
    )
    assert twice < MOST * once


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_checking_time_is_linear_in_findings(spelling: str, tmp_path: Path) -> None:
    def found(path: Path, count: int) -> None:
        assert len(findings_of(path, rules={"timeout-too-long"})) == count

    found(written(tmp_path, spelling, [slow(0)]), 1)
    paths = {n: written(tmp_path, spelling, [slow(i) for i in range(n)]) for n in (30, 60)}
    once, twice = (calls(functools.partial(found, paths[n], n)) for n in paths)
    assert twice < MOST * once


@pytest.mark.parametrize("rules", [{"policy-unbound"}, {"matches-nothing", "may-match-nothing"}])
def test_checking_time_is_linear_in_policies(rules: set[str], tmp_path: Path) -> None:
    def policies(count: int) -> Path:
        named = [{**policy(), "metadata": {"name": f"p{index}"}} for index in range(count)]
        return written(tmp_path, "YAML documents", named)

    findings_of(policies(1), rules=rules)
    paths = [policies(n) for n in (30, 60)]
    once, twice = (calls(functools.partial(findings_of, path, rules=rules)) for path in paths)
    assert twice < MOST * once


def test_checking_time_is_linear_in_webhooks_that_block_one_server(tmp_path: Path) -> None:
    def blocking(count: int) -> Path:
        hooks = [
            webhook(rule("pods"), name=f"h{index}.example.com", clientConfig=service("hooks"))
            for index in range(count)
        ]
        return written(tmp_path, "YAML documents", [slow(1000 + count), validating(*hooks, name=f"n{count}")])

    chosen = {"deadlock", "circular-dependency", "no-reinvocation"}
    findings_of(blocking(1), rules=chosen)
    paths = [blocking(n) for n in (15, 30)]
    once, twice = (calls(functools.partial(findings_of, path, rules=chosen)) for path in paths)
    assert twice < MOST * once


@pytest.mark.parametrize("shape", ["one ring", "pairs", "a line"])
def test_cycle_search_is_linear_in_servers_and_edges(shape: str) -> None:
    looked_at = 0

    class Others(tuple[int, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[int]:
            nonlocal looked_at
            for item in tuple.__iter__(self):
                looked_at += 1
                yield item

    def follow(node: int, count: int) -> int:
        match shape:
            case "one ring":
                return (node + 1) % count
            case "pairs":
                return node ^ 1
            case _:
                return min(node + 1, count - 1)

    counted = []
    for count in (200, 400):
        looked_at = 0
        list(find_cycles({node: Others((follow(node, count),)) for node in range(count)}))
        counted.append(looked_at)
    assert counted[1] <= 2.1 * counted[0]
