"""Digests are equal for equal inputs, however they are written, and differ for different ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.cluster.files import load_cluster
from pratique.configuration.input_digests import (
    InputDigests,
    chain_digest,
    cluster_digest,
    configuration_digest,
)
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue

NAMES = st.text("abc", min_size=1, max_size=3)
OBJECTS = st.dictionaries(
    st.tuples(st.sampled_from(["Namespace", "PriorityClass"]), NAMES),
    st.dictionaries(
        NAMES, st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NAMES | st.lists(NAMES)
    ),
    min_size=1,
    max_size=4,
)
VERSIONS = {"Namespace": "v1", "PriorityClass": "scheduling.k8s.io/v1"}
POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "tests"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "true"}],
    },
}


def documents(objects: dict[tuple[str, str], dict[str, JSON]]) -> list[Any]:
    return [
        {
            "apiVersion": VERSIONS[kind],
            "kind": kind,
            "metadata": {"name": name},
            "data": data,
        }
        for (kind, name), data in objects.items()
    ]


def canonical(objects: dict[tuple[str, str], dict[str, JSON]]) -> list[str]:
    """The objects as JSON texts, in which 1 and true differ."""
    return sorted(json.dumps(document, sort_keys=True) for document in documents(objects))


def digest_of(texts: Sequence[str], load: Any, digest: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.yaml") for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        found: str = digest(load(paths))
        return found


def turned(value: Any) -> Any:
    """The value with the members of its mappings in another order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in sorted(value, reverse=True)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS)
def test_cluster_digests_are_equal_exactly_for_equal_clusters(
    first: dict[tuple[str, str], dict[str, JSON]], second: dict[tuple[str, str], dict[str, JSON]]
) -> None:
    written = documents(first)
    plain = digest_of([yaml.safe_dump_all(written)], load_cluster, cluster_digest)
    scattered = [json.dumps(turned(item), indent=3) for item in reversed(written)]
    assert digest_of(scattered, load_cluster, cluster_digest) == plain
    assert (digest_of([yaml.safe_dump_all(documents(second))], load_cluster, cluster_digest) != plain) == (
        canonical(first) != canonical(second)
    )


def test_an_empty_cluster_differs_from_an_unspecified_one() -> None:
    assert cluster_digest(load_cluster(())) != cluster_digest(load_cluster(None))


def test_configuration_digests_do_not_depend_on_formatting() -> None:
    def digest(policy: Any, dump: Any = json.dumps) -> str:
        return digest_of([dump(policy)], load_configurations, configuration_digest)

    plain = digest(POLICY)
    assert digest(turned(POLICY), yaml.safe_dump) == plain
    assert digest(POLICY | {"metadata": {"name": "tests", "labels": {"a": "b"}}}) == plain
    assert digest(POLICY | {"spec": POLICY["spec"] | {"failurePolicy": "Fail"}}) == plain, "the default"
    assert digest(POLICY | {"spec": POLICY["spec"] | {"failurePolicy": "Ignore"}}) != plain
    assert digest(POLICY | {"metadata": {"name": "other"}}) != plain
    assert digest(POLICY | {"spec": POLICY["spec"] | {"validations": [{"expression": "1 == 1"}]}}) != plain


def chain(configurations: dict[str, JSON], *names: str) -> str:
    return chain_digest(load_catalogue().select(ChainSettings(admission_control=names)), configurations)


def test_chain_digests_are_equal_for_equal_controllers_order_and_settings() -> None:
    pair = ("AlwaysPullImages", "ResourceQuota")
    plain = chain({}, *pair)
    assert chain({"ResourceQuota": {"resource-quota-ledger": "postgresql://here"}}, *pair) == plain
    assert chain({"PodSecurity": {"of": "one that is off"}}, *pair) == plain
    assert chain({"ResourceQuota": {"resource-quota-sync-period": "1s"}}, *pair) != plain
    assert chain({}, *reversed(pair)) != plain
    assert chain({}, *pair[:1]) != plain


def test_kubeconfig_paths_do_not_change_the_digest_at_any_depth() -> None:
    def digest(file: str, limit: int) -> str:
        policy: JSON = {"imagePolicy": {"kubeConfigFile": file, "allowTTL": limit}}
        return chain({"ImagePolicyWebhook": policy}, "ImagePolicyWebhook")

    assert digest("/a", 1) == digest("/b", 1)
    assert digest("/a", 1) != digest("/a", 2)


@given(*[st.tuples(NAMES, NAMES, NAMES)] * 2)
def test_different_parts_never_share_a_digest(
    first: tuple[str, str, str], second: tuple[str, str, str]
) -> None:
    assert (InputDigests.of(*first).whole == InputDigests.of(*second).whole) == (first == second)
