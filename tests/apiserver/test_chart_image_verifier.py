"""The image verifier of the chart: what is installed, who reaches it, and that the chain's own files lead to it."""

from __future__ import annotations

import copy
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.images.policies import load_image_policy
from pratique_cli.commands import certs
from pratique_cli.commands.services.image_verifier import command as verifier_command
from pratique_cli.main import HELP_FLAGS
from support.bound_processes import bound_process
from support.charts import CHART, RELEASE, by_name, refusal, rendered
from support.forked_commands import PROGRAM, run
from support.waiting import within

POLICY = """\
apiVersion: policy.pratique/v1alpha1
kind: ImageVerificationPolicy
spec:
  rules:
  - {images: [registry.example/pause], unsigned: true}
  - {images: [127.0.0.1/web], keys: [{file: release.pub}]}
"""
KEY = """\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOBMn1N98Yo5P6B9ZQGbpSzzevZZB
JKjOvbG/B2r9Eu7oFXKz5KpO93Conqtd6BI5mW77XJN/G04Udib/Obo5kw==
-----END PUBLIC KEY-----
"""
REGISTRIES = {
    "to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}],
    "ports": [{"protocol": "TCP", "port": 443}],
}
VALUES: dict[str, Any] = {
    "chain": {"admissionControl": ["ImagePolicyWebhook"]},
    "imageVerifier": {"enabled": True, "policy": POLICY, "keys": {"release.pub": KEY}},
    "networkPolicy": {"egress": {"imageVerifier": [REGISTRIES]}},
}


def with_values(**changes: Any) -> dict[str, Any]:
    """The values of this file with some members of ``imageVerifier``, or whole values, in place of others."""
    values = copy.deepcopy(VALUES)
    own = {name: changes.pop(name) for name in list(changes) if name in VERIFIER_VALUES}
    values["imageVerifier"].update(own)
    return values | changes


VERIFIER_VALUES = yaml.safe_load((CHART / "values.yaml").read_text())["imageVerifier"].keys()


def container(made: dict[tuple[str, str], Any]) -> Any:
    [found] = made["Deployment", "pratique-image-verifier"]["spec"]["template"]["spec"]["containers"]
    return found


def test_it_is_there_only_if_it_is_asked_for() -> None:
    assert "image-verifier" not in rendered()
    made = by_name(rendered(VALUES))
    kinds = {kind for kind, name in made if name == "pratique-image-verifier"}
    assert kinds == {"ConfigMap", "ServiceAccount", "PodDisruptionBudget", "Service", "Deployment"}


def laid_out(folder: Path, values: dict[str, Any]) -> tuple[Any, Path]:
    """The objects of the chart, and the files that its Pods mount, with this machine in place of the Service."""
    made = by_name(rendered(values))
    certificates = folder / "certs"
    run([PROGRAM, "certs", certificates, "--namespace", RELEASE, "--image-verifier"]).check_returncode()
    for mounted, name in (("images", "image-verifier"), ("admission", "admission")):
        (folder / mounted).mkdir()
        for file, text in made["ConfigMap", f"pratique-{name}"]["data"].items():
            own = text.replace("/etc/pratique/tls", str(certificates / "validator"))
            (folder / mounted / file).write_text(own.replace("/etc/pratique", str(folder)))
    return made, folder


def test_the_chain_asks_it_by_the_files_that_the_chart_writes(tmp_path: Path) -> None:
    made, folder = laid_out(tmp_path, VALUES)
    arguments = [
        word.replace("/etc/pratique/tls", str(folder / "certs" / "image-verifier"))
        .replace("/etc/pratique", str(folder))
        .replace("--host=0.0.0.0", "--host=127.0.0.1")
        .replace("--port=8082", "--port=0")
        for word in container(made)["args"]
    ]
    log = tmp_path / "log"
    with bound_process([str(PROGRAM), *arguments], log) as process:
        within(60, lambda: "ready on" in log.read_text() or process.poll() is not None)
        found = re.search(r"ready on https://127.0.0.1:(\d+)", log.read_text())
        assert found, log.read_text()
        kubeconfig = folder / "admission" / "image-verifier.yaml"
        there = "pratique-image-verifier.pratique.svc:8082"
        assert there in kubeconfig.read_text()
        kubeconfig.write_text(kubeconfig.read_text().replace(there, f"127.0.0.1:{found[1]}"))
        assert review(folder, "registry.example/pause:3").returncode == 0
        for image, reason in (("registry.example/other:1", "no rule"), ("127.0.0.1/web:1", "127.0.0.1")):
            denied = review(folder, image)
            assert denied.returncode == 1, denied.stdout + denied.stderr
            assert "image policy webhook backend denied one or more images" in denied.stdout
            assert reason in denied.stdout


def review(folder: Path, image: str) -> subprocess.CompletedProcess[str]:
    """What validators would answer to a Pod with an image."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}
    (folder / "pod.yaml").write_text(
        yaml.safe_dump(pod | {"spec": {"containers": [{"name": "c", "image": image}]}})
    )
    file = f"--admission-control-config-file={folder / 'admission' / 'admission.yaml'}"
    return run([PROGRAM, "review", "--admission-control=ImagePolicyWebhook", file, folder / "pod.yaml"])


def test_it_knows_the_flags_that_values_give_it(tmp_path: Path) -> None:
    values = with_values(registrySecret="users", registryCA="PEM", timeout="2s", cacheTTL="1m")
    made = by_name(rendered(values))
    (tmp_path / "file").touch()
    given = [re.sub(r"=/etc/\S+", f"={tmp_path / 'file'}", word) for word in container(made)["args"]]
    assert given[:2] == ["serve", "image-verifier"]
    names = list(HELP_FLAGS)
    parsed = verifier_command.make_context("image-verifier", given[2:], help_option_names=names).params
    assert (parsed["timeout"], parsed["cache_seconds"]) == (2, 60)
    assert parsed["registry_config"] == parsed["registry_ca_file"] == tmp_path / "file"
    spec = made["Deployment", "pratique-image-verifier"]["spec"]["template"]["spec"]
    assert {volume["name"] for volume in spec["volumes"]} == {"tls", "images", "registries"}
    mounts = {mount["name"]: mount["mountPath"] for mount in container(made)["volumeMounts"]}
    for word in container(made)["args"]:
        if "=/etc/" in word:
            assert Path(word.partition("=")[2]).parent.as_posix() in mounts.values()


def test_nobody_but_validators_reaches_it_and_it_reaches_only_registries() -> None:
    made = by_name(rendered(VALUES | {"liveCluster": {"enabled": True}}))
    assert "--client-allowed-names=validator" in container(made)["args"]
    spec = made["NetworkPolicy", "image-verifier"]["spec"]
    [inward] = spec["ingress"]
    assert inward["from"] == [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "pratique-validator"}}}
    ]
    dns, registries = spec["egress"]
    assert dns["ports"][0]["port"] == 53
    assert registries == REGISTRIES
    outward, _ = made["NetworkPolicy", "validator-to-image-verifier"]["spec"]["egress"]
    assert outward["ports"] == [{"protocol": "TCP", "port": 8082}]
    pod = made["Deployment", "pratique-image-verifier"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False, "it asks the API server for nothing"


def test_the_page_s_values_install_it(tmp_path: Path) -> None:
    page = (CHART.parents[2] / "docs" / "image-signatures.md").read_text()
    section = page.partition("### In a cluster")[2].partition("\n### ")[0]
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    flags = [word.strip("'") for word in re.findall(r"--set-file (\S+)", section)]
    (tmp_path / "images.yaml").write_text(POLICY.replace("release.pub", "cosign.pub"))
    (tmp_path / "cosign.pub").write_text(KEY)
    given = [f"--set-file={flag.partition('=')[0]}={tmp_path / flag.partition('=')[2]}" for flag in flags]
    assert len(given) == 2
    made = by_name(rendered(yaml.safe_load(shown), *given))
    data = made["ConfigMap", "pratique-image-verifier"]["data"]
    assert data.keys() == {"policy.yaml", "cosign.pub"}
    (tmp_path / "mounted").mkdir()
    for name, text in data.items():
        (tmp_path / "mounted" / name).write_text(text)
    assert len(load_image_policy(tmp_path / "mounted" / "policy.yaml").rules) == 2


@pytest.mark.parametrize("made_by", ["helm", "cert-manager"])
def test_its_certificate_names_what_pratique_certs_names(made_by: str) -> None:
    values = VALUES | {"certificates": {"from": made_by}}
    made = by_name(rendered(values))
    services = ("image-verifier",)
    wanted = certs._certificate_specs(RELEASE, RELEASE, (), (), services)  # noqa: SLF001 - the two have to agree
    if made_by == "helm":
        assert ("Secret", "pratique-image-verifier-tls") in made
    else:
        asked = made["Certificate", "pratique-image-verifier"]["spec"]
        assert [*asked["dnsNames"], *asked["ipAddresses"]] == [*wanted["image-verifier"].hosts]


def test_settings_of_controllers_reach_all_services_which_are_replaced_when_they_change() -> None:
    def made(seconds: int) -> dict[tuple[str, str], Any]:
        plugins = [{"name": "ImagePolicyWebhook", "timeoutSeconds": seconds}, {"name": "AlwaysPullImages"}]
        values = VALUES | {"chain": VALUES["chain"] | {"plugins": plugins}}
        return by_name(rendered(values))

    first, second = made(3), made(4)
    written = yaml.safe_load(first["ConfigMap", "pratique-admission"]["data"]["admission.yaml"])
    asking, other = written["plugins"]
    assert (asking["timeoutSeconds"], other) == (3, {"name": "AlwaysPullImages"})
    assert asking["configuration"]["imagePolicy"]["allowTTL"] == 60
    for service in ("frontdoor", "mutator", "validator"):
        old, new = (made["Deployment", f"pratique-{service}"]["spec"]["template"] for made in (first, second))
        assert (
            "--admission-control-config-file=/etc/pratique/admission/admission.yaml"
            in old["spec"]["containers"][0]["args"]
        )
        assert old["metadata"]["annotations"] != new["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (with_values(policy=""), "/imageVerifier/policy"),
        (with_values(chain={}), "nobody asks it; add ImagePolicyWebhook"),
        (with_values(networkPolicy={}), "/networkPolicy/egress/imageVerifier"),
        (with_values(keys={"policy.yaml": KEY}), "policy.yaml"),
        (with_values(keys={"release.pub": "-----BEGIN PRIVATE KEY-----"}), "/imageVerifier/keys/release.pub"),
        (with_values(allowTTL=0), "/imageVerifier/allowTTL"),
    ],
)
def test_what_would_verify_nothing_is_refused(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)
