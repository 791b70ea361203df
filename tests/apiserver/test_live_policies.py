"""Policies and webhook configurations that come from an API server: its own, and ConfigMaps with a label."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import local_stacks
from support.api_servers import ApiServer, write_kubeconfig
from support.forked_commands import PROGRAM, run
from support.live_stacks import reason, review, wait_for
from support.local_stacks import Stack
from support.steady_loads import steady_load

NAMESPACE, PLAIN = "ruled", "unruled"
ONLY_HERE = f"{{matchLabels: {{kubernetes.io/metadata.name: {NAMESPACE}}}}}"
POLICY = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: NAME.example.com}}
spec:
  PARAMETERS
  matchConstraints:
    namespaceSelector: {ONLY_HERE}
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  validations: [{{expression: "EXPRESSION", message: MESSAGE}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: NAME.example.com}}
spec: {{policyName: NAME.example.com, validationActions: [Deny], REFERENCE}}
"""
WEBHOOK = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: NAME.example.com, labels: {{app.kubernetes.io/part-of: PART}}}}
webhooks:
- name: NAME.example.com
  clientConfig: {{url: "https://127.0.0.1:1/"}}
  namespaceSelector: {ONLY_HERE}
  rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def policy(name: str, expression: str, *, parameters: str = "", reference: str = "") -> str:
    text = POLICY.replace("EXPRESSION", expression).replace("MESSAGE", f"refused by {name}")
    return text.replace("PARAMETERS", parameters).replace(", REFERENCE", reference).replace("NAME", name)


def apply(server: ApiServer, text: str) -> None:
    done = server.kubectl("apply", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr


def config_map(server: ApiServer, text: str, label: str = "policy.pratique/config=true") -> None:
    made = server.kubectl(
        "create", "configmap", "rules", f"--namespace={PLAIN}", "--from-literal", f"rules.yaml={text}",
        "--dry-run=client", "-o", "yaml",
    )  # fmt: skip
    labelled = server.kubectl("label", "--local", "-f", "-", label, "-o", "yaml", stdin=made.stdout)
    apply(server, labelled.stdout)


@pytest.fixture(name="server", scope="module")
def _server(api_server: ApiServer) -> ApiServer:
    for name in (NAMESPACE, PLAIN):
        api_server.create_namespace(name)
    return api_server


KEPT = "configuration kept, the new one cannot be used"
SOURCES = ("cluster", "webhooks", f"configmaps={PLAIN}")


@pytest.fixture(name="stack", scope="module")
def _stack(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    kubeconfig = write_kubeconfig(server, tmp_path_factory.mktemp("policies"))
    sources = [word for source in SOURCES for word in ("--policies-from", source)]
    live = ("--kubeconfig", str(kubeconfig), "--context", "test", *sources)
    with local_stacks.running(*live, "--validators", "2") as stack:
        yield stack


@contextlib.contextmanager
def no_failed_request(stack: Stack) -> Iterator[None]:
    """Send reviews all the time, which all have to be decided."""
    with (
        contextlib.closing(stack.connect()) as connection,
        steady_load(lambda: stack.post("/admit", review(NAMESPACE), connection)),
    ):
        yield


def test_policies_of_the_cluster_decide_as_they_come_and_go_and_no_request_fails(
    server: ApiServer, stack: Stack
) -> None:
    with no_failed_request(stack):
        texts = [policy(f"true{number}", "true") for number in range(8)]
        apply(server, "---".join([*texts, policy("first", "object.metadata.name != 'web'")]))
        wait_for(lambda: "refused by first" in reason(stack, NAMESPACE))
        assert reason(stack, PLAIN) == ""
        apply(server, policy("first", "true"))
        wait_for(lambda: not reason(stack, NAMESPACE))
        apply(server, policy("first", "false"))
        wait_for(lambda: "refused by first" in reason(stack, NAMESPACE))
        kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings"
        assert server.kubectl("delete", kinds, "--all").returncode == 0
        wait_for(lambda: not reason(stack, NAMESPACE))


def test_parameters_are_known_before_the_policy_that_names_them_decides(
    server: ApiServer, stack: Stack
) -> None:
    created = server.kubectl("create", "priorityclass", "most", "--value=7", "--description=web")
    assert created.returncode == 0, created.stderr
    text = policy(
        "described",
        "object.metadata.name != params.description",
        parameters="paramKind: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}",
        reference=", paramRef: {name: most, parameterNotFoundAction: Allow}",
    )
    with no_failed_request(stack):
        apply(server, text)
        wait_for(lambda: "refused by described" in reason(stack, NAMESPACE))
        assert server.kubectl("delete", "validatingadmissionpolicybinding", "--all").returncode == 0
        wait_for(lambda: not reason(stack, NAMESPACE))


def test_config_maps_with_the_label_decide_and_an_invalid_one_keeps_the_last_good_set(
    server: ApiServer, stack: Stack
) -> None:
    with no_failed_request(stack):
        config_map(server, policy("mapped", "false"), "policy.pratique/config=false")
        config_map(server, policy("mapped", "false"))
        wait_for(lambda: "refused by mapped" in reason(stack, NAMESPACE))
        config_map(server, policy("mapped", "no_such_thing"))
        wait_for(lambda: KEPT in stack.get("/readyz?verbose")[1])
        assert stack.get("/readyz")[0] == 200
        assert "refused by mapped" in reason(stack, NAMESPACE)
        config_map(server, "")
        assert KEPT in stack.get("/readyz?verbose")[1]
        assert "refused by mapped" in reason(stack, NAMESPACE)
        config_map(server, policy("mapped", "true"))
        wait_for(lambda: not reason(stack, NAMESPACE))
        wait_for(lambda: KEPT not in stack.get("/readyz?verbose")[1])
        assert server.kubectl("delete", "configmap", "rules", "-n", PLAIN).returncode == 0


def test_webhooks_of_the_cluster_are_called_but_never_those_of_pratique(
    server: ApiServer, stack: Stack
) -> None:
    apply(server, WEBHOOK.replace("NAME", "ours").replace("PART", "pratique"))
    apply(server, WEBHOOK.replace("NAME", "theirs").replace("PART", "others"))
    wait_for(lambda: 'failed calling webhook "theirs.example.com"' in reason(stack, NAMESPACE))
    assert server.kubectl("delete", "validatingwebhookconfiguration", "theirs.example.com").returncode == 0
    wait_for(lambda: not reason(stack, NAMESPACE))
    assert server.kubectl("delete", "validatingwebhookconfiguration", "ours.example.com").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policies-from", "cluster"], "give --kubeconfig or --in-cluster, too"),
        (["--policies-from", "nowhere", "--kubeconfig", "{kubeconfig}"], "give cluster, webhooks or configmaps="),
        (["--policies-from", "configmaps=A_B", "--kubeconfig", "{kubeconfig}"], "--policies-from configmaps=A_B"),
    ],
)  # fmt: skip
def test_wrong_sources_are_one_clear_error(
    server: ApiServer, tmp_path: Path, arguments: list[str], said: str
) -> None:
    kubeconfig = str(write_kubeconfig(server, tmp_path))
    given = [word.format(kubeconfig=kubeconfig) for word in arguments]
    done = run([PROGRAM, "serve", "all", "--port", "0", *given])
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
