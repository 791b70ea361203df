"""Stacks whose store is filled by a real API server: changes take effect, and what is not confirmed is not believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import local_stacks
from support.api_servers import ApiServer, write_kubeconfig
from support.forked_commands import PROGRAM, run
from support.live_stacks import metric, reason, review, wait_for
from support.local_stacks import Stack


def flags(server: ApiServer, folder: Path, *further: str) -> list[str]:
    return ["--kubeconfig", str(write_kubeconfig(server, folder)), "--context", "test", *further]


@pytest.fixture(name="stack", scope="module")
def _stack(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with local_stacks.running_alone(*flags(api_server, tmp_path_factory.mktemp("live"))) as stack:
        yield stack


def test_namespaces_and_their_labels_take_effect_as_kubectl_changes_them(
    api_server: ApiServer, stack: Stack
) -> None:
    assert 'namespaces "shop" not found' in reason(stack, "shop")
    api_server.create_namespace("shop")
    wait_for(lambda: not reason(stack, "shop"))
    assert (
        api_server.kubectl("label", "ns", "shop", "pod-security.kubernetes.io/enforce=baseline").returncode
        == 0
    )
    wait_for(lambda: 'violates PodSecurity "baseline:latest"' in reason(stack, "shop"))
    assert api_server.kubectl("label", "ns", "shop", "pod-security.kubernetes.io/enforce-").returncode == 0
    wait_for(lambda: not reason(stack, "shop"))


def test_limits_and_quotas_take_effect_and_end_when_they_are_deleted(
    api_server: ApiServer, stack: Stack
) -> None:
    api_server.create_namespace("small")
    wait_for(lambda: not reason(stack, "small"))
    made = api_server.kubectl("create", "quota", "none", "-n", "small", "--hard=pods=0")
    assert made.returncode == 0, made.stderr
    wait_for(lambda: "exceeded quota: none" in reason(stack, "small"))
    assert api_server.kubectl("delete", "quota", "none", "-n", "small").returncode == 0
    wait_for(lambda: not reason(stack, "small"))


def test_every_process_of_the_local_stack_follows_the_cluster(api_server: ApiServer, tmp_path: Path) -> None:
    with local_stacks.running(*flags(api_server, tmp_path, "--validators", "2")) as stack:
        assert 'namespaces "garden" not found' in reason(stack, "garden")
        api_server.create_namespace("garden", {"pod-security.kubernetes.io/enforce": "restricted"})
        wait_for(lambda: 'violates PodSecurity "restricted:latest"' in reason(stack, "garden"))
        api_server.kubectl("label", "ns", "garden", "pod-security.kubernetes.io/enforce-")
        wait_for(lambda: not any(reason(stack, "garden") for _ in range(4)))


def test_a_missing_namespace_is_made_through_the_api_server_but_not_in_a_dry_run(
    api_server: ApiServer, tmp_path: Path
) -> None:
    making = ["--enable-admission-plugins", "NamespaceAutoProvision"]
    with local_stacks.running_alone(*flags(api_server, tmp_path, *making)) as stack:
        trial = review("tried")
        trial["request"]["dryRun"] = True
        stack.post("/admit", trial)
        assert reason(stack, "made") == ""
        assert api_server.ask("GET", "/api/v1/namespaces/made").code == 200
        assert api_server.ask("GET", "/api/v1/namespaces/tried").code == 404


def test_metrics_count_the_objects_and_name_only_what_is_looked_up(
    api_server: ApiServer, stack: Stack
) -> None:
    text = stack.get("/metrics")[1]
    count = len(api_server.ask("GET", "/api/v1/namespaces").body["items"])
    wait_for(lambda: f'pratique_live_objects{{resource="namespaces"}} {count}.0' in stack.get("/metrics")[1])
    assert 'pratique_live_unconfirmed_seconds{resource="namespaces"}' in text
    assert 'resource="deployments.apps"' not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context", "test"], "give --kubeconfig, too"),
        (["--in-cluster", "--kubeconfig", "{kubeconfig}"], "give one of them"),
        (["--kubeconfig", "{kubeconfig}", "--context", "other"], "cannot be used"),
        (["--in-cluster"], "the ServiceAccount of this Pod cannot be used"),
    ],
)
def test_wrong_flags_of_a_live_cluster_get_one_clear_error(
    api_server: ApiServer, tmp_path: Path, arguments: list[str], said: str
) -> None:
    kubeconfig = str(write_kubeconfig(api_server, tmp_path))
    given = [argument.format(kubeconfig=kubeconfig) for argument in arguments]
    done = run([PROGRAM, "serve", "all", "--port", "0", *given])
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_user_without_rights_is_told_what_the_api_server_refuses(
    api_server: ApiServer, tmp_path: Path
) -> None:
    kubeconfig = str(write_kubeconfig(api_server, tmp_path, "developer"))
    done = run([PROGRAM, "serve", "all", "--port", "0", "--kubeconfig", kubeconfig, "--context", "test"])
    assert done.returncode == 2
    assert 'User "developer" cannot get resource "namespaces"' in done.stderr


def test_usage_is_recounted_from_what_others_create_and_delete(api_server: ApiServer, tmp_path: Path) -> None:
    api_server.create_namespace("counted")
    assert api_server.kubectl("create", "quota", "two", "-n", "counted", "--hard=pods=2").returncode == 0
    ledger = ["--resource-quota-ledger", str(tmp_path / "quotas.sqlite")]
    live = flags(api_server, tmp_path, *ledger)
    with local_stacks.running_alone(*live, "--resource-quota-sync-period", "1s") as stack:
        wait_for(lambda: not reason(stack, "counted"))  # charged one
        for name in ("one", "two"):
            pod = review("counted")["request"]["object"]
            pod["metadata"]["name"] = name
            created = api_server.ask("POST", "/api/v1/namespaces/counted/pods", pod)
            assert created.code == 201, created.body
        used = {"namespace": "counted", "resource": "pods"}
        wait_for(lambda: metric(stack, "pratique_quota_used", **used) == 3)
        assert "exceeded quota: two" in reason(stack, "counted")
        table = run([PROGRAM, "quotas", *live]).stdout
        assert re.search(r"counted +two +pods +3 +2 +ledger", table), table
        path = "/api/v1/namespaces/counted/pods/one?gracePeriodSeconds=0"
        assert api_server.ask("DELETE", path).code == 200
        wait_for(lambda: metric(stack, "pratique_quota_used", **used) == 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context", "test"], "give --kubeconfig, too"),
        (["--kubeconfig", "{kubeconfig}", "--cluster", "{kubeconfig}"], "give one of them"),
    ],
)
def test_quotas_of_no_cluster_or_of_two_are_one_clear_error(
    api_server: ApiServer, tmp_path: Path, arguments: list[str], said: str
) -> None:
    kubeconfig = str(write_kubeconfig(api_server, tmp_path))
    done = run([PROGRAM, "quotas", *(word.format(kubeconfig=kubeconfig) for word in arguments)])
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
