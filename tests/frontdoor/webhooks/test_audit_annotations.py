from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique_frontdoor.webhooks.answers import (
    answer_annotations,
    answer_key,
    is_annotation_key,
    mutation_annotation,
    patch_annotation,
    webhook_annotations,
)
from support import vector_cases
from support.strategies.json_values import objects


@pytest.mark.parametrize("case", vector_cases.kind("auditAnnotation"), ids=vector_cases.source)
def test_annotation_values_are_those_of_the_api_server(case: JSONObject) -> None:
    given = case["input"]
    if "mutated" in given:
        value = mutation_annotation(given["configuration"], given["webhook"], mutated=given["mutated"])
    else:
        value = patch_annotation(given["configuration"], given["webhook"], json.loads(given["patchText"]))
    assert value == case["expected"]["value"]


def test_a_mutation_is_annotated_as_true() -> None:
    assert mutation_annotation("c", "w", mutated=True).endswith('"mutated":true}')


def test_members_of_an_operation_are_sorted_and_members_of_its_value_are_not() -> None:
    value = patch_annotation("c", "w", [{"value": {"z": 1, "a": 2}, "path": "/p", "op": "add"}])
    assert '"patch":[{"op":"add","path":"/p","value":{"z":1,"a":2}}]' in value


def test_html_characters_are_escaped() -> None:
    value = patch_annotation("c", "w", [{"op": "add", "path": "/p", "value": "<a&b>\u2028"}])
    assert '"\\u003ca\\u0026b\\u003e\\u2028"' in value


@given(st.lists(objects(), max_size=3))
def test_an_annotated_patch_can_be_parsed(operations: list[JSONObject]) -> None:
    assert json.loads(patch_annotation("c", "w", operations))["patch"] == operations


@pytest.mark.parametrize("key", ["key", "Key-1", "a.b_c", "9", "x" * 63])
def test_a_key_is_prefixed_with_the_webhook_name(key: str) -> None:
    assert webhook_annotations("w.example.com", {key: "v"}) == {f"w.example.com/{key}": "v"}


@pytest.mark.parametrize("key", ["", "a/b", "/", "-a", "a-", "a b", "é", "x" * 64, "a\n"])
def test_an_invalid_key_is_dropped_and_others_stay(key: str) -> None:
    assert webhook_annotations("w.example.com", {key: "v", "good": "g"}) == {"w.example.com/good": "g"}


@pytest.mark.parametrize(
    ("key", "possible"),
    [
        ("podsecuritypolicy.admission.k8s.io/admit-policy", True),
        ("w/k", True),
        ("k", False),
        ("W.example.com/k", False),
        ("w.example.com/a/b", False),
        ("/k", False),
        ("w.example.com/", False),
        (f"{'a' * 254}/k", False),
    ],
)
def test_a_key_is_a_subdomain_a_slash_and_a_name(key: str, possible: bool) -> None:  # noqa: FBT001  # a table
    assert is_annotation_key(key) is possible


@pytest.mark.parametrize(
    ("key", "answered"),
    [
        ("no-latest/images", "no-latest_images"),
        ("pod-security.kubernetes.io/enforce-policy", "pod-security.kubernetes.io_enforce-policy"),
        ("a/b_c", "a_b_c"),
        (
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0",
            "failed-open.validating.webhook.admission.k8s.io_round_0_index_0",
        ),
    ],
)
def test_an_answered_key_has_an_underscore_instead_of_the_slash(key: str, answered: str) -> None:
    assert answer_annotations({key: "v"}) == {answered: "v"}


def test_a_key_that_is_too_long_is_truncated_and_ends_in_a_digest() -> None:
    first, second = (
        f"require-team-label-on-every-workload.policies.example.com/found-{name}" for name in ("none", "two")
    )
    keys = list(answer_annotations({first: "1", second: "2"}))
    assert [key.rpartition(".")[0] for key in keys] == ["require-team-label-on-every-workload.polic"] * 2
    assert keys[0] != keys[1]
    assert keys[0] == "require-team-label-on-every-workload.polic.a13766e24bbdda9d3fd2"
    assert keys == [answer_key(first), answer_key(second)]


def test_keys_that_would_collide_stay_distinct() -> None:
    taken = answer_key("no/key at all")
    annotations = {
        "no/key at all": "1",
        f"{taken.partition('.')[0]}/x": "2",
        "a/b": "3",
        "a_b": "4",
        "a": "5",
    }
    assert sorted(answer_annotations(annotations).values()) == ["1", "2", "3", "4", "5"]


_WEBHOOK_NAMES = st.from_regex(
    r"[a-z]([-a-z0-9]{0,9}[a-z0-9])?(\.[a-z]([-a-z0-9]{0,9}[a-z0-9])?){2,8}", fullmatch=True
)
_NAMES = st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,61}[A-Za-z0-9]", fullmatch=True)
_KEYS = st.one_of(
    st.tuples(_WEBHOOK_NAMES, _NAMES).map("/".join),
    st.tuples(st.sampled_from(["a", "a.b", "a-b"]), st.sampled_from(["b", "b_c", "b.b", "b-c"])).map(
        "/".join
    ),
    st.sampled_from(["a_b", "a", "a/b/c", "a_b/c", "A/b", "/", ""]),
    st.text(max_size=80),
)


@given(st.dictionaries(_KEYS, st.text(max_size=5), max_size=8), _WEBHOOK_NAMES)
def test_an_api_server_keeps_every_key(annotations: dict[str, str], webhook: str) -> None:
    answered = answer_annotations(annotations)
    # The API server's own rule (checkKeyFormat) of the key that it makes.
    assert all(is_annotation_key(f"{webhook}/{key}") for key in answered)
    assert list(answered.values()) == list(annotations.values())


@given(_KEYS, _KEYS)
def test_two_keys_never_become_equal(one: str, other: str) -> None:
    assert one == other or answer_key(one) != answer_key(other)
