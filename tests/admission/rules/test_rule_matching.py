"""Which requests a rule wants to see."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.admission.rules import EVERYTHING, Rule, compile_rules, rule
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation


def review(
    resource: str = "pods",
    group: str = "",
    version: str = "v1",
    operation: str = "CREATE",
    namespace: str = "shop",
) -> Review:
    name, _, subresource = resource.partition("/")
    return Review(
        uid="1",
        operation=Operation(operation),
        kind=GroupVersionKind(group, version, "Any"),
        resource=GroupVersionResource(group, version, name),
        subresource=subresource,
        namespace=namespace,
    )


@pytest.mark.parametrize(
    ("entry", "resource", "expected"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods/log", True),
        ("pods/log", "pods", False),
        ("pods/*", "pods", True),
        ("pods/*", "pods/log", True),
        ("pods/*", "nodes/log", False),
        ("*", "pods", True),
        ("*", "pods/log", False),
        ("*/log", "pods/log", True),
        ("*/log", "pods", False),
        ("*/*", "pods", True),
        ("*/*", "pods/log", True),
        ("pods/a/b", "pods/a/b", True),
        ("po*", "pods", False),
    ],
)
def test_resources_can_have_wildcards(entry: str, resource: str, *, expected: bool) -> None:
    assert compile_rules([Rule(("*",), ("",), ("*",), (entry,))]).matches(review(resource)) is expected


@pytest.mark.parametrize("empty", ["operations", "api_groups", "api_versions", "resources"])
def test_an_empty_list_matches_nothing(empty: str) -> None:
    assert compile_rules([EVERYTHING]).matches(review())
    assert not compile_rules([msgspec.structs.replace(EVERYTHING, **{empty: ()})]).matches(review())


@pytest.mark.parametrize(
    ("scope", "resource", "namespace", "expected"),
    [
        ("Namespaced", "pods", "shop", True),
        ("Namespaced", "nodes", "", False),
        ("Cluster", "nodes", "", True),
        ("Cluster", "pods", "shop", False),
        ("Cluster", "configmaps", "shop", False),
        ("Cluster", "namespaces", "shop", True),
        ("Namespaced", "namespaces", "shop", False),
        ("Cluster", "namespaces/finalize", "shop", True),
        (None, "pods", "shop", True),
        ("*", "nodes", "", True),
        ("Galaxy", "pods", "shop", False),
        ("Galaxy", "nodes", "", False),
    ],
)
def test_the_scope_is_that_of_the_request(
    scope: str | None, resource: str, namespace: str, *, expected: bool
) -> None:
    written = Rule(("*",), ("*",), ("*",), ("*/*",), scope)
    assert compile_rules([written]).matches(review(resource, namespace=namespace)) is expected


@pytest.mark.parametrize(("group", "version"), [("example.com", "v1"), ("", "v0"), ("", "v2")])
def test_a_custom_resource_called_namespaces_is_namespaced(group: str, version: str) -> None:
    written = Rule(("*",), ("*",), ("*",), ("*/*",), "Namespaced")
    assert compile_rules([written]).matches(review("namespaces", group=group, version=version))


def test_any_of_several_rules_is_enough() -> None:
    rules = compile_rules([rule("nodes"), rule("deployments", group="apps"), rule("pods")])
    assert rules.matches(review())
    assert rules.matches(review("deployments", group="apps"))
    assert not rules.matches(review("deployments"))


def test_no_rules_match_nothing() -> None:
    assert not compile_rules([]).matches(review())


def test_everything_matches_everything() -> None:
    assert compile_rules([EVERYTHING]).matches(review("pods/exec", operation="CONNECT"))
    assert compile_rules([EVERYTHING]).matches(review("nodes", operation="DELETE", namespace=""))


WORDS = st.sampled_from(["", "*", "a", "b", "namespaces", "v1"])
ENTRIES = WORDS | st.builds("{}/{}".format, WORDS, WORDS)
RULES = st.builds(
    Rule,
    operations=st.tuples(st.sampled_from(["*", "CREATE", "UPDATE"])),
    api_groups=st.lists(WORDS, max_size=2).map(tuple),
    api_versions=st.lists(WORDS, max_size=2).map(tuple),
    resources=st.lists(ENTRIES, max_size=3).map(tuple),
    scope=st.sampled_from([None, "*", "Cluster", "Namespaced"]),
)
PLAIN = st.sampled_from(["", "a", "b", "v1"])
REVIEWS = st.builds(
    review,
    resource=st.sampled_from(["a", "b", "a/b", "namespaces", "namespaces/a"]),
    group=PLAIN,
    version=PLAIN,
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    namespace=st.sampled_from(["", "shop"]),
)


def plainly_matches(written: Rule, review: Review) -> bool:
    """The rules of Kubernetes, spelled out."""
    resource = review.resource
    is_namespace = resource == GroupVersionResource("", "v1", "namespaces")
    namespaced = not is_namespace and review.namespace != ""
    return (
        (written.scope in (None, "*") or (written.scope == "Namespaced") == namespaced)
        and bool({"*", str(review.operation)} & set(written.operations))
        and bool({"*", resource.group} & set(written.api_groups))
        and bool({"*", resource.version} & set(written.api_versions))
        and any(
            entry.partition("/")[0] in ("*", resource.resource)
            and entry.partition("/")[2] in ("*", review.subresource)
            for entry in written.resources
        )
    )


@given(st.lists(RULES, max_size=3), REVIEWS)
def test_compiled_rules_match_as_plain_ones(rules: list[Rule], review: Review) -> None:
    expected = any(plainly_matches(written, review) for written in rules)
    assert compile_rules(rules).matches(review) is expected


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        ([("v1beta1",), ("v2", "v1")], "v1beta1"),
        ([("v2", "v1")], "v1"),
        ([("v2",), ("*",)], "v2"),
        ([("*",)], "v1"),
        ([("v3",)], None),
        ([], None),
    ],
)
def test_the_first_version_that_the_earliest_rule_matches_wins(
    versions: list[tuple[str, ...]], wanted: str | None
) -> None:
    # Not by rule(), which refuses versions that Pods do not have.
    rules = compile_rules([Rule(("*",), ("",), named, ("pods",)) for named in versions])
    offered = [GroupVersionResource("", version, "pods") for version in ("v1", "v2", "v1beta1")]
    found = rules.first_wanted("CREATE", offered, "", "shop")
    assert (found.version if found else None) == wanted


@given(st.lists(RULES, max_size=3), REVIEWS)
def test_the_resource_of_the_earliest_matching_rule_wins(rules: list[Rule], review: Review) -> None:
    others = [
        msgspec.structs.replace(review.resource, version=version) for version in ("v1", "v2", "v1beta1")
    ]
    wanted = [
        other
        for written in rules
        for other in others
        if plainly_matches(written, msgspec.structs.replace(review, resource=other))
    ]
    found = compile_rules(rules).first_wanted(review.operation, others, review.subresource, review.namespace)
    assert found == (wanted[0] if wanted else None)


@given(st.lists(RULES, max_size=3), REVIEWS)
def test_there_is_a_reason_exactly_if_nothing_matches(rules: list[Rule], review: Review) -> None:
    compiled = compile_rules(rules)
    assert (compiled.mismatch(review) == "") is compiled.matches(review)
