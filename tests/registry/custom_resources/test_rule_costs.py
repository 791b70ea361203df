"""What rules cost at most: the figures of a real kube-apiserver, which it shows where they exceed its limit."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

TEXT: JSONObject = {"type": "string"}


def limited(length: int) -> JSONObject:
    return {**TEXT, "maxLength": length}


def items(schema: JSONObject, most: int | None = None) -> JSONObject:
    return {"type": "array", "items": schema, **({} if most is None else {"maxItems": most})}


def members(schema: JSONObject, most: int | None = None) -> JSONObject:
    limits = {} if most is None else {"maxProperties": most}
    return {"type": "object", "additionalProperties": schema, **limits}


def structure(properties: JSONObject, *rules: str | JSONObject, **keywords: Any) -> JSONObject:
    written = [rule if isinstance(rule, dict) else {"rule": rule, "message": "m"} for rule in rules]
    return {
        "type": "object",
        "properties": properties,
        **({"x-kubernetes-validations": written} if rules else {}),
        **keywords,
    }


def schema_causes(schema: JSONObject) -> list[str]:
    """What an API server says of a definition with a schema, from its place in the schema on."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": spec,
    }
    return [found.removeprefix("spec.validation.openAPIV3Schema") for found in causes(definition)]


SHIP = {
    "s": TEXT,
    "sm": limited(100),
    "en": {**TEXT, "enum": ["a", "bcd"]},
    "i": {"type": "integer"},
    "b": {"type": "boolean"},
    "ios": {"x-kubernetes-int-or-string": True},
    "by": {**TEXT, "format": "byte"},
    "t": {**TEXT, "format": "date-time"},
    "ls": items(TEXT),
    "lm": items(limited(20), 10),
    "lim": items({"type": "integer"}, 5),
    "lo": items(
        structure({"n": limited(9), "v": {"type": "integer"}, "ls": items(limited(4), 3)}, required=["n"]), 7
    ),
    "ll": items(items(limited(5), 7), 9),
    "mm": members(limited(11), 6),
    "o": structure({"namespace": limited(5)}),
}
COSTS = (
    (44, "self.s == self.sm"),
    (8, "self.b && self.i > 1 || self.s == 'x'"),
    (3, "has(self.s) && self.s != ''"),
    (53, "self.lm.all(x, x == 'a')"),
    (454, "self.lm.exists_one(x, x.endsWith(self.sm))"),
    (274, "self.lm.map(x, x + 'b').all(y, y != '')"),
    (633, "self.lo.all(x, self.lo.exists(y, y.n == x.n))"),
    (2061, "self.lo.all(x, x.ls.all(z, z == x.n))"),
    (51, "self.mm.all(k, self.mm[k] == k)"),
    (84, "self.sm.matches('^[a-z]+$')"),
    (15, "self.sm in ['a','b','c']"),
    (245, "self.sm.replace('','bcd') == self.s"),
    (124, "self.sm.replace('abc','d') == self.s"),
    (95, "self.sm.split(',', 3).all(x, x == 'a')"),
    (166, "self.lm.join(',') == self.s"),
    (93, "self.lm.indexOf('a') > 2"),
    (86, "self.sm.findAll('[0-9]+').size() > 0"),
    (91, "cidr(self.sm).containsCIDR(self.sm)"),
    (44, "quantity(self.sm) == quantity('1')"),
    (1284, "format.dns1123Label().validate(self.sm).hasValue()"),
    (7, "type(self.ios) == int ? self.ios > 5 : self.ios == 'a'"),
    (204, "bytes(self.sm) == self.by"),
    (4, "self.t > timestamp('2020-01-01T00:00:00Z')"),
    (53, "(self.b ? self.lm : []).all(x, x == 'a')"),
    (43, "(['a','bb'] + ['ccc']).exists(x, x == self.s)"),
    (77, "{'a': self.sm, 'bb': self.en}['a'] == self.s"),
    (9, "self.lo[0].ls[1] == self.s"),
    (7, "self.o.__namespace__ == self.s"),
    (231, "self.lo.map(x, [x.n, x.n]).all(y, y.all(z, z == self.s))"),
    (44, "dyn(self.lm).all(x, x == 'a')"),
    (14, "'%s'.format([self.sm]) == 'a'"),
    (5, "self.?o.?namespace.orValue('x') == 'b'"),
    (205, "sets.equivalent(self.lm, self.lm)"),
    (158, "self.lim.sortBy(x, -x)[0] > 2"),
    (26, "self.lim.slice(1, 3).all(x, x > 2)"),
    (41, "[[self.sm]].flatten().all(x, x == self.s)"),
    (375, "self.lm.transformMapEntry(i, v, {v: i}).size() > 3"),
    (633, "oldSelf.lo.all(x, self.lo.exists(y, y.n == x.n))"),
)
_FACTOR = re.compile(r"estimated rule cost exceeds budget by factor of ([\d.]+)x")


@pytest.mark.parametrize(("cost", "rule"), COSTS)
def test_a_rule_costs_what_its_schema_allows(cost: int, rule: str) -> None:
    times = math.ceil(12_000_000 / cost)  # so often that it is too much, in a list
    found = schema_causes(structure({"spec": items(structure(SHIP, rule), times)}))
    stated = next(match[1] for text in found if (match := _FACTOR.search(text)))
    assert stated == f"{cost * times / 10_000_000:f}"


RULES = ".x-kubernetes-validations"
HELP = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
SHARE = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def too_much(factor: str, what: str = "estimated rule cost") -> str:
    return f"Forbidden: {what} exceeds budget by factor of {factor} {HELP} declared)"


def too_much_in_all(factor: str) -> str:
    return too_much(factor, "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (structure({"a": items(structure({"s": limited(5)}, "self.s == 'abc'"))}), []),
        (structure({"a": items(items(limited(5), 7), 9)}, "self.a.all(x, x.all(y, y == 'a'))"), []),
        (structure({"a": items({**limited(3), "x-kubernetes-validations": [{"rule": "self.matches('^a')"}]})}), []),
        (
            structure({"a": items({**TEXT, "x-kubernetes-validations": [{"rule": "self.matches('^a')"}]})}),
            [
                f".properties[a].items{RULES}[0].rule: {too_much('more than 100x')}",
                f".properties[a].items{RULES}[0].rule: {SHARE}",
                f": {too_much_in_all('more than 100x')}",
            ],
        ),
        (
            structure({"a": items(items(structure({"s": limited(500)}, f"self.s.contains('{'a' * 37}')")), 100)}),
            [
                f".properties[a].items.items{RULES}[0].rule: {too_much('84.1x')}",
                f".properties[a].items.items{RULES}[0].rule: {SHARE}",
                f": {too_much_in_all('8.4x')}",
            ],
        ),
        (structure({}, "self.metadata.name.matches('^[a-z]+$')", "self.kind == self.apiVersion"), []),
        (
            structure({"s": TEXT}, {"rule": "true", "messageExpression": "self.s.contains(self.s) ? 'a' : 'b'"}),
            [
                f"{RULES}[0].messageExpression: {too_much('more than 100x', 'estimated messageExpression cost')}",
                f"{RULES}[0].messageExpression: {SHARE}",
                f": {too_much_in_all('more than 100x')}",
            ],
        ),
    ],
)  # fmt: skip
def test_too_much_is_refused_with_what_it_is_made_of(schema: JSONObject, expected: list[str]) -> None:
    assert schema_causes(schema) == expected


def test_many_rules_are_too_much_together() -> None:
    part = structure({"ls": items(TEXT, 30)}, "self.ls.all(x, x.contains('a'))")
    found = schema_causes(structure({"spec": structure({f"p{index:02}": part for index in range(14)})}))
    assert found == [
        *(f".properties[spec].properties[p{index:02}]{RULES}[0].rule: {SHARE}" for index in range(4)),
        f": {too_much_in_all('1.321224x')}",
    ]


def test_a_schema_that_stays_may_cost_what_it_cost() -> None:
    costly = structure({"s": TEXT}, "self.s.contains(self.s)")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": costly}}
    names = {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        "status": {"storedVersions": ["v1"], "acceptedNames": names},
    }
    found = causes(
        {**definition, "metadata": {"name": "ships.example.com", "labels": {"a": "b"}}}, definition
    )
    assert not any("estimated rule cost exceeds" in text for text in found)
