# ruff: noqa: ISC004 - messages are longer than lines
"""The validation of workloads and their templates where a stored object or a rarer field decides."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

CONTAINERS = [{"name": "c", "image": "i"}]
APP = {"app": "web"}
WORKLOADS = {
    "CronJob": "batch/v1",
    "Job": "batch/v1",
    "ControllerRevision": "apps/v1",
    "PodTemplate": "v1",
    "StatefulSet": "apps/v1",
}
TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
OTHER = {"key": "b", "operator": "Exists"}
ADDITIONS = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"


def made(kind: str, **fields: Any) -> JSONObject:
    metadata = {"name": "a", "namespace": "b"}
    return {"apiVersion": WORKLOADS[kind], "kind": kind, "metadata": metadata, **fields}


def job(pod: JSONObject | None = None, **spec: Any) -> JSONObject:
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS, **(pod or {})}}
    return made("Job", spec={"template": template, **spec})


def counted(indexes: str, count: int = 1) -> JSONObject:
    rules = [{"succeededIndexes": indexes, "succeededCount": count}]
    return job(completionMode="Indexed", completions=5, successPolicy={"rules": rules})


def stateful_set(labels: JSONObject = APP, service: str = "s", **spec: Any) -> JSONObject:
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": CONTAINERS},
        **spec.pop("template", {}),
    }
    selected = {"selector": {"matchLabels": APP}, "serviceName": service, "template": template}
    return made("StatefulSet", spec={**selected, **spec})


def gated(**spec: Any) -> JSONObject:
    metadata = {"name": "a", "namespace": "b"}
    gates = [{"name": "g"}]
    whole = {"containers": CONTAINERS, "schedulingGates": gates, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def on_nodes(*terms: JSONObject) -> JSONObject:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


RULE = "spec.successPolicy.rules[0]"
NO_INDEXES = (
    f"{RULE}.succeededCount: Invalid value: 1: must be less than or equal to 0 (the number of indexes in the specified "
    "succeededIndexes field)"
)


@pytest.mark.parametrize(
    ("indexes", "fault"),
    [
        ("a", 'cannot convert string to integer for index: "a"'),
        ("-1", 'cannot convert string to integer for index: ""'),
        ("1-2-3", 'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts '
                  "separated by '-'"),
        ("0-5", 'too large index: "5"'),
        ("2-1", "non-increasing order, previous: 2, current: 1"),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
    ],
)  # fmt: skip
def test_indexes_of_a_success_policy_are_read_as_go_reads_them(indexes: str, fault: str) -> None:
    detail = f'{RULE}.succeededIndexes: Invalid value: "{indexes}": error parsing succeededIndexes: {fault}'
    assert causes(counted(indexes)) == [detail, NO_INDEXES]


def test_indexes_of_a_success_policy_are_counted() -> None:
    assert causes(counted("0,2-4", count=4)) == []
    assert causes(counted("0,2-3", count=4)) == [
        f"{RULE}.succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the "
        "specified succeededIndexes field)"
    ]


def test_a_controller_of_a_job_has_a_path_with_a_domain() -> None:
    long = "a.b/" + "c" * 60
    assert causes(job(managedBy="a.b/c")) == []
    assert causes(job(managedBy=long)) == ["spec.managedBy: Too long: may not be more than 63 bytes"]
    assert causes(job(managedBy="c")) == [
        'spec.managedBy: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")'
    ]


@pytest.mark.parametrize(
    ("change", "stored", "refused"),
    [
        pytest.param({"nodeSelector": APP}, {"suspend": True}, "", id="a suspended Job may go to other Nodes"),
        pytest.param({"containers": [{**CONTAINERS[0], "resources": {"limits": {"cpu": "1"}}}]}, {"suspend": True}, "",
                     id="a suspended Job may take other resources"),
        pytest.param({"hostPID": True}, {"suspend": True}, "spec.template.spec", id="and change nothing else"),
        pytest.param({"nodeSelector": APP}, {}, "spec.template", id="a running one may not"),
    ],
)  # fmt: skip
def test_the_template_of_a_suspended_job_may_change_where_its_pods_run(
    change: JSONObject, stored: JSONObject, refused: str
) -> None:
    selecting = {"manualSelector": True, "selector": {"matchLabels": APP}, **stored}
    old, new = (job(pod, **selecting) for pod in ({}, change))
    for written in (old, new):
        written["spec"]["template"]["metadata"] = {"labels": APP}
    found = causes(new, old)
    assert [cause.partition(":")[0] for cause in found] == ([refused] if refused else [])
    assert all(cause.endswith(": field is immutable") for cause in found)


def test_policies_of_jobs_are_printed_as_go_has_them() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "A", "status": "True"}]}]
    changed = [
        cause for cause in causes(job(podFailurePolicy={"rules": rules}), job()) if "podFailure" in cause
    ]
    assert changed == [
        'spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"Ignore","OnExitCodes":null,"OnPodConditions":'
        '[{"Type":"A","Status":"True"}]}]}: field is immutable'
    ]


def test_pod_templates_are_validated() -> None:
    whole = {"spec": {"containers": CONTAINERS}}
    assert causes(made("PodTemplate", template=whole)) == []
    assert causes(made("PodTemplate")) == ["template.spec.containers: Required value"]
    assert causes(made("PodTemplate"), made("PodTemplate", template=whole)) == [
        "template.spec.containers: Required value"
    ]


@pytest.mark.parametrize(
    ("written", "stored", "expected"),
    [
        ({"data": {"a": 1}}, None, []),
        ({}, None, ["data: Required value: data is mandatory"]),
        ({"data": 7, "revision": -1}, None, [
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data must be a valid JSON object"]),
        ({"data": {}}, {"data": {"a": 1}}, ["data: Invalid value: {}: field is immutable"]),
        ({"data": {"a": 1}, "revision": 2}, {"data": {"a": 1}}, []),
    ],
)  # fmt: skip
def test_the_data_of_a_controller_revision_is_an_object_that_stays(
    written: JSONObject, stored: JSONObject | None, expected: list[str]
) -> None:
    old = None if stored is None else made("ControllerRevision", **stored)
    assert causes(made("ControllerRevision", **written), old) == expected


def test_claims_of_a_new_stateful_set_are_validated() -> None:
    claims = [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    found = causes(stateful_set(volumeClaimTemplates=claims))
    assert found == ["spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]


def test_an_invalid_name_of_a_service_is_only_refused_as_a_change() -> None:
    assert causes(stateful_set(service="S"), stateful_set()) == [
        'spec.serviceName: Invalid value: "S": field is immutable'
    ]


def test_pods_of_a_stateful_set_that_is_invalid_already_are_tolerated() -> None:
    broken = stateful_set(template={"spec": {"containers": []}})
    assert causes(broken) == ["spec.template.spec.containers: Required value"]
    assert causes({**broken, "spec": {**broken["spec"], "replicas": 3}}, broken) == []


@pytest.mark.parametrize(
    ("stored", "changed", "expected"),
    [
        pytest.param({}, {"nodeSelector": APP}, [], id="a selector is added"),
        pytest.param(
            {"nodeSelector": APP}, {"nodeSelector": {"b": "c"}},
            ['spec.nodeSelector: Invalid value: {"b":"c"}: only additions to spec.nodeSelector are allowed (no '
             "mutations or deletions)"],
            id="a selector is changed",
        ),
        pytest.param({}, {"affinity": on_nodes(TERM)}, [], id="an affinity is added"),
        pytest.param(
            {"affinity": on_nodes(TERM)}, {},
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid "
             f"value: null: {ADDITIONS}"],
            id="an affinity is removed",
        ),
        pytest.param(
            {"affinity": on_nodes(TERM)},
            {"affinity": on_nodes({"matchExpressions": [*TERM["matchExpressions"], OTHER]})},
            [],
            id="a term asks for more",
        ),
    ],
)  # fmt: skip
def test_a_gated_pod_may_ask_more_of_its_nodes(
    stored: JSONObject, changed: JSONObject, expected: list[str]
) -> None:
    assert causes(gated(**changed), gated(**stored)) == expected


def test_an_empty_list_is_no_change_of_a_pod() -> None:
    assert causes(gated(topologySpreadConstraints=[]), gated()) == []


def test_a_selector_in_a_cron_job_is_printed_as_go_has_it() -> None:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job(selector={"matchLabels": {}})["spec"]}}
    assert causes(made("CronJob", spec=spec)) == [
        "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"
    ]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"])
def test_labels_that_are_not_selected_are_shown_in_the_order_of_their_names(kind: str) -> None:
    template = {"metadata": {"labels": {"b": "1", "a": "2"}}, "spec": {"containers": CONTAINERS}}
    spec = {"selector": {"matchLabels": APP}, "template": template, "serviceName": "s"}
    if kind != "StatefulSet":
        del spec["serviceName"]
    manifest = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "b"},
        "spec": spec,
    }
    shown = 'Invalid value: {"a":"2","b":"1"}: `selector` does not match template `labels`'
    assert causes(manifest) == [f"spec.template.metadata.labels: {shown}"]
