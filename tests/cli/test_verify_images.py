"""``pratique verify-images``, with a registry over TLS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from pratique_cli.exit_codes import ExitCode
from pratique_cli.main import main
from support.image_registries import ImageRegistry, registry, signer

Ran: TypeAlias = "tuple[int, str, str]"
Verify: TypeAlias = "Callable[..., Ran]"


@pytest.fixture
def images() -> Iterator[ImageRegistry]:
    with registry() as running:
        yield running


@pytest.fixture
def verify(
    images: ImageRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Verify:
    """Run the command in a folder with ``cosign.pub``, and with the authority of the registry."""
    (tmp_path / "cosign.pub").write_bytes(signer().pem)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRATIQUE_REGISTRY_CA_FILE", str(images.ca_file(tmp_path)))
    monkeypatch.setenv("PRATIQUE_TIMEOUT", "60s")

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["verify-images", *arguments])
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, shown.out, shown.err

    return run


def test_images_are_verified_by_a_key(images: ImageRegistry, verify: Verify) -> None:
    digest = images.push("shop/web", "1.0")
    images.sign("shop/web", digest, signer(), env="prod")
    images.push("shop/new", "1.0")
    web, new = f"{images.host}/shop/web:1.0", f"{images.host}/shop/new:1.0"
    code, out, _ = verify(web, "--key", "cosign.pub", "--annotation", "env=prod")
    assert (code, out) == (0, f"✓ {web}: {digest} is signed with cosign.pub\n1 image: 0 refused\n")
    code, out, _ = verify(web, new, new, "--key", "cosign.pub")
    assert code == ExitCode.DENIED
    assert out.endswith(f"✗ {new}: it has no signature\n2 images: 1 refused\n")
    assert verify(web, "--key", "cosign.pub", "--annotation", "env=test")[0] == ExitCode.DENIED
    assert verify(web, "--key", "cosign.pub", "--require-digest")[0] == ExitCode.DENIED
    assert verify(f"{web}@{digest}", "--key", "cosign.pub", "--require-digest")[0] == ExitCode.ADMITTED


def test_an_image_without_a_registry_is_of_the_default_one(images: ImageRegistry, verify: Verify) -> None:
    digest = images.push("library/web", "1.0")
    images.sign("library/web", digest, signer())
    code, out, _ = verify("web:1.0", "--key", "cosign.pub", "--default-registry", images.host)
    assert (code, out) == (0, f"✓ web:1.0: {digest} is signed with cosign.pub\n1 image: 0 refused\n")
    code, out, _ = verify("web:1.0", "--key", "cosign.pub")
    assert code == ExitCode.DENIED
    assert "registry.example.com/library/web, or say it once: --default-registry" in out


def test_one_of_the_keys_must_have_signed_or_all(images: ImageRegistry, verify: Verify) -> None:
    images.sign("shop/web", images.push("shop/web", "1.0"), signer())
    Path("other.pub").write_bytes(signer("Ed25519").pem)
    keys = (f"{images.host}/shop/web:1.0", "--key", "other.pub", "--key", "cosign.pub")
    assert verify(*keys)[0] == ExitCode.ADMITTED
    code, out, _ = verify(*keys, "--all-keys")
    assert code == ExitCode.DENIED
    assert "it is not signed with other.pub" in out


POD = {
    "containers": [{"image": "{host}/shop/web:1.0"}],
    "initContainers": [{"image": "{host}/shop/init:1.0"}, {}],
}
VOLUMES = {"volumes": [{"image": {"reference": "{host}/shop/init:1.0"}}, {"emptyDir": {}}]}
MANIFESTS = [
    {"kind": "Pod", "spec": POD},
    {"kind": "PodTemplate", "template": {"spec": POD}},
    {"kind": "Deployment", "spec": {"template": {"spec": POD}}},
    {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}},
    {"kind": "VolumePod", "spec": {"containers": POD["containers"], **VOLUMES}},
    {"kind": "List", "apiVersion": "v1", "items": [{"kind": "Pod", "spec": POD}]},
    {"kind": "JobSet", "spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": POD}}}}]}},
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_images_of_manifests_are_verified_by_a_policy(
    images: ImageRegistry, verify: Verify, manifest: object
) -> None:
    images.sign("shop/web", images.push("shop/web", "1.0"), signer())
    images.push("shop/init", "1.0")
    text = json.dumps(manifest).replace("{host}", images.host)
    Path("manifests").mkdir()
    Path("manifests/some.yaml").write_text(yaml.safe_dump_all([{"kind": "Service"}, json.loads(text)]))
    policy = {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "ImageVerificationPolicy",
        "spec": {"rules": [{"images": [f"{images.host}/shop/*"], "keys": [{"file": "cosign.pub"}]}]},
    }
    Path("policy.yaml").write_text(yaml.safe_dump(policy))
    code, out, err = verify("-f", "manifests", "--policy", "policy.yaml", "-o", "json")
    assert (code, err) == (ExitCode.DENIED, "")
    assert {entry["image"].rpartition("/")[2]: entry["allowed"] for entry in json.loads(out)} == {
        "web:1.0": True,
        "init:1.0": False,
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "name images, or manifests with -f"),
        (["r.example.com/web"], "give --policy, or at least one --key"),
        (
            ["r.example.com/web", "--key", "cosign.pub", "--policy", "cosign.pub"],
            "give --policy, or at least one --key",
        ),
        (["r.example.com/web", "--policy", "cosign.pub"], "--policy cosign.pub"),
        (["r.example.com/web", "--policy", "cosign.pub", "--require-digest"], "a policy has its own"),
        (["web", "--policy", "cosign.pub", "--default-registry", "r.example.com"], "a policy has its own"),
        (["web", "--key", "cosign.pub", "--default-registry", "a/b"], '"a/b" is not a host'),
        (["r.example.com/web", "--key", "registries.pem"], "registries.pem: is not a public key in PEM"),
        (["r.example.com/web", "--key", "cosign.pub", "--annotation", "env"], "'env' is not NAME=VALUE"),
        (
            ["r.example.com/web", "--key", "cosign.pub", "--registry-config", "cosign.pub"],
            "--registry-config cosign.pub",
        ),
        (
            ["r.example.com/web", "--key", "cosign.pub", "--registry-ca-file", "cosign.pub"],
            "--registry-ca-file cosign.pub",
        ),
        (
            ["r.example.com/web", "--key", "cosign.pub", "--registry-plain-http", "http://a"],
            "--registry-plain-http",
        ),
        (["-f", "cosign.pub", "--key", "cosign.pub"], "cosign.pub"),
        (["-f", "empty.yaml", "--key", "cosign.pub"], "no manifest names an image"),
    ],
)
def test_wrong_usage_is_one_clear_error(verify: Verify, arguments: list[str], problem: str) -> None:
    Path("empty.yaml").write_text("kind: Service\n")
    code, out, err = verify(*arguments)
    assert code == ExitCode.BAD_INPUT
    assert not out
    assert problem in err
    assert "Traceback" not in err


def test_a_name_that_is_no_image_is_refused(verify: Verify) -> None:
    code, out, _ = verify("Not An Image\x1b[2J", "--key", "cosign.pub")
    assert code == ExitCode.DENIED
    assert "is not a reference" in out
    assert "\x1b" not in out
