"""What ``helm test`` runs in a Pod, run as a process against the stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.charts import by_name, rendered
from support.clusters import Cluster
from support.deployed_stacks import make_certificates


def ask(cluster: Cluster, authority: Path) -> subprocess.CompletedProcess[str]:
    [container] = by_name(rendered(hooks=True))["Pod", "pratique-test"]["spec"]["containers"]
    python, flag, code = container["command"]
    assert (python, flag) == ("python", "-c")
    here = f"https://127.0.0.1:{cluster.stack.ports[0]}/"
    there = "https://pratique.pratique.svc/"
    assert there in code
    code = code.replace(there, here).replace("/etc/pratique/tls/ca.crt", str(authority))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_it_passes_where_the_front_door_is_ready(cluster: Cluster) -> None:
    ran = ask(cluster, cluster.stack.certificates / "ca.crt")
    assert ran.returncode == 0, ran.stderr
    assert "readyz check passed" in ran.stdout


def test_it_fails_where_the_webhooks_would_not_trust_the_certificate(
    cluster: Cluster, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "others")
    ran = ask(cluster, tmp_path / "others" / "ca.crt")
    assert ran.returncode != 0
    assert "CERTIFICATE_VERIFY_FAILED" in ran.stderr
