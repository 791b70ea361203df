"""Policies that are configured, and that a chain does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chains import decide, pod_review, webhook_controllers
from pratique.configurations.load import load_configurations
from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

RULE = "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}"
REMOVAL = """'[JSONPatch{op: "remove", path: "/spec"}]'"""


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ValidatingAdmissionPolicy", "validations: [{expression: 'false'}]"),
        (
            "MutatingAdmissionPolicy",
            f"reinvocationPolicy: Never, mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: {REMOVAL}}}}}]",
        ),
    ],
)
def test_a_chain_that_would_leave_a_policy_out_is_not_made(tmp_path: Path, kind: str, spec: str) -> None:
    text = f"apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n"
    (tmp_path / "a.yaml").write_text(
        f"{text}spec: {{{spec}, matchConstraints: {{resourceRules: [{RULE}]}}}}\n"
    )
    configurations = load_configurations([tmp_path])
    with pytest.raises(ConfigurationError) as refused:
        decide(pod_review(), webhook_controllers(), configurations)
    assert f'a.yaml: {kind} "x": this version of Pratique does not run policies' in str(refused.value)
