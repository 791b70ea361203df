"""The tutorial of operators, followed from top to bottom with a real API server and kubectl."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support import api_servers
from support.followed_pages import follow
from support.kubernetes_programs import program, why_not


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tutorial asks with curl")
def test_an_operator_gets_from_nothing_to_webhooks_of_one_namespace(tmp_path: Path) -> None:
    kubectl = program("kubectl")
    if kubectl is None:
        pytest.skip(why_not("kubectl"))
    # no controller manager makes the ServiceAccounts that Pods of a real cluster have
    with api_servers.running(disable=["ServiceAccount"]) as server:
        kubeconfig = api_servers.write_kubeconfig(server, tmp_path)
        kubeconfig.write_text(
            kubeconfig.read_text().replace('"none"', '"test"')
        )  # it names no current context
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(tmp_path),
            "PATH": f"{kubectl.parent}:/usr/local/bin:/usr/bin:/bin",
        }
        follow("tutorials/operator.md", tmp_path, environment)
        assert server.ask("GET", "/api/v1/namespaces/shop/pods/web").code == 200
        webhooks = server.ask("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        assert webhooks.body["items"] == []
