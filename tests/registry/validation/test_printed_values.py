# ruff: noqa: ISC004 - messages are longer than lines
"""How errors print values: strings of types of their own as JSON, plain ones quoted, maps with sorted names."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

ODD = "a<\x01é&"
AS_JSON, QUOTED = '"a\\u003c\\u0001é\\u0026"', '"a<\\x01é&"'
DEADLINE = 2**53


def made(kind: str, version: str, **fields: Any) -> JSONObject:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "a", "namespace": "b", **fields.pop("metadata", {})},
        **fields,
    }


def pod(container: JSONObject | None = None, **spec: Any) -> JSONObject:
    return made("Pod", "v1", spec={"containers": [{"name": "c", "image": "i", **(container or {})}], **spec})


def job(name: str = "a", labels: JSONObject | None = None, **spec: Any) -> JSONObject:
    metadata = {} if labels is None else {"metadata": {"labels": labels}}
    template = {**metadata, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return made("Job", "batch/v1", metadata={"name": name}, spec={"template": template, **spec})


@pytest.mark.parametrize(
    ("manifest", "cause"),
    [
        (
            pod(restartPolicy=ODD),
            f'spec.restartPolicy: Unsupported value: {AS_JSON}: supported values: "Always", "OnFailure", "Never"',
        ),
        (
            pod({"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": ODD}]},
                volumes=[{"name": "v", "emptyDir": {}}]),
            f"spec.containers[0].volumeMounts.mountPropagation: Unsupported value: {AS_JSON}: supported values:"
            ' "Bidirectional", "HostToContainer", "None"',
        ),
        (
            pod({"resizePolicy": [{"resourceName": ODD, "restartPolicy": "NotRequired"}]}),
            f'spec.containers[0].resizePolicy: Unsupported value: {AS_JSON}: supported values: "cpu", "memory"',
        ),
        (
            pod(os={"name": ODD}),
            f'spec.os: Unsupported value: {AS_JSON}: supported values: "linux", "windows"',
        ),
        (
            pod(tolerations=[{"key": "k", "operator": "Exists", "value": ODD}]),
            f"spec.tolerations[0].operator: Invalid value: {QUOTED}: value must be empty when `operator` is 'Exists'",
        ),
        (
            pod(schedulerName="x", volumes=[{"name": "v", "hostPath": {"path": "/a", "type": ODD}}]),
            f'spec.volumes[0].hostPath.type: Unsupported value: {AS_JSON}: supported values: "", "BlockDevice",'
            ' "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"',
        ),
        (
            made("Deployment", "apps/v1", spec={
                "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": ODD},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            }),
            f'spec.strategy: Unsupported value: {{"Type":{AS_JSON},"RollingUpdate":null}}: supported values:'
            ' "Recreate", "RollingUpdate"',
        ),
    ],
)  # fmt: skip
def test_a_value_prints_as_its_type_does(manifest: JSONObject, cause: str) -> None:
    assert causes(manifest) == [cause]


def test_labels_print_with_sorted_names() -> None:
    chosen = job(selector={"matchLabels": {"z": "y"}})
    (mismatch,) = [cause for cause in causes(chosen) if "does not match" in cause]
    names = [part.split('"')[1] for part in mismatch.split("{")[1].split(",")]
    assert names == [
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "controller-uid",
        "job-name",
    ]


LONG = f'"{"x" * 64}": must be no more than 63 bytes'


@pytest.mark.parametrize(
    ("labels", "fields"), [(None, ["spec.template"]), ({"a": "b"}, ["metadata", "spec.template"])]
)
def test_a_job_has_the_labels_that_select_its_pods_if_its_template_had_some(
    labels: JSONObject | None, fields: list[str]
) -> None:
    assert causes(job("x" * 64, labels)) == [f"{field}.labels: Invalid value: {LONG}" for field in fields]


def test_a_claim_of_a_volume_is_named_as_go_quotes_it() -> None:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "v\x01", "ephemeral": {"volumeClaimTemplate": claim}}
    (first, *_) = causes(pod(volumes=[volume]))
    assert first.startswith(
        'spec.volumes[0].name: Invalid value: "v\\x01": PVC name "a-v\\x01": a lowercase RFC 1123'
    )


def test_the_deadline_of_a_stored_pod_has_two_limits() -> None:
    assert causes(pod(activeDeadlineSeconds=DEADLINE), pod(activeDeadlineSeconds=5)) == [
        f"spec.activeDeadlineSeconds: Invalid value: {DEADLINE}: must be between {least} and 2147483647, inclusive"
        for least in (1, 0)
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("a.b", "must not contain dots"), ("x" * 64, "must be no more than 63 characters")],
)
def test_a_pod_whose_name_makes_no_host_name_is_warned_of(name: str, problem: str) -> None:
    warning = (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is"
        f" recommended: [{problem}]"
    )
    named = {**pod(), "metadata": {"name": name, "namespace": "b"}}
    assert causes(named) == [f"warning: {warning}"]
    assert causes(named, named) == []


@pytest.mark.parametrize("base", ["web-", "a" * 70])
def test_a_name_that_will_be_generated_makes_a_host_name(base: str) -> None:
    assert causes({**pod(), "metadata": {"generateName": base, "namespace": "b"}}) == []
