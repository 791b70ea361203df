"""`pip install pratique` is enough for offline use, and what needs more says what to install."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pratique_cli.extras import MODULES_OF_EXTRAS

BARE = f"""
import importlib.util
import sys

class Missing:
    names = {sorted(set().union(*MODULES_OF_EXTRAS.values()))}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
present = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in Missing.names else present(name, *rest)
from pratique_cli.main import main
main()
"""
"""The program as it is where no extra is installed."""

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = "examples/04-cel-policies"


def run_bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    # a ledger that somebody keeps on this machine is none of these tests' business
    environment = os.environ | {"XDG_STATE_HOME": str(ROOT / "build" / "no-state"), "STATE_DIRECTORY": ""}
    command = [sys.executable, "-c", BARE, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("review examples/review.json", 0),
        (
            f"review --config {EXAMPLES}/policies.yaml --cluster {EXAMPLES}/cluster.yaml {EXAMPLES}/input.yaml",
            1,
        ),
        ("check examples/02-grpc-webhooks/config.yaml", 0),
        ("test examples/05-policy-tests", 0),
        ("plugins", 0),
        (f"quotas --cluster {EXAMPLES}/cluster.yaml", 0),
        ("replay --help", 0),
        ("certs --help", 0),
        ("decision-log --help", 0),
    ],
)
def test_offline_commands_need_no_extra(command: str, code: int) -> None:
    ran = run_bare(*command.split())
    assert ran.returncode == code, ran.stderr
    assert ran.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("up", "services"),
        ("record --out build/none.jsonl", "services"),
        ("serve frontdoor", "services"),
        ("serve all", "services"),
        ("serve mutator", "services"),
        ("serve validator", "services"),
        (
            "review --config examples/02-grpc-webhooks/config.yaml examples/02-grpc-webhooks/input.yaml",
            "services",
        ),
        (
            "quotas --cluster examples/04-cel-policies/cluster.yaml --resource-quota-ledger postgresql://nobody@127.0.0.1:9/none",
            "ledger",
        ),
        ("prove examples/06-prove/bad", "prove"),
        ("certs build/none", "certificates"),
        ("certs renew examples", "certificates"),
        ("verify-images registry.example.com/web:1 --key examples/review.json", "services"),
    ],
)
def test_what_needs_an_extra_says_in_one_line_what_to_install(command: str, extra: str) -> None:
    ran = run_bare(*command.split())
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert f"pip install 'pratique[{extra}]'" in ran.stderr
    assert ran.stderr.count("\n") == 1


HTTPS_WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: elsewhere}
webhooks:
- name: elsewhere.example.com
  clientConfig: {url: "https://127.0.0.1:9/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def test_a_webhook_over_https_needs_the_services(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(HTTPS_WEBHOOK)
    ran = run_bare("review", "--config", str(tmp_path / "config.yaml"), "examples/review.json")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'pratique[services]'" in ran.stderr


CERTIFICATE_REQUEST = """
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: a}
spec: {request: PEM, signerName: kubernetes.io/kubelet-serving, usages: [server auth]}
"""


def certificates(folder: Path) -> str:
    """The options of openssl for a certificate in c.pem with its key in k.pem."""
    return f"-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {folder}/k.pem -out {folder}/c.pem -subj /CN=a"


def made_by_openssl(folder: Path, *options: str) -> str:
    """A certificate, or with other options a request, in Base64."""
    command = ["openssl", "req", *options, *certificates(folder).split()]
    subprocess.run(command, check=True, capture_output=True)
    return base64.b64encode((folder / "c.pem").read_bytes()).decode()


def test_a_request_for_a_certificate_needs_an_extra_and_others_are_reviewed(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(CERTIFICATE_REQUEST.replace("PEM", made_by_openssl(tmp_path, "-new")))
    ran = run_bare("review", str(file), "examples/review.json")
    assert ran.returncode == 2
    assert ran.stdout.endswith("1 reviewed, 1 admitted, 0 denied, 1 unreadable\n")
    assert "manifest.yaml: document 1, line 2, column 1: this needs cryptography" in ran.stderr
    assert ran.stderr.endswith("pip install 'pratique[certificates]'\n")


def test_the_authority_of_a_webhook_needs_an_extra(tmp_path: Path) -> None:
    bundle = f'9/", caBundle: {made_by_openssl(tmp_path, "-x509")}'
    (tmp_path / "hooks.yaml").write_text(HTTPS_WEBHOOK.replace('9/"', bundle))
    ran = run_bare("check", str(tmp_path / "hooks.yaml"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.endswith("pip install 'pratique[certificates]'\n")


def test_pairs_of_certificates_and_keys_are_compared_without_an_extra(tmp_path: Path) -> None:
    pairs = [(made_by_openssl(tmp_path, "-x509"), (tmp_path / "k.pem").read_bytes()) for _ in range(2)]
    data = {"tls.crt": pairs[0][0], "tls.key": base64.b64encode(pairs[1][1]).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "kubernetes.io/tls"}
    (tmp_path / "secret.json").write_text(json.dumps(secret | {"data": data}))
    ran = run_bare("review", str(tmp_path / "secret.json"))
    assert ran.returncode == 0
    assert "warning: tls: private key does not match public key" in ran.stdout


QUOTA = """
{apiVersion: v1, kind: Namespace, metadata: {name: harbour}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: harbour}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: harbour}
spec: {hard: {pods: "1"}}
status: {hard: {pods: "1"}, used: {pods: "0"}}
"""


def test_quotas_are_charged_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(QUOTA)
    cluster = str(tmp_path / "cluster.yaml")
    ran = run_bare("review", "--cluster", cluster, "examples/review.json", "examples/review.json")
    assert ran.returncode == 1
    assert "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1" in ran.stdout


def test_a_ledger_in_a_file_needs_the_database(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(QUOTA)
    (tmp_path / "quotas.sqlite").touch()
    flags = ("--cluster", f"{tmp_path}/cluster.yaml", "--resource-quota-ledger", f"{tmp_path}/quotas.sqlite")
    ran = run_bare("quotas", *flags)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'pratique[ledger]'" in ran.stderr
