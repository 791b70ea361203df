from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.statuses import failure
from pratique.cluster.store import ObjectStore
from pratique_cli.exit_codes import ExitCode
from pratique_cli.outputs import ReviewOutput
from pratique_cli.outputs.github import GitHubOutput
from pratique_cli.outputs.junit import JUnitOutput
from pratique_cli.outputs.sarif import SarifOutput
from pratique_cli.outputs.texts import TextOutput
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.reviews.runs import ReviewRun
from pratique_cli.terminal import Palette
from pratique_frontdoor.chain.decisions import Decision
from support.pods import pod

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

BOUTIQUE = Path(__file__).parents[1] / "data" / "manifests" / "online-boutique.yaml"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def document(api_version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({} if kind in {"Namespace", "PriorityClass"} else {"namespace": "shop"})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def namespace(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}


def account(name: str = "default") -> dict[str, Any]:
    return document("v1", "ServiceAccount", name)


def quota(pods: int) -> dict[str, Any]:
    return document("v1", "ResourceQuota", "few", spec={"hard": {"pods": str(pods)}})


def template(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def deployment(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    wanted = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(**spec),
    }
    return document("apps/v1", "Deployment", name, spec=wanted)


def pod_of_template(name: str, **labels: str) -> dict[str, Any]:
    return pod(name=name, labels=labels, **template()["spec"])


def review_of(manifest: dict[str, Any], **more: Any) -> dict[str, Any]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "resource": {"group": group, "version": version, "resource": "deployments"},
        "name": manifest["metadata"]["name"],
        "namespace": "shop",
        "object": manifest,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


REPORTS = [
    (
        JUnitOutput,
        r'<testcase name="Pod shop/web-[^>]*>\s*<error type="undecided" message="[^"]*a.yaml: document 1, line \d+',
    ),
    (
        SarifOutput,
        r'"id": "undecided"\s*},\s*"message": {\s*"text": "[^"]*no decision on its Pods.*?"Pod shop/web-',
    ),
    (GitHubOutput, r"::error file=[^,]*a.yaml,line=\d+,col=\d+,title=undecided%3A Pod shop/web-"),
]


@pytest.fixture
def decide(pratique: Program, tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Review documents in a cluster; return the exit code and the decisions."""

    def run(
        *documents: dict[str, Any], cluster: Any = (), flags: Any = ()
    ) -> tuple[int, list[dict[str, Any]]]:
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster or [namespace(), account()]))
        stdin = yaml.safe_dump_all(documents)
        ran = pratique("review", "-o", "jsonl", "--cluster", "cluster.yaml", *flags, "-", stdin=stdin)
        assert [line for line in ran.stderr.splitlines() if " is deprecated. " not in line] == []
        return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]

    return run


Decide: TypeAlias = "Callable[..., tuple[int, list[dict[str, Any]]]]"


def test_one_command_explains_why_a_deployment_would_run_no_pods(pratique: Program, tmp_path: Path) -> None:
    restricted = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": RESTRICTED},
    }
    default = {**account(), "metadata": {"name": "default", "namespace": "default"}}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([restricted, default]))
    ran = pratique("review", "-o", "text", "-v", "--cluster", "cluster.yaml", BOUTIQUE)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"✓ admitted  Deployment default/frontend  ({BOUTIQUE}:21)\n" in ran.stdout
    assert f"403 Forbidden  ({BOUTIQUE}:31)\n" in ran.stdout
    assert (
        '              pods is forbidden: violates PodSecurity "restricted:latest": seccompProfile'
        in ran.stdout
    )
    security = BOUTIQUE.read_text().splitlines().index("          securityContext:", 30) + 1
    field = "spec.template.spec.containers[0].securityContext.seccompProfile.type"
    assert f"        → {BOUTIQUE}:{security}  {field}\n" in ran.stdout
    assert ran.stdout.endswith(
        "35 reviewed, 35 admitted, 0 denied, 12 denied of the 12 Pods they would make, 12 with warnings\n"
    )


def test_the_readme_shows_that_command(pratique: Program) -> None:
    root = BOUTIQUE.parents[3]
    (reported,) = re.findall(
        r"^\$ \.venv/bin/pratique (review .*)$", (root / "README.md").read_text(), re.MULTILINE
    )
    ran = pratique(*reported.replace("tests/data", f"{root}/tests/data").split())
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "✓ admitted  Deployment default/frontend" in ran.stdout
    assert 'violates PodSecurity "restricted:latest"' in ran.stdout
    assert ran.stdout.endswith("12 denied of the 12 Pods they would make\n")


@pytest.mark.parametrize("command", [("--help",), ("review", "--help")])
def test_the_help_shows_that_command(pratique: Program, command: tuple[str, ...]) -> None:
    assert "pratique review --pod-security restricted deployment.yaml" in pratique(*command).stdout


def test_a_default_level_does_not_override_namespace_labels(decide: Decide) -> None:
    for labels, code in (({}, 1), ({"pod-security.kubernetes.io/enforce": "privileged"}, 0)):
        cluster = [namespace(**labels), account()]
        assert decide(deployment(), cluster=cluster, flags=["--pod-security", "restricted"])[0] == code


def pod_of(name: str, kind: str, owner: str, **labels: str) -> dict[str, Any]:
    workload_pod = pod_of_template(name, **labels)
    api_version = "batch/v1" if kind == "Job" else "apps/v1"
    reference = {"apiVersion": api_version, "kind": kind, "name": owner, "uid": "u", "controller": True}
    workload_pod["metadata"]["ownerReferences"] = [reference]
    return workload_pod


def replica_set(name: str, owner: str) -> dict[str, Any]:
    workload_pod = document("apps/v1", "ReplicaSet", name, spec=deployment()["spec"])
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "u", "controller": True}
    workload_pod["metadata"]["ownerReferences"] = [reference]
    return workload_pod


OFTEN = {
    "schedule": "* * * * *",
    "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
}
OWNED = pod_of("web-a", "ReplicaSet", "web-5d9c", **{"app": "web", "pod-template-hash": "5d9c"})


@pytest.mark.parametrize(
    "documents",
    [
        [deployment(), OWNED],
        [deployment(), replica_set("web-x", "web"), pod_of("a", "ReplicaSet", "web-x")],
        [
            document("apps/v1", "StatefulSet", "db", spec=deployment()["spec"]),
            pod_of("db-0", "StatefulSet", "db"),
        ],
        [
            document("batch/v1", "Job", "once", spec={"template": template(restartPolicy="Never")}),
            pod_of("once-x", "Job", "once"),
        ],
        [
            document("batch/v1", "CronJob", "often", spec=OFTEN),
            pod_of("often-1-x", "Job", "often-28928160"),
        ],
    ],
)
def test_a_pod_listed_beside_its_workload_is_charged_once(
    decide: Decide, documents: list[dict[str, Any]]
) -> None:
    cluster = [namespace(), account(), quota(1)]
    assert decide(*documents, cluster=cluster)[0] == 0
    code, decisions = decide(*documents, pod_of_template("other"), cluster=cluster)
    assert (code, decisions[-1]["allowed"]) == (1, False)


@pytest.mark.parametrize(
    "other",
    [
        pod_of("b", "ReplicaSet", "web-5d9c", **{"pod-template-hash": "5d9c"}),
        pod_of("b", "ReplicaSet", "else"),
    ],
)
def test_further_pods_are_charged_in_addition(decide: Decide, other: dict[str, Any]) -> None:
    cluster = [namespace(), account(), quota(1)]
    code, decisions = decide(deployment(), OWNED, other, cluster=cluster)
    assert (code, [decision["allowed"] for decision in decisions]) == (1, [True, True, False])


def test_a_retried_pod_is_not_charged_beside_the_listed_one(decide: Decide) -> None:
    waiting = deployment(serviceAccountName="robot")
    arrived = pod_of("web-a", "ReplicaSet", "web-5d9c", **{"pod-template-hash": "5d9c"})
    arrived["spec"]["serviceAccountName"] = "robot"
    cluster = [namespace(), account(), quota(1)]
    code, decisions = decide(waiting, account("robot"), arrived, cluster=cluster)
    assert (code, [decision["allowed"] for decision in decisions]) == (0, [True, True, True])


def test_a_denied_pod_is_shown_under_its_workload(decide: Decide) -> None:
    code, (decision,) = decide(deployment(), cluster=[namespace(**RESTRICTED), account()])
    (expanded,) = decision["expanded"]
    assert (code, decision["allowed"], expanded["allowed"]) == (1, True, False)
    assert set(expanded) | {"source"} == set(decision)
    assert expanded["status"]["message"].startswith(
        'pods is forbidden: violates PodSecurity "restricted:latest"'
    )
    assert expanded["object"]["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


def test_no_expand_turns_expansion_off(decide: Decide) -> None:
    code, (decision,) = decide(
        deployment(), cluster=[namespace(**RESTRICTED), account()], flags=["--no-expand"]
    )
    assert (code, decision["expanded"]) == (0, [])


def test_an_allowed_pod_is_admitted(decide: Decide) -> None:
    safe = deployment(containers=[{"name": "c", "image": "i", "securityContext": SAFE}])
    code, (decision,) = decide(safe, cluster=[namespace(**RESTRICTED), account()])
    assert (code, [item["allowed"] for item in decision["expanded"]]) == (0, [True])


def test_the_pods_of_a_denied_workload_are_also_reviewed(decide: Decide) -> None:
    flags = ["--enable-admission-plugins", "AlwaysDeny"]
    code, (decision,) = decide(deployment(), flags=flags)
    assert (code, decision["allowed"]) == (1, False)
    assert [item["allowed"] for item in decision["expanded"]] == [False]


def test_recorded_reviews_are_expanded(decide: Decide) -> None:
    code, (decision,) = decide(review_of(deployment()), cluster=[namespace(**RESTRICTED), account()])
    assert (code, [item["allowed"] for item in decision["expanded"]]) == (1, [False])


def test_a_pod_is_retried_after_the_rest_of_the_input(decide: Decide) -> None:
    code, decisions = decide(
        deployment(serviceAccountName="late", priorityClassName="late"),
        pod_of_template("other"),
        document("scheduling.k8s.io/v1", "PriorityClass", "late", value=7),
        account("late"),
    )
    assert [decision["object"]["kind"] for decision in decisions] == [
        "Deployment",
        "Pod",
        "PriorityClass",
        "ServiceAccount",
    ]
    (expanded,) = decisions[0]["expanded"]
    assert (code, expanded["object"]["spec"]["priority"]) == (0, 7)


def test_one_pod_per_template_is_charged(decide: Decide) -> None:
    documents = [deployment(), pod_of_template("one"), pod_of_template("two")]
    code, decisions = decide(*documents, cluster=[namespace(), account(), quota(2)])
    assert (code, [decision["allowed"] for decision in decisions]) == (1, [True, True, False])


def test_existing_pods_are_not_charged_again(decide: Decide) -> None:
    documents = [pod_of_template("one", app="web"), pod_of_template("two"), deployment(), deployment()]
    code, decisions = decide(*documents, cluster=[namespace(), account(), quota(2)])
    assert (code, [decision["allowed"] for decision in decisions]) == (0, [True] * 4)


def test_a_retried_pod_is_charged_once(decide: Decide) -> None:
    waiting = deployment(serviceAccountName="late")
    code, decisions = decide(waiting, waiting, account("late"), cluster=[namespace(), account(), quota(1)])
    assert (code, [item["allowed"] for item in decisions]) == (0, [True] * 3)
    assert [pod["allowed"] for decision in decisions for pod in decision["expanded"]] == [True, True]


def test_a_pod_over_quota_is_denied(decide: Decide) -> None:
    full = [namespace(), account(), quota(0)]
    for first in (deployment(), deployment(replicas=0), review_of(deployment(), dryRun=True)):
        code, (decision,) = decide(first, cluster=full)
        assert (code, [item["allowed"] for item in decision["expanded"]]) == (1, [False])
        assert "exceeded quota: few" in decision["expanded"][0]["status"]["message"]


def owned(manifest: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Kind", "name": "owner", "uid": "u", "controller": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    "first",
    [
        review_of(deployment(), dryRun=True),
        review_of(deployment(), operation="UPDATE", oldObject=deployment()),
        deployment(replicas=0),
        owned(deployment()),
    ],
    ids=["dry run", "update", "no replicas", "owned"],
)
def test_updates_and_idle_workloads_are_not_charged(decide: Decide, first: dict[str, Any]) -> None:
    code, decisions = decide(first, pod_of_template("one"), cluster=[namespace(), account(), quota(1)])
    assert (code, [decision["allowed"] for decision in decisions]) == (0, [True, True])
    assert [item["allowed"] for item in decisions[0]["expanded"]] == [True]


def test_pods_of_recorded_reviews_are_charged_by_their_own_reviews(decide: Decide) -> None:
    pods = {"group": "", "version": "v1", "resource": "pods"}
    recorded = [review_of(deployment()), review_of(pod_of_template("one"), resource=pods)]
    code, decisions = decide(*recorded, cluster=[namespace(), account(), quota(1)])
    assert (code, [decision["allowed"] for decision in decisions]) == (0, [True, True])


def test_expanded_pods_are_not_stored_in_the_cluster(decide: Decide) -> None:
    stateful = document("apps/v1", "StatefulSet", "web", spec=deployment()["spec"])
    named_alike = pod_of_template("web-0")
    code, decisions = decide(stateful, named_alike)
    assert (code, [decision["allowed"] for decision in decisions]) == (0, [True, True])


def test_a_finding_in_a_recorded_review_points_to_its_container(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([namespace(**RESTRICTED), account()]))
    (tmp_path / "review.json").write_text(json.dumps(review_of(deployment()), indent=1))
    ran = pratique("review", "-o", "text", "-v", "--cluster", "cluster.yaml", "review.json")
    written = [line.strip() for line in (tmp_path / "review.json").read_text().splitlines()]
    container = written.index('"containers": [') + 2
    assert f"→ review.json:{container}  spec.template.spec.containers[0].securityContext" in ran.stdout


def test_findings_in_cron_jobs_name_the_cron_jobs_fields(pratique: Program, tmp_path: Path) -> None:
    job = {"template": template(restartPolicy="Never", hostNetwork=True)}
    cron = document(
        "batch/v1", "CronJob", "nightly", spec={"schedule": "@daily", "jobTemplate": {"spec": job}}
    )
    (tmp_path / "cluster.yaml").write_text(
        yaml.safe_dump_all([namespace(**{"pod-security.kubernetes.io/enforce": "baseline"}), account()])
    )
    (tmp_path / "cron.yaml").write_text(yaml.safe_dump(cron))
    ran = pratique("review", "-o", "text", "-v", "--cluster", "cluster.yaml", "cron.yaml")
    line = (tmp_path / "cron.yaml").read_text().splitlines().index("          hostNetwork: true") + 1
    assert f"→ cron.yaml:{line}  spec.jobTemplate.spec.template.spec.hostNetwork\n" in ran.stdout


@dataclasses.dataclass
class LateEngine:
    """Decides on workloads at once, and is late for Pods from the ``patience``-th on."""

    cluster: ObjectStore
    patience: int = 0
    denial: str = 'serviceaccount "web" not found'

    async def decide(
        self, review: Review, _phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        assert explain
        if review.kind.kind != "Pod":
            return Decision(uid="1", allowed=True, object_document=review.object_document)
        self.patience -= 1
        if self.patience < 0:
            await asyncio.sleep(deadline.remaining_seconds)
            raise TimeoutError
        return Decision(uid="2", allowed=False, status=failure(403, "Forbidden", self.denial))

    async def unready(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("patience", "denied"), [(0, 0), (1, 1)], ids=["first", "second"])
def test_pods_that_time_out_are_reported(tmp_path: Path, patience: int, denied: int) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(deployment()))
    written, complaints = io.StringIO(), list[str]()
    store = ObjectStore(assume_namespaces=True)
    run = ReviewRun(
        engine=LateEngine(store, patience),
        store=store,
        phases=BOTH,
        timeout_seconds=0.5,
        output=TextOutput(written, Palette()),
        report_problem=complaints.append,
    )
    assert asyncio.run(run.run(read_inputs(tmp_path / "a.yaml"))) is ExitCode.BROKEN
    assert [complaint.partition(": no decision")[2] for complaint in complaints] == [
        " on its Pods within 0.5 s; --timeout allows more"
    ]
    assert written.getvalue().count("denied    Pod") == denied


@pytest.mark.parametrize(("make", "reported"), REPORTS, ids=["junit", "sarif", "github"])
def test_pods_that_time_out_are_errors_in_reports(
    tmp_path: Path, make: Callable[[io.BytesIO], ReviewOutput], reported: str
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(deployment()))
    written = io.BytesIO()
    store = ObjectStore(assume_namespaces=True)
    run = ReviewRun(
        engine=LateEngine(store, 1),
        store=store,
        phases=BOTH,
        timeout_seconds=0.5,
        output=make(written),
        report_problem=lambda _: None,
    )
    assert asyncio.run(run.run(read_inputs(tmp_path / "a.yaml"))) is ExitCode.BROKEN
    assert len(re.findall(reported, written.getvalue().decode(), re.DOTALL)) == 1


def test_a_denial_that_no_later_document_can_fix_is_final(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(deployment()))
    written = io.StringIO()
    engine = LateEngine(ObjectStore(assume_namespaces=True), patience=1, denial="violates PodSecurity")
    run = ReviewRun(
        engine=engine,
        store=engine.cluster,
        phases=BOTH,
        timeout_seconds=10,
        output=TextOutput(written, Palette()),
        report_problem=print,
    )
    assert asyncio.run(run.run(read_inputs(tmp_path / "a.yaml"))) is ExitCode.DENIED
    assert engine.patience == 0


def test_the_environment_can_turn_expansion_off(pratique: Program) -> None:
    ran = pratique(
        "review", "-o", "jsonl", "-", stdin=json.dumps(deployment()) + "\n", PRATIQUE_NO_EXPAND="true"
    )
    assert json.loads(ran.stdout)["expanded"] == []
