"""Rules that match nothing: which there are, and what is meant instead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique import rule
from pratique.admission.rule_checks import RuleChecker, built_in_rule_checker, operations_of
from pratique.admission.rules import Rule, compile_rules
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ObjectStore
from pratique.hosting.catalogue import load_catalogue


@pytest.mark.parametrize(
    ("resources", "fields", "message"),
    [
        (["pod"], {}, 'no kind is called "pod"; did you mean "pods"?'),
        (["Pod"], {}, 'did you mean "pods"?'),
        (["pods"], {"operations": ("CREAT",)}, 'there is no operation "CREAT"; did you mean "CREATE"?'),
        (["pods"], {"operations": ()}, "operations is empty"),
        (["pods"], {"operations": ("CONNECT",)}, '"pods" takes CREATE, DELETE, UPDATE, not CONNECT'),
        (["pods"], {"operations": "CREATE"}, 'operations is a tuple of strings, such as ("CREATE",)'),
        (["deployments"], {"group": "app"}, 'no kind is of API group "app"; did you mean "apps"?'),
        (["pods"], {"group": "core"}, 'the core group is written ""'),
        (["pods"], {"group": "apps"}, '"pods" is not of API group apps, but of ""'),
        (["pods"], {"versions": ("v2",)}, '"pods" has no version v2, but v1'),
        (["pods/foo"], {}, 'no kind is called "pods/foo"; there are attach, binding'),
        (["pods/ephemeralcontainer"], {}, 'did you mean "ephemeralcontainers"?'),
        (["pods/exec"], {}, '"pods/exec" takes CONNECT, not CREATE, UPDATE'),
        (["pods/log"], {"operations": ("*",)}, '"pods/log" can only be read'),
        (["nodes"], {"scope": "Namespaced"}, 'scope Namespaced leaves out "nodes", which is cluster-scoped'),
        (["pods"], {"scope": "Cluster"}, 'scope Cluster leaves out "pods", which is namespaced'),
        (["pods"], {"scope": "namespaced"}, 'there is no scope "namespaced"; did you mean "Namespaced"?'),
        (["pods", "podz"], {}, 'did you mean "pods"?'),
        ([], {}, "resources is empty"),
    ],
)
def test_rule_raises_for_what_certainly_matches_nothing(
    resources: list[str], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"^rule: ") as raised:
        rule(*resources, **fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("resources", "fields"),
    [
        (["pods"], {}),
        (["*"], {"group": "*"}),
        (["*/*"], {"group": "*", "operations": ("*",)}),
        (["pods", "pods/ephemeralcontainers"], {}),
        (["widgets"], {"group": "example.com"}),
        (["networkpolicy"], {"group": "networking.k8s.io"}),
        (["deployments"], {"group": "extensions", "versions": ("v1beta1",)}),
        (["deployments"], {"group": "apps", "versions": ("v1", "v2")}),
    ],
)
def test_rule_accepts_what_a_cluster_can_have(resources: list[str], fields: dict[str, Any]) -> None:
    assert rule(*resources, **fields).resources == tuple(resources)


def test_every_rule_of_the_catalogue_matches_something() -> None:
    found = [
        (controller.name, fault.text)
        for controller in load_catalogue()
        for each in controller.rules
        for fault in built_in_rule_checker().find(each)
    ]
    assert found == []


def test_the_kind_of_a_custom_resource_definition_is_known() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    known = RuleChecker(ObjectStore([definition]).resources)
    assert known.find(Rule(("CREATE",), ("example.com",), ("v1",), ("widgets",))) == ()
    (fault,) = known.find(Rule(("CREATE",), ("example.com",), ("v1",), ("widget",)))
    assert (fault.certain, fault.text) == (False, 'no kind is called "widget"; did you mean "widgets"?')
    (fault,) = built_in_rule_checker().find(Rule(("CREATE",), ("example.com",), ("v1",), ("widgets",)))
    assert (fault.field, fault.certain) == ("apiGroups", False)


TEXTS = {
    "operations": ["CREATE", "UPDATE", "CONNECT", "*", "CREAT"],
    "groups": ["", "apps", "app", "*", "batch", "policy", "example.com"],
    "versions": ["v1", "v1beta1", "v2", "*"],
    "resources": ["pods", "pod", "deployments", "nodes", "pods/exec", "pods/status", "*/scale", "*", "*/*"],
}
ENTRIES = {
    name: st.lists(st.sampled_from(each), min_size=1, max_size=2).map(tuple) for name, each in TEXTS.items()
}


@given(
    st.builds(
        Rule,
        ENTRIES["operations"],
        ENTRIES["groups"],
        ENTRIES["versions"],
        ENTRIES["resources"],
        st.sampled_from([None, "*", "Cluster", "Namespaced"]),
    )
)
def test_a_rule_has_a_problem_or_matches_something(written: Rule) -> None:
    compiled = compile_rules((written,))
    matches = any(
        compiled.matches_request(
            operation, each.resource, each.subresource, "shop" if each.namespaced else ""
        )
        for each in built_in_resources()
        for operation in operations_of(each)
    )
    assert matches or built_in_rule_checker().find(written)
