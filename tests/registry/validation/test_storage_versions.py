# ruff: noqa: ISC004 - messages are longer than lines
"""What API servers tell each other of the versions that they store, in the words of a real one."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.manifest_decisions import decide_manifest

STORED: JSONObject = {
    "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
    "kind": "StorageVersion",
    "metadata": {"name": "apps.deployments"},
    "spec": {},
}
V1 = "apps/v1"
CONDITION = {
    "type": "AllEncodingVersionsEqual",
    "status": "True",
    "reason": "r",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def server(**changes: Any) -> JSONObject:
    versions = {"encodingVersion": V1, "decodableVersions": [V1], "servedVersions": [V1]}
    return {"apiServerID": "a", **versions, **changes}


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({"storageVersions": [server()], "commonEncodingVersion": V1, "conditions": [CONDITION]}, []),
        (
            {"storageVersions": [server()]},
            ["status.commonEncodingVersion: Invalid value: null: the common encoding version is apps/v1"],
        ),
        (
            {"storageVersions": [server(), server(servedVersions=[V1, "v2"])], "commonEncodingVersion": V1},
            [
                'status.storageVersions[1].apiServerID: Duplicate value: "a"',
                'status.storageVersions[1].servedVersions[1]: Invalid value: "v2": individual served version : v2 must'
                " be included in decodableVersions : [apps/v1]",
            ],
        ),
        (
            {"storageVersions": [server(decodableVersions=["/v1", "apps/"])], "commonEncodingVersion": V1},
            [
                'status.storageVersions[0].decodableVersions[0]: Invalid value: "/v1": group part: must be non-empty',
                'status.storageVersions[0].decodableVersions[1]: Invalid value: "apps/": version part: must be non-'
                "empty",
                'status.storageVersions[0].decodableVersions: Invalid value: ["/v1","apps/"]: decodableVersions must'
                " include encodingVersion apps/v1",
                'status.storageVersions[0].servedVersions[0]: Invalid value: "apps/v1": individual served version :'
                " apps/v1 must be included in decodableVersions : [/v1 apps/]",
            ],
        ),
        (
            {"conditions": [CONDITION, {**CONDITION, "reason": ""}]},
            [
                'status[1].type: Invalid value: "AllEncodingVersionsEqual": the type of the condition is not unique, it'
                " also appears in conditions[0]",
                "status[1].reason: Required value",
            ],
        ),
    ],
)
def test_a_storage_version_agrees_with_itself(status: JSONObject, errors: list[str]) -> None:
    decision = decide_manifest({**STORED, "status": status}, old=STORED, subresource="status")
    details = None if decision.status is None else decision.status.details
    found = [] if details is None else [f"{cause.field}: {cause.message}" for cause in details.causes]
    assert found == errors
