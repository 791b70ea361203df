"""Policies in Python that come with the chart's values: what Pods would find, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.charts import by_name, refusal, rendered
from support.forked_commands import PROGRAM, run

PAGE = Path(__file__).parents[2] / "docs" / "containers.md"
[SHOWN] = re.findall(r"^```yaml\n(chain:\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
VALUES: dict[str, Any] = yaml.safe_load(SHOWN)


def mounted(made: dict[tuple[str, str], Any], folder: Path) -> Path:
    """Lay out a folder as a kubelet does for the volume of the policies."""
    spec = made["Deployment", "pratique-validator"]["spec"]["template"]["spec"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "policies"]
    data = made["ConfigMap", volume["configMap"]["name"]]["data"]
    for item in volume["configMap"]["items"]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data[item["key"]])
    return folder


def pratique(policies: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run([PROGRAM, *words], env=os.environ | {"PYTHONPATH": str(policies)})


def test_the_page_s_policy_is_found_and_decides(tmp_path: Path) -> None:
    made = by_name(rendered(VALUES))
    policies = mounted(made, tmp_path / "mounted")
    listed = pratique(policies, "plugins", "-o", "json")
    assert "RequireTeam" in {item["name"] for item in json.loads(listed.stdout)}, listed.stderr
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}
    pod["spec"] = {"containers": [{"name": "web", "image": "web:1"}]}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    chain = made["ConfigMap", "pratique-chain"]["data"]["PRATIQUE_ADMISSION_CONTROL"]
    denied = pratique(policies, "review", f"--admission-control={chain}", str(tmp_path / "pod.yaml"))
    assert denied.returncode == 1
    assert "label team is missing" in denied.stdout


def test_every_service_gets_the_policies_and_is_replaced_when_they_change() -> None:
    def templates(values: dict[str, Any]) -> list[Any]:
        made = by_name(rendered(values))
        names = ("frontdoor", "mutator", "validator")
        return [made["Deployment", f"pratique-{name}"]["spec"]["template"] for name in names]

    first = templates(VALUES)
    for template in first:
        [container] = template["spec"]["containers"]
        assert container["env"] == [{"name": "PYTHONPATH", "value": "/etc/pratique/policies"}]
        mount = {"name": "policies", "mountPath": "/etc/pratique/policies", "readOnly": True}
        assert mount in container["volumeMounts"]
    changed = yaml.safe_load(SHOWN.replace("label team is missing", "no team"))
    for old, new in zip(first, templates(changed), strict=True):
        assert old["metadata"]["annotations"] != new["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            VALUES | {"webhooks": {"enabled": True, "caBundle": "LS0t"}},
            "does not know what RequireTeam matches",
        ),
        ({"chain": {"policies": {"modules": {"../a.py": ""}}}}, "does not match pattern"),
        (
            {"chain": {"policies": {"modules": {"a.py": ""}, "controllers": []}}},
            "/chain/policies/controllers",
        ),
        ({"chain": {"policies": {"controllers": ["a.b"]}}}, "/chain/policies/controllers/0"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)
