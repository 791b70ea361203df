"""docs/image-signatures.md: its policies are valid, its files name each other, and its limits are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.configuration.admission_configuration import load_admission_configuration
from pratique.https.kubeconfigs import load_kubeconfig, resolve_current_context
from pratique.images.policies import load_image_policy
from pratique.images.registries import BLOB_LIMIT, MANIFEST_LIMIT
from pratique.images.verification import MAX_CONCURRENT_IMAGES, MAX_SIGNATURES
from pratique_cli.main import main
from support.image_registries import signer

DOCUMENT = (Path(__file__).parents[2] / "docs" / "image-signatures.md").read_text("utf-8")
BLOCKS = re.findall(r"^( *)```yaml\n(.*?)^\1```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def documents() -> list[Any]:
    return [yaml.safe_load(re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)) for indent, text in BLOCKS]


def test_its_policy_is_valid_with_its_registries(tmp_path: Path) -> None:
    policy, registries = (document for document in documents() if "spec" in document)
    policy["spec"]["registries"] = registries["spec"]["registries"]
    (tmp_path / "cosign.pub").write_bytes(signer().pem)
    file = tmp_path / "images.yaml"
    file.write_text(yaml.safe_dump(policy))
    loaded = load_image_policy(file)
    assert len(loaded.rules) == 2
    assert loaded.registries


def test_its_files_lead_to_the_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_kind = {document.get("kind"): document for document in documents()}
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(re.findall(r"\$ pratique (certs .*)", DOCUMENT)[0].split())
    Path("admission.yaml").write_text(yaml.safe_dump(by_kind["AdmissionConfiguration"]))
    settings: Any = load_admission_configuration(Path("admission.yaml"))["ImagePolicyWebhook"]
    kubeconfig = Path(settings["imagePolicy"]["kubeConfigFile"])
    kubeconfig.write_text(yaml.safe_dump(by_kind["Config"]))
    target = resolve_current_context(load_kubeconfig(kubeconfig))
    assert target.server.server.endswith(":8082/review")
    assert f"`{kubeconfig}`" in DOCUMENT
    for file in re.findall(r"certs/[\w/]+\.(?:crt|key)", DOCUMENT):
        assert Path(file).is_file()


@pytest.mark.parametrize(
    "row",
    [
        f"| {MAX_SIGNATURES} | only the first {MAX_SIGNATURES} count |",
        f"| a manifest | {MANIFEST_LIMIT >> 20} MiB |",
        f"| a payload or bundle | {BLOB_LIMIT >> 20} MiB |",
        f"| images of one registry that are verified at a time | {MAX_CONCURRENT_IMAGES} |",
    ],
)
def test_its_limits_are_those_of_the_code(row: str) -> None:
    assert row in DOCUMENT
