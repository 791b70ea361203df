"""Policies of namespaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.controllers.pod_security.standards import (
    LABEL_PREFIX,
    LATEST,
    LevelVersion,
    NamespacePolicies,
    NamespacePolicy,
    PodSecurityLevel,
    Version,
    parse_level,
    parse_version,
)
from support.pod_security_cases import labelled

UNLABELLED = NamespacePolicy()
LEVELS = [level.value for level in PodSecurityLevel]
WORDS = st.sampled_from([*LEVELS, "", "latest", "v1.24", "v2", "Baseline"])
MODES = st.sampled_from(["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"])


def policy_of(*modes: str) -> NamespacePolicy:
    """Make a policy of ``baseline:v1.22``, in the order enforce, audit, warn."""
    parts = [mode.split(":") for mode in modes]
    return NamespacePolicy(
        *(LevelVersion(parse_level(level), parse_version(version)) for level, version in parts)
    )


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ("privileged:latest", "privileged:latest", "privileged:latest")),
        ({"enforce": "baseline"}, ("baseline:latest", "privileged:latest", "baseline:latest")),
        ({"warn": "restricted"}, ("privileged:latest", "privileged:latest", "restricted:latest")),
        ({"audit": "baseline"}, ("privileged:latest", "baseline:latest", "privileged:latest")),
        (
            {"enforce": "baseline", "warn": "restricted"},
            ("baseline:latest", "privileged:latest", "restricted:latest"),
        ),
        (
            {"enforce": "baseline", "enforce_version": "v1.22"},
            ("baseline:v1.22", "privileged:latest", "baseline:v1.22"),
        ),
        (
            {"enforce": "baseline", "enforce_version": "v1.22", "warn_version": "latest"},
            ("baseline:v1.22", "privileged:latest", "baseline:latest"),
        ),
        (
            {"enforce": "baseline", "warn_version": "v1.23"},
            ("baseline:latest", "privileged:latest", "baseline:v1.23"),
        ),
        (
            {
                "enforce": "baseline",
                "enforce_version": "v1.20",
                "warn": "restricted",
                "warn_version": "v1.21",
                "audit": "restricted",
                "audit_version": "v1.22",
            },
            ("baseline:v1.20", "restricted:v1.22", "restricted:v1.21"),
        ),
        (
            {"enforce": "baseline", "warn": "privileged"},
            ("baseline:latest", "privileged:latest", "privileged:latest"),
        ),
        ({"enforce_version": "v1.3"}, ("privileged:v1.3", "privileged:latest", "privileged:latest")),
    ],
)
def test_labels_set_the_policy(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    found = NamespacePolicies(UNLABELLED).policy_of(labelled("shop", **labels))
    assert (found.policy, found.errors) == (policy_of(*expected), ())


LEVEL_ERROR = "must be one of privileged, baseline, restricted"
VERSION_ERROR = 'must be "latest" or "v1.x"'


@pytest.mark.parametrize(
    ("labels", "expected", "errors"),
    [
        (
            {"enforce": "foo"},
            ("restricted:latest", "privileged:latest", "privileged:latest"),
            [("enforce", "foo", LEVEL_ERROR)],
        ),
        (
            {"enforce": "baseline", "warn": "foo"},
            ("baseline:latest", "privileged:latest", "privileged:latest"),
            [("warn", "foo", LEVEL_ERROR)],
        ),
        (
            {"enforce_version": "1", "audit": "", "audit_version": "2", "warn_version": "3"},
            ("privileged:latest", "privileged:latest", "privileged:latest"),
            [
                ("enforce-version", "1", VERSION_ERROR),
                ("audit", "", LEVEL_ERROR),
                ("audit-version", "2", VERSION_ERROR),
                ("warn-version", "3", VERSION_ERROR),
            ],
        ),
    ],
)
def test_an_invalid_label_is_strict_for_enforce_and_lax_otherwise(
    labels: dict[str, str], expected: tuple[str, ...], errors: list[tuple[str, str, str]]
) -> None:
    found = NamespacePolicies(UNLABELLED).policy_of(labelled("shop", **labels))
    assert found.policy == policy_of(*expected)
    assert list(map(str, found.errors)) == [
        f'metadata.labels[{LABEL_PREFIX}{name}]: Invalid value: "{value}": {text}'
        for name, value, text in errors
    ]


def test_defaults_apply_where_labels_leave_the_policy_open() -> None:
    defaults = policy_of("baseline:v1.20", "restricted:v1.21", "baseline:v1.22")
    policies = NamespacePolicies(defaults)
    assert policies.policy_of(labelled("shop")).policy == policies.policy_of({}).policy == defaults
    assert policies.policy_of(labelled("shop", enforce="privileged")).policy == policy_of(
        "privileged:v1.20", "restricted:v1.21", "baseline:v1.22"
    )
    assert policies.policy_of(labelled("shop", enforce="restricted")).policy == policy_of(
        "restricted:v1.20", "restricted:v1.21", "restricted:v1.20"
    )


@pytest.mark.parametrize(
    ("value", "error"), [(None, '""'), (True, '"true"'), (["baseline"], '"[\\"baseline\\"]"'), ({}, '"{}"')]
)
def test_a_label_that_is_not_a_string_is_invalid(value: JSON, error: str) -> None:
    found = NamespacePolicies(UNLABELLED).policy_of(
        {"metadata": {"labels": {f"{LABEL_PREFIX}enforce": value}}}
    )
    assert found.policy.enforce.level is PodSecurityLevel.RESTRICTED
    assert error in str(found.errors[0])


@pytest.mark.parametrize("namespace", [None, {}, {"metadata": None}, {"metadata": {"labels": []}}])
def test_a_namespace_without_labels_has_the_default_policy(namespace: JSON) -> None:
    assert NamespacePolicies(UNLABELLED).policy_of(namespace).policy == UNLABELLED


def test_policies_are_equivalent_if_only_versions_of_privileged_differ() -> None:
    other = policy_of("privileged:v1.20", "privileged:latest", "privileged:v1.3")
    audited = policy_of("privileged:latest", "baseline:latest", "privileged:latest")
    assert UNLABELLED.is_equivalent(other)
    assert other.is_fully_privileged
    assert not audited.is_equivalent(UNLABELLED)
    assert not audited.is_fully_privileged


@given(st.dictionaries(MODES, WORDS))
def test_an_invalid_label_never_allows_more(labels: dict[str, str]) -> None:
    named = {f"{LABEL_PREFIX}{name}": value for name, value in labels.items()}
    found = NamespacePolicies(UNLABELLED).policy_of({"metadata": {"labels": named}})
    assert bool(found.errors) is any(
        value not in (["latest", "v1.24"] if name.endswith("-version") else LEVELS)
        for name, value in labels.items()
    )
    if "enforce" in labels:
        wanted = labels["enforce"]
        assert found.policy.enforce.level == (wanted if wanted in LEVELS else PodSecurityLevel.RESTRICTED)
    if labels.get("enforce-version") == "v1.24":
        assert found.policy.enforce.version == Version(24)
    elif "enforce-version" in labels:
        assert found.policy.enforce.version == LATEST
