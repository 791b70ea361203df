"""The certificates of the chart: those that Helm makes, and those that it asks cert-manager for."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pratique_cli.certificate_authority import CertificateSpec, is_authority, is_signed_by
from pratique_cli.commands import certs
from support.api_servers import ApiServer
from support.charts import CHART, RELEASE, access, by_name, helm, of, rendered, values_file

SERVICES = ("frontdoor", "mutator", "validator")


def wanted(namespace: str, *clients: str) -> dict[str, CertificateSpec]:
    """What ``pratique certs`` would make."""
    return certs._certificate_specs(RELEASE, namespace, (), clients)  # noqa: SLF001 - the two have to agree


def certificate(secret: dict[str, Any], key: str = "tls.crt") -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"][key]))


class Installed:
    """A release whose certificates Helm makes."""

    def __init__(self, server: ApiServer, folder: Path, namespace: str) -> None:
        self._server, self._folder, self._namespace = server, folder, namespace

    def run(self, verb: str, *flags: str) -> None:
        common = (*of(self._namespace), *access(self._server), "--set=namespace.create=false")
        ran = helm(self._folder, verb, RELEASE, str(CHART), *common, "--set=certificates.from=helm", *flags)
        assert ran.returncode == 0, ran.stderr

    def secret(self, name: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{self._namespace}/secrets/pratique-{name}"
        found: dict[str, Any] = self._server.ask("GET", path).body
        return found

    def secrets(self) -> dict[str, dict[str, Any]]:
        names = (*SERVICES, "kube-apiserver")
        return {name: self.secret(f"{name}-tls") for name in names}

    def age(self, name: str) -> None:
        """Make a certificate due for renewal."""
        words = ("annotate", "--overwrite", "secret", f"pratique-{name}-tls", "pratique/renew-after=1")
        assert self._server.kubectl(*words, f"--namespace={self._namespace}").returncode == 0


def test_helm_makes_certificates_once_and_renews_those_that_are_due(
    api_server: ApiServer, tmp_path: Path
) -> None:
    namespace = "made-once"
    api_server.create_namespace(namespace)
    release = Installed(api_server, tmp_path, namespace)
    release.run("install")
    first, authority = release.secrets(), certificate(release.secret("authority"))
    assert is_authority(authority)
    for name, spec in wanted(namespace, "kube-apiserver").items():
        made = certificate(first[name])
        # Helm gives every certificate both usages; those of clients name no host that they could serve
        assert dataclasses.replace(spec, serves=True).is_met_by(made), name
        assert is_signed_by(made, authority)
        assert certificate(first[name], "ca.crt") == authority
    release.run("upgrade", "--set=replicas.validator=3")
    assert {name: secret["data"] for name, secret in release.secrets().items()} == {
        name: secret["data"] for name, secret in first.items()
    }
    release.age("mutator")
    selector = values_file(
        tmp_path,
        {"webhooks": {"enabled": True, "namespaceSelector": [{"key": "nobody", "operator": "Exists"}]}},
    )
    release.run("upgrade", selector)
    second = release.secrets()
    assert certificate(second["mutator"]) != certificate(first["mutator"])
    assert is_signed_by(certificate(second["mutator"]), authority)
    assert second["validator"]["data"] == first["validator"]["data"]
    kind = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pratique"
    bundle = api_server.ask("GET", kind).body["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle == release.secret("authority")["data"]["tls.crt"]
    ran = helm(tmp_path, "uninstall", RELEASE, "--namespace", namespace, *access(api_server))
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("issuer", [{}, {"name": "vault", "kind": "ClusterIssuer"}])
def test_cert_manager_is_asked_for_the_same_certificates(tmp_path: Path, issuer: dict[str, str]) -> None:
    values = {
        "certificates": {"from": "cert-manager", "issuerRef": issuer, "days": 30},
        "monitoring": {"enabled": True},
        "webhooks": {"enabled": True},
    }
    made = by_name(rendered(tmp_path, values_file(tmp_path, values)))
    for name, spec in wanted(RELEASE, "kube-apiserver", "prometheus").items():
        asked = made["Certificate", f"pratique-{name}"]["spec"]
        hosts = [*asked.get("dnsNames", ()), *asked.get("ipAddresses", ())]
        assert (asked["commonName"], hosts) == (spec.common_name, [*spec.hosts])
        assert ("server auth" in asked["usages"]) == spec.serves
        assert asked["secretName"] == f"pratique-{name}-tls"
        assert asked["duration"] == "720h0m0s"
        expected = issuer or {"name": "pratique", "kind": "Issuer"}
        assert asked["issuerRef"] == {"group": "cert-manager.io", **expected}
    assert (("Issuer", "pratique") in made) == (not issuer)
    webhook = made["MutatingWebhookConfiguration", RELEASE]
    assert webhook["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{RELEASE}/pratique-frontdoor"
    }
    assert "caBundle" not in webhook["webhooks"][0]["clientConfig"]
