"""The checks, by Kubernetes' own cases: what they forbid, word for word."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.pod_security.checks import MistypedError, join_details, read_pod
from pratique.controllers.pod_security.pods import NEWEST, evaluate
from pratique.controllers.pod_security.standards import (
    LATEST,
    PRIVILEGED,
    LevelVersion,
    PodSecurityLevel,
    Version,
)
from support import pod_security_cases

FIXTURES = pod_security_cases.cases("fixtures.jsonl")
SINGLE = pod_security_cases.cases("checks.jsonl")


def detail_of(pod: JSONObject, level: str, minor: int | None = None, *, template: bool = False) -> str:
    level_version = LevelVersion(PodSecurityLevel(level), Version(minor))
    return join_details(evaluate(level_version, read_pod(pod, is_template=template)))


@pytest.mark.parametrize("case", FIXTURES, ids=pod_security_cases.title)
def test_every_conformance_fixture_is_judged_right_in_every_version(case: JSONObject) -> None:
    for minor in range(case["from"], case["to"] + 1):
        assert detail_of(case["pod"], case["level"], minor) == case.get("detail", "")


@pytest.mark.parametrize("case", SINGLE, ids=pod_security_cases.title)
def test_single_checks_report_kubernetes_words(case: JSONObject) -> None:
    for expected in case["expected"]:
        for minor in range(expected["from"], expected["to"] + 1):
            assert detail_of(case["pod"], expected["level"], minor) == expected["detail"]


def test_all_fixtures_are_present() -> None:
    assert sum(case["to"] - case["from"] + 1 for case in FIXTURES) == 4537
    assert {case["to"] for case in FIXTURES if case["case"].endswith("/base")} >= {NEWEST}


@pytest.mark.parametrize("case", SINGLE, ids=pod_security_cases.title)
def test_future_versions_equal_the_newest(case: JSONObject) -> None:
    pod = read_pod(case["pod"])
    for level in PodSecurityLevel:
        newest = evaluate(LevelVersion(level, Version(NEWEST)), pod)
        assert newest == evaluate(LevelVersion(level, Version(NEWEST + 60)), pod)
        assert newest == evaluate(LevelVersion(level, LATEST), pod)


@pytest.mark.parametrize("case", FIXTURES, ids=pod_security_cases.title)
def test_privileged_allows_every_pod(case: JSONObject) -> None:
    assert not evaluate(PRIVILEGED, read_pod(case["pod"]))


@pytest.mark.parametrize("case", FIXTURES, ids=pod_security_cases.title)
def test_restricted_denies_whatever_baseline_denies(case: JSONObject) -> None:
    for minor in range(NEWEST + 1):
        if detail_of(case["pod"], "baseline", minor):
            assert detail_of(case["pod"], "restricted", minor)


def with_container(**members: JSON) -> JSONObject:
    return {"spec": {"containers": [{"name": "web", **members}]}}


def test_container_ports_in_the_hosts_network_are_host_ports() -> None:
    pod = with_container(ports=[{"containerPort": 80}, {"containerPort": 443, "hostPort": 8443}])
    pod["spec"]["hostNetwork"] = True
    shared, ports = "host namespaces (hostNetwork=true)", 'hostPort (container "web" uses hostPort'
    assert detail_of(pod, "baseline") == f"{shared}, {ports}s 80, 8443)"
    assert detail_of(pod, "baseline", template=True) == f"{shared}, {ports} 8443)"


@pytest.mark.parametrize(
    ("volume", "detail"),
    [
        ({"name": "data"}, ""),
        ({"name": "data", "hostPath": None}, ""),
        ({"name": "data", "emptyDir": {}, "hostPath": None}, ""),
        (
            {"name": "data", "nfs": {}},
            'restricted volume types (volume "data" uses restricted volume type "nfs")',
        ),
        (
            {"name": "data", "invented": {}},
            'restricted volume types (volume "data" uses restricted volume type "unknown")',
        ),
    ],
)
def test_a_volume_without_a_source_is_an_empty_dir(volume: JSONObject, detail: str) -> None:
    assert detail_of({"spec": {"volumes": [volume]}}, "restricted") == detail


@pytest.mark.parametrize(
    "pod",
    [
        {"spec": []},
        {"metadata": "x"},
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/web": 1}}},
        {"spec": {"containers": {}}},
        {"spec": {"containers": ["web"]}},
        {"spec": {"hostNetwork": "true"}},
        {"spec": {"hostPID": 1}},
        {"spec": {"hostUsers": "false"}},
        {"spec": {"os": {"name": 1}}},
        {"spec": {"volumes": [1]}},
        {"spec": {"securityContext": {"sysctls": ["x"]}}},
        with_container(name=1),
        with_container(ports=[{"hostPort": "80"}]),
        with_container(ports=[{"hostPort": True}]),
        with_container(livenessProbe={"httpGet": {"host": 1}}),
        with_container(securityContext=True),
        with_container(securityContext={"privileged": "true"}),
        with_container(securityContext={"allowPrivilegeEscalation": "false"}),
        with_container(securityContext={"runAsNonRoot": 1}),
        with_container(securityContext={"runAsUser": 0.0}),
        with_container(securityContext={"runAsUser": "0"}),
        with_container(securityContext={"procMount": {}}),
        with_container(securityContext={"capabilities": ["ALL"]}),
        with_container(securityContext={"capabilities": {"drop": "ALL"}}),
        with_container(securityContext={"capabilities": {"add": [1]}}),
        with_container(securityContext={"seccompProfile": "RuntimeDefault"}),
        with_container(securityContext={"seLinuxOptions": {"type": []}}),
        with_container(securityContext={"windowsOptions": {"hostProcess": "no"}}),
    ],
)
def test_fields_of_the_wrong_type_are_errors(pod: JSONObject) -> None:
    with pytest.raises(
        MistypedError, match=r"json: cannot unmarshal \w+ into Go struct field \S+ of type \w+"
    ):
        detail_of(pod, "restricted")
