"""Signatures that cosign itself makes, in the registry of github.com/distribution/distribution."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from pratique_cli.exit_codes import ExitCode
from pratique_cli.main import main
from support import go_programs
from support.image_registries import MANIFEST, signer

COSIGN, REGISTRY = (go_programs.folder(name) / name for name in ("cosign", "registry"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which(COSIGN) is None or shutil.which(REGISTRY) is None,
        reason="there is no cosign and registry (make cosign builds them)",
    ),
]

_LISTENING = re.compile(r'listening on (127\.0\.0\.1:\d+)"')
CONFIGURATION = """
version: 0.1
storage: {filesystem: {rootdirectory: FOLDER}}
http: {addr: "127.0.0.1:0"}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host of an empty registry without TLS."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "config.yml").write_text(CONFIGURATION.replace("FOLDER", str(folder / "data")))
    log = folder / "log"
    with log.open("w") as opened:
        command = [str(REGISTRY), "serve", str(folder / "config.yml")]
        process = subprocess.Popen(command, stdout=opened, stderr=opened)
    try:
        while (found := _LISTENING.search(log.read_text())) is None:
            assert process.poll() is None, log.read_text()
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=120)


def push(host: str, repository: str) -> str:
    """Push an image without layers; its digest."""
    config = json.dumps({"os": "linux", "architecture": repository, "rootfs": {"type": "layers"}}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    connection = http.client.HTTPConnection(host, timeout=120)

    def send(method: str, url: str, body: bytes = b"", kind: str = "application/octet-stream") -> str:
        connection.request(method, url, body, {"Content-Type": kind})
        answer = connection.getresponse()
        assert answer.read() is not None
        assert answer.status < 300
        return answer.headers["Location"]

    upload = urlsplit(send("POST", f"/v2/{repository}/blobs/uploads/"))
    send("PUT", f"{upload.path}?{upload.query}&digest={digest}", config)
    described = {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": digest,
        "size": len(config),
    }
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": []}
    ).encode()
    send("PUT", f"/v2/{repository}/manifests/1.0", manifest, MANIFEST)
    connection.close()
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


@dataclasses.dataclass(frozen=True, slots=True)
class Cosign:
    """The program, in a folder with its keys."""

    folder: Path

    def run(self, *arguments: str) -> None:
        """Run a command of it."""
        environment = {**os.environ, "COSIGN_PASSWORD": "", "HOME": str(self.folder)}
        command = [str(COSIGN), *arguments]
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr

    def make_key(self, kind: str) -> str:
        """Make a key, or import one of ours; the prefix of its files."""
        if kind == "cosign":
            self.run("generate-key-pair")
            return kind
        private = signer(kind).private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / "private.pem").write_bytes(private)
        self.run("import-key-pair", "--key", "private.pem", "--output-key-prefix", "imported")
        return "imported"


@pytest.mark.parametrize("bundled", [False, True], ids=["payload", "bundle"])
@pytest.mark.parametrize(
    "kind", ["cosign", "P-384", "RSA"]
)  # cosign 3.1 does not verify what it signs with Ed25519
def test_what_cosign_signs_is_verified(
    host: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    *,
    bundled: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    repository = f"shop/{kind.lower()}-{'bundle' if bundled else 'payload'}"
    digest = push(host, repository)
    cosign = Cosign(tmp_path)
    key = cosign.make_key(kind)
    image = f"{host}/{repository}"

    def verify(name: str, *flags: str, by: str = f"{key}.pub") -> int:
        with pytest.raises(SystemExit) as ended:
            main(["verify-images", name, "--key", by, "--registry-plain-http", host, *flags])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    assert verify(f"{image}:1.0") == ExitCode.DENIED
    cosign.run(
        *("sign", "--key", f"{key}.key", "--yes", "--annotations", "env=prod", "--allow-http-registry"),
        *("--tlog-upload=false", "--use-signing-config=false", f"--new-bundle-format={str(bundled).lower()}"),
        f"{image}@{digest}",
    )
    assert verify(f"{image}:1.0") == ExitCode.ADMITTED, capsys.readouterr().out
    assert verify(f"{image}@{digest}", "--annotation", "env=prod") == ExitCode.ADMITTED
    assert verify(f"{image}@{digest}", "--annotation", "env=test") == ExitCode.DENIED
    (tmp_path / "other.pub").write_bytes(signer(name="another").pem)
    assert verify(f"{image}:1.0", by="other.pub") == ExitCode.DENIED


def test_an_attestation_of_cosign_is_no_signature(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    digest, cosign = push(host, "shop/attested"), Cosign(tmp_path)
    cosign.make_key("cosign")
    (tmp_path / "predicate.json").write_text("{}")
    cosign.run(
        *("attest", "--key", "cosign.key", "--yes", "--predicate", "predicate.json", "--type", "custom"),
        *("--tlog-upload=false", "--use-signing-config=false", "--allow-http-registry"),
        f"{host}/shop/attested@{digest}",
    )
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "verify-images",
                f"{host}/shop/attested:1.0",
                "--key",
                "cosign.pub",
                "--registry-plain-http",
                host,
            ]
        )
    assert ended.value.code == ExitCode.DENIED
    assert "signature" in capsys.readouterr().out
