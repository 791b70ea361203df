"""Secrets: the same certificates as manifests for a cluster."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from pratique_cli.yaml_texts import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.json_values import JSONObject
    from pratique_cli.certificates.folders import Done

_NO_NAME = re.compile(r"[^a-z0-9]+")


def write_secrets(done: Iterable[Done], service: str, namespace: str) -> str:
    """Write a Secret of type ``kubernetes.io/tls`` for each certificate, and the authority for webhooks to know.

    The authority's own key is in none of them.
    """
    authority, *signed = done
    bundle = authority.issued.certificate_pem
    head = f"# for clientConfig.caBundle of the webhooks that the front door serves:\n# caBundle: {_encoded(bundle)}\n"
    return "---\n".join([head, *(dump_yaml(_secret(one, bundle, service, namespace)) for one in signed)])


def _secret(done: Done, bundle: bytes, service: str, namespace: str) -> JSONObject:
    name = "-".join(_NO_NAME.sub("-", part.lower()).strip("-") for part in (service, done.name, "tls"))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": {
            "ca.crt": _encoded(bundle),
            "tls.crt": _encoded(done.issued.certificate_pem),
            "tls.key": _encoded(done.issued.key_pem),
        },
    }


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
