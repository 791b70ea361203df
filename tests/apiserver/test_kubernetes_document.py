"""The commands of docs/kubernetes.md for Helm, run as they stand there against a real API server, one after another."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import api_servers, go_programs
from support.api_servers import ApiServer
from support.charts import DEPLOY
from support.cluster_webhooks import SERVICE_RANGE, admission_configuration
from support.deployed_stacks import DeployedStack, deployed, make_certificates
from support.deployment_controllers import rolling_out
from support.free_ports import free_port
from support.kubernetes_programs import program, why_not
from support.waiting import within

PAGE = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text("utf-8")
SECTION = PAGE.partition("## With Helm or kustomize")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
COMMANDS = [(kind, text) for kind, _, text in BLOCKS if kind in {"sh", "console"}]
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pratique"


class Reader:
    """Somebody who follows the page in a checkout, with kubectl and helm that know the cluster."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._write_programs()
        shutil.copytree(DEPLOY, folder / "deploy")
        for _, name, text in BLOCKS:
            if name:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)

    def _write_programs(self) -> None:
        kubeconfig = self.folder / "kubeconfig-of-reader"
        written = api_servers.write_kubeconfig(self.server, self.folder)
        kubeconfig.write_text(written.read_text().replace('"none"', '"test"'))
        helm = go_programs.folder("helm") / "helm"
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        for name, binary in {"kubectl": program("kubectl"), "helm": helm}.items():
            (bin_folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(binary))} "$@"\n')
            (bin_folder / name).chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), kept["PATH"]])
        homes = {name: str(self.folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
        self._environment = kept | homes | {"PATH": path, "KUBECONFIG": str(kubeconfig), "KUBERC": "off"}

    def run(self, script: str) -> str:
        """Run commands that have to succeed; what they print."""
        ran = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, (script, ran.stderr)
        return ran.stdout + ran.stderr


@pytest.fixture(name="reader")
def _reader(tmp_path: Path) -> Iterator[Reader]:
    if missing := why_not():
        pytest.skip(missing)
    if shutil.which(go_programs.folder("helm") / "helm") is None:
        pytest.skip("there is no Helm (make helm builds it)")
    if sys.platform != "linux":
        pytest.skip("only Linux has all addresses of 127.0.0.0/8, which Services get here")
    try:
        socket.create_server(("127.0.64.1", 443)).close()
    except OSError as error:
        pytest.skip(f"a Service listens at port 443, which this process may not: {error}")
    # the API server reads its own certificate when it starts; the page's command keeps it
    make_certificates(tmp_path / "certs")
    admission = admission_configuration(tmp_path / "certs", [])
    flags = {"service-cluster-ip-range": SERVICE_RANGE}
    with (
        api_servers.running(admission=admission, flags=flags, disable=["ServiceAccount"]) as server,
        rolling_out(server, "pratique"),
    ):
        yield Reader(server, tmp_path)


def pull_policy(reader: Reader, namespace: str, query: str = "?dryRun=All") -> str:
    """How a new Pod comes to pull its image; one that is stored goes again at once, as no node has it.

    While services take a change up, one after another, it may be refused: the message is returned then.
    """
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "web", "image": "registry.example/web:1.4"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    reply = reader.server.ask("POST", f"{pods}{query}", pod)
    if not query:
        reader.server.ask("DELETE", f"{pods}/web?gracePeriodSeconds=0")
    return str(reply.body.get("message") or reply.body["spec"]["containers"][0]["imagePullPolicy"])


def stack_of(reader: Reader, folder: Path) -> tuple[str, int]:
    found = reader.server.ask("GET", "/api/v1/namespaces/pratique/services/pratique").body
    folder.mkdir()
    return str(found["spec"]["clusterIP"]), int(found["spec"]["ports"][0]["port"])


def wait_until_reviewed(reader: Reader, namespace: str, query: str = "?dryRun=All") -> None:
    """An API server calls new webhooks a moment after they are there."""
    assert within(60, lambda: pull_policy(reader, namespace, query) == "Always")


def wait_until_not_reviewed(reader: Reader, namespace: str, query: str = "?dryRun=All") -> None:
    assert within(60, lambda: pull_policy(reader, namespace, query) == "IfNotPresent")


def test_the_page_installs_rolls_out_upgrades_and_removes(reader: Reader, tmp_path: Path) -> None:
    (install, shadow, created, enforce, denied, fail, upgrade, uninstall) = (text for _, text in COMMANDS)
    assert "rollout.mode is Shadow" in reader.run(install)
    mount_configuration(reader)
    assert reader.server.ask("GET", WEBHOOKS).code == 404
    folder = tmp_path / "stack"
    address = stack_of(reader, folder)
    certificates = tmp_path / "certs"
    flags = (f"--config={reader.folder / 'mounted'}",)
    with deployed(folder, certificates, address, [free_port(), free_port()], *flags) as stack:
        follow_the_rollout(reader, [shadow, created, enforce, denied, fail])
        change_and_return(reader, stack, upgrade)
        reader.run(uninstall)
    # nothing answers any more, and nothing is waited for
    assert reader.server.ask("GET", WEBHOOKS).code == 404
    wait_until_not_reviewed(reader, "default")


def mount_configuration(reader: Reader) -> None:
    """Do for the processes what kubelets do for Pods: write the files of the ConfigMap into the mounted folder."""
    found = reader.server.ask("GET", "/api/v1/namespaces/pratique/configmaps/pratique-config").body
    (reader.folder / "mounted").mkdir(exist_ok=True)
    for name, text in found["data"].items():
        (reader.folder / "mounted" / name).write_text(text)


def follow_the_rollout(reader: Reader, commands: list[str]) -> None:
    shadow, created, enforce, denied, fail = commands
    reader.run(shadow)
    assert within(60, lambda: told_of_shadows(reader, created))
    assert pull_policy(reader, "shop") == "IfNotPresent", "nothing is enforced"
    reader.run(enforce)
    assert pull_policy(reader, "shop") == "IfNotPresent", "the file is what counts"
    mount_configuration(reader)
    wait_until_reviewed(reader, "shop")
    within(60, lambda: prints(reader, denied))  # validators take the change up by themselves, as mutators do
    shows(reader, denied)
    assert pull_policy(reader, "default") == "IfNotPresent", "only one namespace is reviewed"
    reader.run(fail)
    wait_until_reviewed(reader, "default")


def told_of_shadows(reader: Reader, created: str) -> bool:
    """Whether the audit log says what the page says it does; an API server calls new webhooks a moment later."""
    [block] = re.findall(r"^```text\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    lines = [line.removesuffix("…").partition(": ") for line in block.splitlines()]
    before = reader.server.audited()
    shows(reader, created)
    told = [event.get("annotations", {}) for event in reader.server.audit_events(before)]
    return any(all(found.get(key, "").startswith(text) for key, _, text in lines) for found in told)


def change_and_return(reader: Reader, stack: DeployedStack, upgrade: str) -> None:
    change, off, on = upgrade.strip().replace("\\\n", "").split("\n")
    reader.run(change)
    wait_until_reviewed(reader, "default")
    reader.run(off)
    wait_until_not_reviewed(reader, "default")
    reader.run(on)
    wait_until_reviewed(reader, "default")
    reader.run(change.replace("replicas.validator=3", "webhooks.stage=dry-run"))
    wait_until_not_reviewed(reader, "default", query="")
    wait_until_reviewed(reader, "default")
    reader.run(on)
    wait_until_reviewed(reader, "default", query="")
    for replica in stack.replicas["frontdoor"]:
        replica.kill()
    refused = reader.run("kubectl apply --dry-run=server -f spread.yaml 2>&1 || true")
    assert "failed calling webhook" in refused, "at this stage nothing goes on unreviewed"


def printed_and_shown(reader: Reader, block: str) -> tuple[str, str]:
    """What a command prints, and what the page says that it does."""
    command, _, shown = block.removeprefix("$ ").partition("\n")
    return reader.run(command).strip(), shown.strip()


def prints(reader: Reader, block: str) -> bool:
    printed, shown = printed_and_shown(reader, block)
    return printed == shown


def shows(reader: Reader, block: str) -> None:
    printed, shown = printed_and_shown(reader, block)
    assert printed == shown


def test_the_page_shows_eight_blocks_of_commands_in_this_order() -> None:
    assert [kind for kind, _ in COMMANDS] == ["sh", "sh", "console", "sh", "console", "sh", "sh", "sh"]
