"""``pratique doctor`` against an API server: the example's stack, and what is bad practice in it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trustme
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pratique_cli.installation_checks import check_installation
from pratique_cli.installations import read_installation
from support.api_servers import ApiServer
from support.cluster_manifests import NAMESPACE, objects, webhook_text
from support.forked_commands import PROGRAM, run
from support.free_ports import free_port

SPACE = f"namespaces/{NAMESPACE}"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/pratique"
VALIDATING = f"{ADMISSION}/validatingwebhookconfigurations/pratique"
DEPLOYMENT = f"/apis/apps/v1/{SPACE}/deployments/pratique-mutator"
SERVICE = f"/api/v1/{SPACE}/services/pratique"
BUDGET = f"/apis/policy/v1/{SPACE}/poddisruptionbudgets/pratique-mutator"
SLICES = f"/apis/discovery.k8s.io/v1/{SPACE}/endpointslices"

Change: TypeAlias = "Callable[[dict[str, Any]], object]"


def authority(days: int) -> bytes:
    """A PEM of an authority that ends in some days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=90)).not_valid_after(now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def kubeconfig(folder: Path, port: int, authority_file: Path, user: str = "admin") -> Path:
    named = {"name": "it"}
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority_file)}
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{**named, "cluster": cluster}],
                "users": [{**named, "user": {"token": f"token-of-{user}"}}],
                "contexts": [{**named, "context": {"cluster": "it", "user": "it"}}],
            }
        )
    )
    return file


def doctor(file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return run([PROGRAM, "doctor", f"--kubeconfig={file}", *flags])


@pytest.fixture(name="server", scope="module")
def _server(disturbed_server: ApiServer) -> Iterator[ApiServer]:
    """An API server with the example, whose webhooks review every Pod."""
    text = yaml.safe_dump_all(objects()) + "---\n" + webhook_text(trustme.CA().cert_pem.bytes())
    applied = disturbed_server.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert applied.returncode == 0, applied.stderr
    yield disturbed_server
    for path in (MUTATING, VALIDATING):
        disturbed_server.ask("DELETE", path)


@pytest.fixture(name="file", scope="module")
def _file(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kubeconfig(tmp_path_factory.mktemp("doctor"), server.port, server.authority)


@contextlib.contextmanager
def changed(server: ApiServer, path: str, change: Change) -> Iterator[None]:
    """Change an object of the API server, and set it back."""
    with contextlib.closing(server.client()) as client:
        before = client.must("GET", path)
        after = json.loads(json.dumps(before))
        change(after)
        client.must("PUT", path, after)
        try:
            yield
        finally:
            before["metadata"]["resourceVersion"] = client.must("GET", path)["metadata"]["resourceVersion"]
            client.must("PUT", path, before)


@contextlib.contextmanager
def removed(server: ApiServer, path: str) -> Iterator[None]:
    with contextlib.closing(server.client()) as client:
        before = client.must("GET", path)
        client.must("DELETE", path)
        try:
            yield
        finally:
            for field in ("resourceVersion", "uid"):
                before["metadata"].pop(field)
            client.must("POST", path.rpartition("/")[0], before)


def found(file: Path) -> dict[str, str]:
    """The severity of each rule that has a finding; a process for each would take seconds."""
    installation = asyncio.run(read_installation(file, None, NAMESPACE))
    return {each.rule: each.severity.value for each in check_installation(installation)}


def test_the_example_lacks_nothing_but_what_runs(file: Path) -> None:
    assert found(file) == {"service-without-endpoints": "error", "few-ready-replicas": "warning"}


def test_findings_say_what_where_and_what_would_be_right(file: Path) -> None:
    ran = doctor(file)
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[:2] == [
        'error: service-without-endpoints: Service "pratique": has no ready endpoint, so every call of a webhook fails',
        "    fix: Let its selector match the front door's Pods, and see why none is ready.",
    ]
    assert ran.stdout.splitlines()[-1] == "1 error, 3 warnings"


def two_ready(deployment: dict[str, Any]) -> None:
    deployment["status"] = {"replicas": 2, "readyReplicas": 2}


def test_an_installation_whose_pods_are_ready_has_no_problem(server: ApiServer, file: Path) -> None:
    endpoint = {"addresses": ["10.1.0.1"], "conditions": {"ready": True}}
    ready = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "pratique-1", "labels": {"kubernetes.io/service-name": "pratique"}},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{"name": "https", "port": 8443}],
    }
    deployments = f"/apis/apps/v1/{SPACE}/deployments"
    with contextlib.closing(server.client()) as client, contextlib.ExitStack() as stack:
        client.must("POST", SLICES, ready)
        stack.callback(client.must, "DELETE", f"{SLICES}/pratique-1")
        for item in client.must("GET", deployments)["items"]:
            path = f"{deployments}/{item['metadata']['name']}/status"
            stack.enter_context(changed(server, path, two_ready))
        ran = doctor(file)
    assert (ran.returncode, ran.stdout) == (0, "no problems found\n")


def webhook(**fields: Any) -> Change:
    return lambda document: document["webhooks"][0].update(fields)


def rules(**fields: Any) -> Change:
    return lambda document: document["webhooks"][0]["rules"][0].update(fields)


def bundle(pem: bytes) -> Change:
    text = base64.b64encode(pem).decode()
    return lambda document: document["webhooks"][0]["clientConfig"].update(caBundle=text)


def calls(**fields: Any) -> Change:
    return lambda document: document["webhooks"][0]["clientConfig"]["service"].update(fields)


def template(**fields: Any) -> Change:
    return lambda document: document["spec"]["template"]["spec"].update(fields)


def two_not_reinvoked(document: dict[str, Any]) -> None:
    [first] = document["webhooks"]
    first["reinvocationPolicy"] = "Never"
    document["webhooks"].append(first | {"name": "second.pratique.pratique.svc"})


EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "scope": "*"}

BAD_PRACTICES: list[tuple[str, str, str, Change]] = [
    ("timeout-too-long", "warning", VALIDATING, webhook(timeoutSeconds=20)),
    ("intercepts-kube-system", "warning", VALIDATING, webhook(namespaceSelector={})),
    ("deadlock", "error", VALIDATING, webhook(namespaceSelector={})),
    ("no-match-policy-equivalent", "warning", VALIDATING, webhook(matchPolicy="Exact")),
    ("wildcard-rules", "warning", VALIDATING, rules(**EVERYTHING)),
    ("intercepts-access-reviews", "error", VALIDATING, rules(**EVERYTHING)),
    ("no-reinvocation", "warning", MUTATING, two_not_reinvoked),
    ("ca-bundle-expired", "error", VALIDATING, bundle(authority(-1))),
    ("ca-bundle-expires-soon", "warning", VALIDATING, bundle(authority(20))),
    ("service-missing", "error", VALIDATING, calls(name="other")),
    ("service-without-port", "error", VALIDATING, calls(port=444)),
    ("not-spread", "warning", DEPLOYMENT, template(topologySpreadConstraints=None, affinity=None)),
]


@pytest.mark.parametrize("practice", BAD_PRACTICES, ids=[rule for rule, *_ in BAD_PRACTICES])
def test_bad_practice_is_found(server: ApiServer, file: Path, practice: tuple[str, str, str, Change]) -> None:
    rule, severity, path, change = practice
    with changed(server, path, change):
        assert found(file).get(rule) == severity


def test_a_missing_disruption_budget_is_found(server: ApiServer, file: Path) -> None:
    with removed(server, BUDGET):
        assert found(file)["no-disruption-budget"] == "warning"


def test_a_namespace_without_pratique_has_neither_webhooks_nor_deployments(file: Path) -> None:
    ran = doctor(file, "--namespace=default", "-o", "json")
    assert {each["rule"] for each in json.loads(ran.stdout)} == {"no-webhooks", "no-deployments"}


def test_pods_of_one_node_are_found(server: ApiServer, file: Path) -> None:
    with contextlib.closing(server.client()) as client, contextlib.ExitStack() as stack:
        stack.enter_context(changed(server, VALIDATING, webhook(failurePolicy="Ignore")))  # nobody answers
        made = client.must("GET", DEPLOYMENT)["spec"]["template"]
        for name in ("a", "b"):
            spec = {**made["spec"], "nodeName": "node-1"}
            spec.pop("serviceAccount", None)
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**made["metadata"], "name": name},
                "spec": spec,
            }
            client.must("POST", f"/api/v1/{SPACE}/pods", pod)
            stack.callback(client.must, "DELETE", f"/api/v1/{SPACE}/pods/{name}?gracePeriodSeconds=0")
        assert found(file)["one-node"] == "warning"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--namespace=absent"], "the cluster has no namespace 'absent'; name Pratique's by --namespace"),
        (["--namespace=No/way"], "'No/way'"),
        (["--context=absent"], "absent"),
    ],
)
def test_unusable_flags_are_one_error(file: Path, flags: list[str], message: str) -> None:
    ran = doctor(file, *flags)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("pratique: ")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_user_who_may_not_list_is_told_what_is_needed(server: ApiServer, tmp_path: Path) -> None:
    ran = doctor(kubeconfig(tmp_path, server.port, server.authority, "developer"))
    assert ran.returncode == 2
    assert (
        "refuses to list Namespace with code 403; the user of the kubeconfig needs the verb list"
        in ran.stderr
    )


def test_an_api_server_that_is_not_there_is_one_error(server: ApiServer, tmp_path: Path) -> None:
    port = free_port()
    ran = doctor(kubeconfig(tmp_path, port, server.authority))
    assert ran.returncode == 2
    assert f"pratique: the API server https://127.0.0.1:{port} cannot be reached: " in ran.stderr


@pytest.mark.parametrize("text", ["", "[", "a: b", "clusters: {a: 1}", "token: 'secret-token\n"])
def test_an_unusable_kubeconfig_is_one_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    ran = doctor(file)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"pratique: the kubeconfig {file} cannot be used: ")
    assert len(ran.stderr.splitlines()) == 1
    assert "secret-token" not in ran.stderr


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.touch()
    code = (
        "import sys; sys.modules['kubernetes_asyncio'] = None\n"
        f"from pratique_cli.main import main; main(['doctor', '--kubeconfig', {str(file)!r}])"
    )
    ran = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False)
    assert ran.returncode == 2
    assert "pip install 'pratique[cluster]'" in ran.stderr
