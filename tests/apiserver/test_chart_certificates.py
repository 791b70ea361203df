"""The certificates of the chart: those that Helm makes, and those that it asks cert-manager for."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import itertools
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pratique_cli.certificate_authority import CertificateSpec, is_authority, is_signed_by
from pratique_cli.commands import certs
from support.api_servers import ApiServer
from support.charts import CHART, RELEASE, WITHOUT_SCHEMAS, access, by_name, helm, of, rendered

SERVICES = ("frontdoor", "mutator", "validator")


def wanted(namespace: str, *clients: str) -> dict[str, CertificateSpec]:
    """What ``pratique certs`` would make."""
    return certs._certificate_specs(RELEASE, namespace, (), clients)  # noqa: SLF001 - the two have to agree


def certificate(secret: dict[str, Any], key: str = "tls.crt") -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"][key]))


def trusted(secret: dict[str, Any]) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(base64.b64decode(secret["data"]["ca.crt"]))


def shake_hands(folder: Path, server: dict[str, Any], client: dict[str, Any]) -> None:
    """Let two Pods that have these Secrets authenticate each other; raises ssl.SSLError if one does not."""

    def context(secret: dict[str, Any], purpose: ssl.Purpose) -> ssl.SSLContext:
        for name, data in secret["data"].items():
            (folder / name).write_bytes(base64.b64decode(data))
        made = ssl.create_default_context(purpose, cafile=str(folder / "ca.crt"))
        made.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = context(client, ssl.Purpose.SERVER_AUTH).wrap_bio(inward, outward, server_hostname="validator")
    answerer = context(server, ssl.Purpose.CLIENT_AUTH).wrap_bio(outward, inward, server_side=True)
    for step in (caller, answerer, caller, answerer):
        try:
            step.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert answerer.getpeercert()


class Installed:
    """A release whose certificates Helm makes."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        server.create_namespace(namespace)
        self.namespace = namespace
        self._server = server

    def run(self, verb: str, *flags: str, values: dict[str, Any] | None = None) -> str:
        """Run Helm; what it prints."""
        common = (*of(self.namespace), *access(self._server), *WITHOUT_SCHEMAS, "--values=-")
        given = ("--set=namespace.create=false", "--set=certificates.from=helm")
        ran = helm(verb, RELEASE, str(CHART), *common, *given, *flags, values=values)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def secret(self, name: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{self.namespace}/secrets/pratique-{name}"
        found: dict[str, Any] = self._server.ask("GET", path).body
        return found

    def secrets(self) -> dict[str, dict[str, Any]]:
        names = (*SERVICES, "kube-apiserver")
        return {name: self.secret(f"{name}-tls") for name in names}

    def annotate(self, name: str, *annotations: str) -> None:
        words = ("annotate", "--overwrite", "secret", f"pratique-{name}", *annotations)
        assert self._server.kubectl(*words, f"--namespace={self.namespace}").returncode == 0

    def age(self, name: str) -> None:
        """Make a certificate due for renewal."""
        self.annotate(f"{name}-tls", "pratique/renew-after=1")

    def age_authority(self, which: str, seconds: int) -> None:
        """Make a certificate of the authority one that ends in so many seconds."""
        self.annotate("authority", f"pratique/{which}={int(time.time()) + seconds}")

    def authority(self) -> list[x509.Certificate]:
        """The certificate that signs, then all that are trusted."""
        secret = self.secret("authority")
        return [certificate(secret), *trusted(secret)]


@pytest.fixture(name="release")
def _release(api_server: ApiServer, request: pytest.FixtureRequest) -> Iterator[Installed]:
    namespace = str(request.node.name).replace("_", "-")[5:60].strip("-")
    release = Installed(api_server, namespace)
    release.run("install")
    yield release
    ran = helm("uninstall", RELEASE, "--namespace", namespace, *access(api_server))
    assert ran.returncode == 0, ran.stderr


def test_helm_makes_certificates_once_and_renews_those_that_are_due(
    api_server: ApiServer, release: Installed
) -> None:
    namespace = release.namespace
    first, authority = release.secrets(), certificate(release.secret("authority"))
    assert is_authority(authority)
    for name, spec in wanted(namespace, "kube-apiserver").items():
        made = certificate(first[name])
        # Helm gives every certificate both usages; those of clients name no host that they could serve
        assert msgspec.structs.replace(spec, serves=True).is_met_by(made), name
        assert is_signed_by(made, authority)
        assert certificate(first[name], "ca.crt") == authority
    release.run("upgrade", "--set=replicas.validator=3")
    assert {name: secret["data"] for name, secret in release.secrets().items()} == {
        name: secret["data"] for name, secret in first.items()
    }
    release.age("mutator")
    selector = [{"key": "nobody", "operator": "Exists"}]
    release.run("upgrade", values={"webhooks": {"enabled": True, "namespaceSelector": selector}})
    second = release.secrets()
    assert certificate(second["mutator"]) != certificate(first["mutator"])
    assert is_signed_by(certificate(second["mutator"]), authority)
    assert second["validator"]["data"] == first["validator"]["data"]
    kind = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pratique"
    bundle = api_server.ask("GET", kind).body["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle == release.secret("authority")["data"]["tls.crt"]


LIFETIME, DAY = 3650 * 86400, 86400


def test_the_authority_is_renewed_and_nobody_stops_trusting_anybody(
    tmp_path: Path, release: Installed
) -> None:
    """An authority of the last release is renewed by four upgrades, years apart, whose states Pods may have mixed."""
    without = ("pratique/ends-", "pratique/signed-by-")
    for name in ("authority", *(f"{name}-tls" for name in release.secrets())):
        release.annotate(name, *without)
    states = [release.secrets()]

    def upgrade() -> list[x509.Certificate]:
        release.run("upgrade")
        states.append(release.secrets())
        return release.authority()

    old, *_ = upgrade()
    assert states[0]["validator"]["data"] == states[1]["validator"]["data"], "nothing was due"
    release.age_authority("ends", LIFETIME // 3 - 60)
    signer, *bundle = upgrade()
    [new] = [item for item in bundle if item != old]
    assert (signer, new.public_key()) == (old, old.public_key())
    assert states[2]["validator"]["data"]["tls.crt"] == states[1]["validator"]["data"]["tls.crt"]
    assert trusted(states[2]["validator"]) == [old, new]
    assert upgrade() == [old, old, new], "a new certificate signs once it is known everywhere"
    release.age_authority("next-ends", LIFETIME - 2 * DAY)
    assert upgrade() == [new, new, old]
    assert all(states[4][name]["data"]["tls.crt"] != states[3][name]["data"]["tls.crt"] for name in states[4])
    signed_by = states[4]["validator"]["metadata"]["annotations"]["pratique/signed-by"]
    signer_text = base64.b64decode(release.secret("authority")["data"]["tls.crt"])
    assert signed_by == hashlib.sha256(signer_text).hexdigest()
    release.age_authority("previous-ends", -1)
    assert upgrade() == [new, new]
    for before, after in itertools.pairwise(states):
        for server, client in ((before, after), (after, before)):
            shake_hands(tmp_path, server["validator"], client["frontdoor"])


def signed_by(key: rsa.RSAPrivateKey, identifier: bytes, trusted: bytes = b"") -> dict[str, Any]:
    """A Secret whose certificate an authority has signed; the authority writes its key's identifier in its own way.

    Without ``trusted``, the authority's own certificate is in its place.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "validator" if trusted else "pratique")])
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pratique")])
    own = rsa.generate_private_key(65537, 2048) if trusted else key
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder(issuer, name, own.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not trusted, path_length=None), critical=True)
    )
    if trusted:
        names = x509.SubjectAlternativeName([x509.DNSName("validator")])
        signer = x509.AuthorityKeyIdentifier(identifier, None, None)
        builder = builder.add_extension(names, critical=False).add_extension(signer, critical=False)
    else:
        builder = builder.add_extension(x509.SubjectKeyIdentifier(identifier), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    parts = {"tls.crt": pem, "tls.key": private, "ca.crt": trusted or pem}
    return {"data": {part: base64.b64encode(text).decode() for part, text in parts.items()}}


@pytest.mark.parametrize(("trusts", "accepted"), [("old", False), ("both", True)])
def test_a_certificate_of_the_same_key_may_not_be_trusted_by_who_has_only_the_old_one(
    tmp_path: Path, trusts: str, *, accepted: bool
) -> None:
    """So the chart lets a new certificate of the authority be known before it signs."""
    key = rsa.generate_private_key(65537, 2048)
    old, new = (base64.b64decode(signed_by(key, sign * 20)["data"]["tls.crt"]) for sign in (b"o", b"n"))
    bundle = old if trusts == "old" else old + new
    with contextlib.nullcontext() if accepted else pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path, signed_by(key, b"n" * 20, bundle), signed_by(key, b"o" * 20, bundle))


def test_an_authority_that_has_ended_is_replaced_at_once(tmp_path: Path, release: Installed) -> None:
    old = certificate(release.secret("authority"))
    release.age_authority("ends", -1)
    release.run("upgrade")
    [new, *bundle] = release.authority()
    assert new != old
    assert bundle == [new]
    shake_hands(tmp_path, *(release.secrets()[name] for name in ("validator", "frontdoor")))


def test_helm_says_when_what_it_has_made_ends(release: Installed) -> None:
    release.annotate("mutator-tls", f"pratique/ends={20_000 * DAY}", f"pratique/renew-after={19_000 * DAY}")
    release.annotate("validator-tls", f"pratique/renew-after={int(time.time()) + DAY}", "pratique/ends-")
    told = release.run("upgrade")
    ends = dt.datetime.fromtimestamp(time.time() + DAY + 365 * DAY // 3, dt.UTC)
    assert re.search(rf"end on ({ends:%Y-%m-%d}) \(validator first\), and their authority on", told)
    assert "pratique-kube-apiserver-tls again" in told


def test_an_alert_comes_when_half_of_the_time_to_renew_is_over() -> None:
    def alerts(made_by: str) -> dict[str, str]:
        given = {"certificates": {"from": made_by, "days": 90}, "monitoring": {"enabled": True}}
        made = by_name(rendered(given))["PrometheusRule", RELEASE]
        return {rule["alert"]: rule["expr"] for group in made["spec"]["groups"] for rule in group["rules"]}

    assert alerts("helm")["PratiqueCertificatesNeedHelm"].endswith(f"- time() < {15 * DAY}")
    assert "PratiqueCertificatesNeedHelm" not in alerts("existing")


@pytest.mark.parametrize("issuer", [{}, {"name": "vault", "kind": "ClusterIssuer"}])
def test_cert_manager_is_asked_for_the_same_certificates(issuer: dict[str, str]) -> None:
    values = {
        "certificates": {"from": "cert-manager", "issuerRef": issuer, "days": 30},
        "monitoring": {"enabled": True},
        "webhooks": {"enabled": True},
    }
    made = by_name(rendered(values))
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
