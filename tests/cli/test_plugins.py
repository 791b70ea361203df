from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import TypeAlias

import yaml

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

FIRST_SIX = {
    "AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "DefaultTolerationSeconds",
    "LimitPodHardAntiAffinityTopology", "NamespaceLifecycle",
}  # fmt: skip


def test_plugins_are_listed_in_chain_order(pratique: Program) -> None:
    names = [json.loads(line)["name"] for line in pratique("plugins", "-o", "jsonl").stdout.splitlines()]
    assert set(names) >= FIRST_SIX
    assert names[0] == "AlwaysAdmit"
    assert names[-1] == "AlwaysDeny"
    assert names.index("NamespaceLifecycle") < names.index("DefaultTolerationSeconds")


def test_all_formats_list_the_same_plugins(pratique: Program) -> None:
    as_json = json.loads(pratique("plugins", "-o", "json").stdout)
    assert yaml.safe_load(pratique("plugins", "-o", "yaml").stdout) == as_json
    assert [json.loads(line) for line in pratique("plugins", "-o", "jsonl").stdout.splitlines()] == as_json


def test_each_plugin_has_a_summary_and_phases(pratique: Program) -> None:
    listed = {item["name"]: item for item in json.loads(pratique("plugins", "-o", "json").stdout)}
    assert listed["NamespaceLifecycle"]["default"] is True
    assert listed["AlwaysDeny"]["default"] is False
    assert listed["AlwaysPullImages"]["phases"] == ["mutate", "validate"]
    assert listed["NamespaceLifecycle"]["looksUp"] == ["namespaces"]
    assert all(entry["summary"] for entry in listed.values())


def test_the_table_has_one_line_per_plugin(pratique: Program) -> None:
    head, *rows = pratique("plugins", "-o", "text").stdout.splitlines()
    assert head.split() == ["NAME", "PHASES", "DEFAULT", "DOES"]
    assert {row.split()[0] for row in rows} >= FIRST_SIX
    (deny,) = [row for row in rows if row.startswith("AlwaysDeny ")]
    assert deny.split()[1:4] == ["mutate,", "validate", "off"]


REMOVED = {
    "DenyEscalatingExec": ("1.21", "PodSecurity", "pods"),
    "DenyExecOnPrivileged": ("1.21", "PodSecurity", "pods"),
    "Initializers": ("1.14", "MutatingAdmissionWebhook", "initializerconfigurations"),
    "PodPreset": ("1.20", "MutatingAdmissionWebhook", "podpresets"),
    "PodSecurityPolicy": ("1.25", "PodSecurity", "podsecuritypolicies"),
    "SecurityContextDeny": ("1.30", "PodSecurity", ""),
}


def test_removed_plugins_name_the_release_and_the_successor(pratique: Program) -> None:
    listed = {item["name"]: item for item in json.loads(pratique("plugins", "-o", "json").stdout)}
    for name, (release, successor, looked_up) in REMOVED.items():
        assert (listed[name]["removedIn"], listed[name]["replacedBy"]) == (release, successor)
        assert ",".join(listed[name]["looksUp"]) == looked_up
    for name in ("NamespaceAutoProvision", "NamespaceExists", "Priority"):
        assert listed[name]["removedIn"] is listed[name]["replacedBy"] is None


def test_the_table_shows_removals_and_lookups(pratique: Program) -> None:
    rows = {row.split()[0]: row for row in pratique("plugins", "-o", "text").stdout.splitlines()}
    for name, (release, successor, looked_up) in REMOVED.items():
        needs = f"looks up {looked_up}; " if looked_up else ""
        remark = f" ({needs}removed in Kubernetes {release}; replaced by {successor})"
        assert rows[name].endswith(remark)
    assert rows["Priority"].split()[1:4] == ["mutate,", "validate", "on"]
    assert rows["Priority"].endswith(" (looks up priorityclasses)")
    assert rows["AlwaysPullImages"].endswith(".")


def test_deprecated_plugins_say_so(pratique: Program) -> None:
    listed = {item["name"]: item for item in json.loads(pratique("plugins", "-o", "json").stdout)}
    rows = {row.split()[0]: row for row in pratique("plugins", "-o", "text").stdout.splitlines()}
    for name in ("AlwaysAdmit", "AlwaysDeny"):
        assert listed[name]["deprecatedIn"] == "1.13"
        assert rows[name].endswith(" (deprecated in Kubernetes 1.13)")
    assert listed["SecurityContextDeny"]["deprecatedIn"] == "1.27"
    assert listed["LimitRanger"]["deprecatedIn"] is None


def test_a_terminal_gets_the_table(on_terminal: Callable[..., str]) -> None:
    assert on_terminal("plugins", NO_COLOR="1").startswith("NAME  ")


def test_a_list_of_plugins_is_no_report_on_policies(pratique: Program) -> None:
    refused = pratique("plugins", "-o", "policyreport")
    assert refused.returncode == 2
    assert "'policyreport' is not a format; there are text, table, json" in refused.stderr
