"""Rules. The tables are those of rbac_test.go and evaluation_helpers_test.go."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.cluster.rbac import CompiledPolicyRule, compile_rule, read_role
from support import role_bindings

ANN = UserInfo("ann")


def rule(verbs: str = "", **fields: Sequence[str]) -> CompiledPolicyRule:
    return compiled(role_bindings.rule(verbs.split(), **fields))


def compiled(written: JSONObject) -> CompiledPolicyRule:
    (read,) = read_role({"rules": [written]}).rules or ()
    return compile_rule(read)


EVERY = list(itertools.product(["verb1", "verb2"], ["group1", "group2"], ["resource1", "resource2"]))


@pytest.mark.parametrize(
    ("asking", "allowed"),
    [
        (rule("*", groups=["group1"], resources=["resource1"]), {e for e in EVERY if e[1:] == EVERY[0][1:]}),
        (rule("verb1", groups=["*"], resources=["resource1"]), {e for e in EVERY if e[::2] == EVERY[0][::2]}),
        (rule("verb1", groups=["group1"], resources=["*"]), {e for e in EVERY if e[:2] == EVERY[0][:2]}),
        (
            rule("verb1 verb2", groups=["group1", "group2"], resources=["resource1", "resource2"]),
            set(EVERY),
        ),
        (rule("verb1", resources=["resource1"]), set()),
        (compiled({"verbs": ["*"], "resources": ["*"]}), set()),
        (compiled({"verbs": ["*"], "apiGroups": ["*"]}), set()),
        (compiled({"apiGroups": ["*"], "resources": ["*"]}), set()),
        (rule("*", urls=["*"]), set()),
    ],
)
def test_a_rule_must_name_verb_group_and_resource(
    asking: CompiledPolicyRule, allowed: set[tuple[str, ...]]
) -> None:
    found = {
        (verb, group, resource)
        for verb, group, resource in EVERY
        if asking.allows(AuthorizationAttributes(user=ANN, verb=verb, group=group, resource=resource))
    }
    assert found == allowed


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        (["*"], "pods", True),
        (["*"], "pods/log", True),
        (["pods"], "pods", True),
        (["pods"], "pods/log", False),
        (["pods/log"], "pods/log", True),
        (["pods/log"], "pods", False),
        (["pods/log"], "pods/status", False),
        (["pods/log"], "nodes/log", False),
        (["*/log"], "pods/log", True),
        (["*/log"], "pods", False),
        (["*/log"], "pods/status", False),
        (["*/log"], "log", False),
        (["*/log"], "pods/otherlog", False),
        (["pods/*"], "pods/log", False),
        (["pods/*"], "pods", False),
        (["*/*"], "pods/log", False),
        (["pods", "*/log"], "nodes/log", True),
        (["nodes"], "pods", False),
        (["Pods"], "pods", False),
        ([""], "", True),
    ],
)
def test_a_subresource_is_named_with_its_resource_or_a_star(
    resources: list[str], asked: str, *, allowed: bool
) -> None:
    resource, _, subresource = asked.partition("/")
    question = AuthorizationAttributes(user=ANN, verb="get", resource=resource, subresource=subresource)
    assert rule("get", resources=resources).allows(question) is allowed


@pytest.mark.parametrize(
    ("names", "asked", "allowed"),
    [([], "web", True), ([], "", True), (["web"], "web", True), (["web"], "", False), (["*"], "web", False)],
)
def test_a_rule_may_name_single_objects(names: list[str], asked: str, *, allowed: bool) -> None:
    question = AuthorizationAttributes(user=ANN, verb="get", resource="pods", name=asked)
    assert rule("get", resources=["pods"], names=names).allows(question) is allowed


@pytest.mark.parametrize(
    ("urls", "asked", "allowed"),
    [
        (["*"], "/foo", True),
        (["*"], "/foo/bar/one", True),
        (["/foo/*"], "/foo", False),
        (["/foo/*"], "/foo/", True),
        (["/foo/*"], "/foo/bar", True),
        (["/foo/*"], "/foo/bar/one", True),
        (["/foo/*"], "/notfoo/bar", False),
        (["/foo*"], "/foobar", True),
        (["/foo**"], "/foobar", True),
        (["/f*o"], "/foo", False),
        (["/foo", "/foo/bar/one"], "/foo", True),
        (["/foo", "/foo/bar/one"], "/foo/bar", False),
        (["/foo", "/foo/bar/one"], "/foo/bar/one", True),
        ([], "/foo", False),
    ],
)
def test_a_rule_may_name_urls(urls: list[str], asked: str, *, allowed: bool) -> None:
    for verbs in ("get", "*", "watch get"):
        assert (
            rule(verbs, urls=urls).allows(AuthorizationAttributes(user=ANN, verb="get", path=asked))
            is allowed
        )
    assert not rule("watch", urls=urls).allows(AuthorizationAttributes(user=ANN, verb="get", path=asked))


def test_a_rule_for_all_resources_allows_no_url() -> None:
    everything = rule("*", groups=["*"], resources=["*"])
    assert not everything.allows(AuthorizationAttributes(user=ANN, verb="get", path="/metrics"))


def test_field_and_label_selectors_are_ignored() -> None:
    narrowed = AuthorizationAttributes(
        user=ANN, verb="list", resource="pods", field_selector="spec.nodeName=n", label_selector="a=b"
    )
    assert rule("list", resources=["pods"]).allows(narrowed)
