"""Image verifiers as processes, over mutual TLS, with kubeconfigs and configurations that name them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.certificate_mounts import chain_of, key_of
from support.forked_commands import ForkedCommand
from support.image_registries import ImageRegistry, Signer, signer
from support.image_review_servers import client_certificate, clients, kubeconfig
from support.webhook_servers import authority

_READY = re.compile(r"pratique: image-verifier ready on https://127\.0\.0\.1:(\d+)")


@dataclasses.dataclass(frozen=True, slots=True)
class RunningVerifier:
    """An image verifier that runs."""

    port: int
    folder: Path
    """Has its policy, its keys, and what calls it needs."""
    images: ImageRegistry

    def write_policy(self, by: Signer, **rule: Any) -> None:
        """Let every image of the registry need the signature of a key."""
        write_policy(self.folder, self.images, by, **rule)

    def ask(
        self, body: bytes, *, certificate: bool = True, method: str = "POST", path: str = "/review"
    ) -> tuple[int, Any]:
        """Send a request; the code, and the JSON of the answer, or its text."""
        context = ssl.create_default_context(cadata=authority().pem.decode())
        if certificate:
            client_certificate().configure_cert(context)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=120, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith("{") else text

    def review(self, *names: str) -> Any:
        """Ask about images of the registry; the status of the answer."""
        code, answer = self.ask(image_review(*(f"{self.images.host}/{name}" for name in names)))
        assert code == 200, answer
        return answer["status"]

    def admission_configuration(self, *, default_allow: bool = False) -> Path:
        """A configuration of ImagePolicyWebhook that names it."""
        (self.folder / "kubeconfig.json").write_text(
            json.dumps(kubeconfig(f"https://127.0.0.1:{self.port}/review"))
        )
        policy = {
            "kubeConfigFile": str(self.folder / "kubeconfig.json"),
            "retryBackoff": 1,
            "allowTTL": -1,
            "denyTTL": -1,
            "defaultAllow": default_allow,
        }
        plugin = {"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": policy}}
        file = self.folder / "admission.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "AdmissionConfiguration",
                    "plugins": [plugin],
                }
            )
        )
        return file


def image_review(*images: str) -> bytes:
    """An ImageReview as Kubernetes' client sends it."""
    return json.dumps(
        {
            "kind": "ImageReview",
            "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {},
            "spec": {"containers": [{"image": image} for image in images], "namespace": "shop"},
            "status": {"allowed": False},
        }
    ).encode()


def write_policy(folder: Path, images: ImageRegistry, by: Signer, **rule: Any) -> None:
    """Write a policy by which every image of a registry needs the signature of a key."""
    document = {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "ImageVerificationPolicy",
        "spec": {"rules": [{"images": [f"{images.host}/**"], "keys": [{"data": by.pem.decode()}], **rule}]},
    }
    file = folder / "images.yaml"
    written = file.with_suffix(".new")
    written.write_text(yaml.safe_dump(document))
    written.replace(file)


@contextlib.contextmanager
def image_verifier(folder: Path, images: ImageRegistry, *flags: str) -> Iterator[RunningVerifier]:
    """Run an image verifier on a free port, whose policy asks for the usual key."""
    write_policy(folder, images, signer())
    certificate = authority().issue("127.0.0.1")
    (folder / "tls.crt").write_bytes(chain_of(certificate))
    (folder / "tls.key").write_bytes(key_of(certificate))
    (folder / "clients.crt").write_bytes(clients().pem)
    command = [
        *(sys.executable, "-m", "pratique_cli", "serve", "image-verifier", "--port", "0"),
        *("--policy", str(folder / "images.yaml"), "--registry-ca-file", str(images.ca_file(folder))),
        *("--tls-cert-file", str(folder / "tls.crt"), "--tls-private-key-file", str(folder / "tls.key")),
        *("--client-ca-file", str(folder / "clients.crt"), "--drain-seconds", "0", *flags),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    with ForkedCommand(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            found = _READY.match(process.stdout.readline())
            assert found is not None
            yield RunningVerifier(int(found[1]), folder, images)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)
