"""``pratique certs``: what it makes, keeps and renews."""

from __future__ import annotations

import base64
import datetime as dt
import ssl
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import trustme
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from pratique.https.tls import KeyPairFiles, read_key_pair
from pratique_cli import certificate_authority
from pratique_cli.main import main

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

NAMES = ("frontdoor", "mutator", "validator")


@pytest.fixture(name="pratique")
def _pratique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs the program in this process, because these tests concern files, and processes are slow."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        output = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), output.out, output.err)

    return run


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def hosts(path: Path) -> set[str]:
    names = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def words(text: str) -> list[str]:
    """The documented commands, line by line."""
    return [line.split()[0] for line in text.splitlines()]


def test_an_authority_and_a_key_pair_for_each_service_are_made(pratique: Program, tmp_path: Path) -> None:
    ran = pratique("certs", "certs", "--client", "kube-apiserver")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert words(ran.stdout) == ["made"] * 5
    end = certificate(tmp_path / "certs/ca.crt").not_valid_after_utc
    assert ran.stdout.splitlines()[0] == f"made     certs/ca.crt, ends {end:%Y-%m-%d}"
    for name in (*NAMES, "kube-apiserver"):
        folder = tmp_path / "certs" / name
        pair = read_key_pair(KeyPairFiles(folder / "tls.crt", folder / "tls.key", "", ""))
        assert pair.chain == (folder / "tls.crt").read_bytes()
        assert (folder / "ca.crt").read_bytes() == (tmp_path / "certs/ca.crt").read_bytes()


def test_openssl_verifies_the_certificates(pratique: Program, tmp_path: Path) -> None:
    pratique("certs", "certs")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "certs/ca.crt")
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_cert_chain(tmp_path / "certs/mutator/tls.crt", tmp_path / "certs/mutator/tls.key")
    asking = ssl.create_default_context(cafile=tmp_path / "certs/ca.crt")
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    asking.load_cert_chain(tmp_path / "certs/frontdoor/tls.crt", tmp_path / "certs/frontdoor/tls.key")
    client = asking.wrap_bio(incoming, outgoing, server_hostname="pratique-mutator.default.svc")
    server = serving.wrap_bio(outgoing, incoming, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.getpeercert()
    assert server.getpeercert()


def test_certificates_cover_compose_cluster_and_local_names(pratique: Program, tmp_path: Path) -> None:
    pratique(
        "certs",
        "certs",
        "--service",
        "adm",
        "--namespace",
        "sys",
        "--host",
        "adm.example.com",
        "--host",
        "10.0.0.9",
    )
    everywhere = {"localhost", "127.0.0.1", "::1", "adm.example.com", "10.0.0.9"}
    ends = ("", ".sys", ".sys.svc", ".sys.svc.cluster.local")
    for name in NAMES:
        begins = {name, f"adm-{name}"} | ({"adm"} if name == "frontdoor" else set())
        assert hosts(tmp_path / "certs" / name / "tls.crt") == everywhere | {
            begin + end for begin in begins for end in ends
        }


def test_keys_are_elliptic_and_readable_by_the_owner_only(pratique: Program, tmp_path: Path) -> None:
    pratique("certs", "certs", "--client", "one")
    keys = sorted((tmp_path / "certs").rglob("*.key"))
    assert len(keys) == 5
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    public = certificate(tmp_path / "certs/ca.crt").public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp256r1"


def test_client_certificates_are_not_valid_for_servers(pratique: Program, tmp_path: Path) -> None:
    pratique("certs", "certs", "--client", "system:kube-apiserver")
    made = certificate(tmp_path / "certs/system:kube-apiserver/tls.crt")
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert made.subject.rfc4514_string() == "CN=system:kube-apiserver"


def test_valid_certificates_are_kept_and_unsuitable_ones_renewed(pratique: Program, tmp_path: Path) -> None:
    pratique("certs", "certs")
    before = {path: path.read_bytes() for path in (tmp_path / "certs").rglob("*.*")}
    assert words(pratique("certs", "certs").stdout) == ["kept"] * 4
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "certs/mutator/tls.key").write_text("broken")
    assert words(pratique("certs", "certs").stdout) == ["kept", "kept", "made", "kept"]
    assert words(pratique("certs", "certs", "--host", "new.example.com").stdout) == ["kept", *["renewed"] * 3]
    assert words(pratique("certs", "certs", "--host", "new.example.com").stdout) == ["kept"] * 4


def test_force_makes_everything_anew(pratique: Program, tmp_path: Path) -> None:
    pratique("certs", "certs")
    before = (tmp_path / "certs/ca.crt").read_bytes()
    assert words(pratique("certs", "certs", "--force").stdout) == ["made", *["renewed"] * 3]
    assert (tmp_path / "certs/ca.crt").read_bytes() != before
    assert words(pratique("certs", "certs").stdout) == ["kept"] * 4


def test_a_certificate_is_renewed_after_two_thirds_of_its_lifetime(
    pratique: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "certs"
    with monkeypatch.context() as then:
        then.setattr(certificate_authority, "_now", lambda: dt.datetime.now(dt.UTC) - dt.timedelta(days=70))
        authority = certificate_authority.issue_authority()
        wanted = certificate_authority.CertificateSpec("one", (), serves=False)
        young, old = (certificate_authority.issue(authority, wanted, days) for days in (120, 100))
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "ca.key").write_bytes(authority.key_pem)
    for issued, expected in ((young, "kept"), (old, "renewed")):
        (folder / "one").mkdir(exist_ok=True)
        (folder / "one/tls.crt").write_bytes(issued.certificate_pem)
        (folder / "one/tls.key").write_bytes(issued.key_pem)
        assert words(pratique("certs", "certs", "--client", "one").stdout)[-1] == expected


def test_renewing_the_authority_keeps_its_certificates_valid(
    pratique: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    with monkeypatch.context() as then:
        then.setattr(certificate_authority, "_now", lambda: dt.datetime.now(dt.UTC) - dt.timedelta(days=2500))
        authority = certificate_authority.issue_authority()
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "ca.key").write_bytes(authority.key_pem)
    signed = certificate_authority.issue(
        authority, certificate_authority.CertificateSpec("one", (), serves=False), 300
    )
    (folder / "one").mkdir()
    (folder / "one/tls.crt").write_bytes(signed.certificate_pem)
    (folder / "one/tls.key").write_bytes(signed.key_pem)
    output = words(pratique("certs", "certs", "--client", "one").stdout)
    assert (output[0], output[-1]) == ("renewed", "kept")
    renewed = certificate(folder / "ca.crt")
    assert renewed.not_valid_after_utc > authority.certificate.not_valid_after_utc
    assert certificate_authority.is_signed_by(signed.certificate, renewed)


def test_an_authority_made_elsewhere_is_used(pratique: Program, tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "certs").mkdir()
    authority.cert_pem.write_to_path(tmp_path / "certs/ca.crt")
    authority.private_key_pem.write_to_path(tmp_path / "certs/ca.key")
    output = words(pratique("certs", "certs").stdout)
    assert output[1:] == ["made"] * 3
    own = certificate(tmp_path / "certs/ca.crt")
    assert certificate_authority.is_signed_by(certificate(tmp_path / "certs/mutator/tls.crt"), own)


def test_certificates_do_not_outlive_their_authority(pratique: Program, tmp_path: Path) -> None:
    ran = pratique("certs", "certs", "--days", "3650")
    assert ran.returncode == 0
    ends = [certificate(path).not_valid_after_utc for path in (tmp_path / "certs").rglob("*.crt")]
    assert max(ends) == certificate(tmp_path / "certs/ca.crt").not_valid_after_utc


def test_secrets_hold_the_certificates_but_not_the_authoritys_key(pratique: Program, tmp_path: Path) -> None:
    ran = pratique("certs", "certs", "-o", "yaml", "--namespace", "sys", "--client", "system:api")
    assert words(ran.stderr) == ["made"] * 5
    secrets = list(yaml.safe_load_all(ran.stdout))
    bundle = base64.b64encode((tmp_path / "certs/ca.crt").read_bytes()).decode()
    assert f"# caBundle: {bundle}\n" in ran.stdout
    assert [secret["metadata"] for secret in secrets] == [
        {"name": f"pratique-{name}-tls", "namespace": "sys"} for name in (*NAMES, "system-api")
    ]
    for item, name in zip(secrets, (*NAMES, "system:api"), strict=True):
        assert (item["kind"], item["type"]) == ("Secret", "kubernetes.io/tls")
        for file, content in item["data"].items():
            assert base64.b64decode(content) == (tmp_path / "certs" / name / file).read_bytes()
    assert base64.b64encode((tmp_path / "certs/ca.key").read_bytes()).decode() not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host", "no host"], "--host no host: expected a DNS name or an IP address"),
        (["--host", "-x.example.com"], "--host -x.example.com: expected a DNS name or an IP address"),
        (["--host", "a..b"], "--host a..b: expected a DNS name or an IP address"),
        (["--service", "Upper"], "--service Upper: expected lower case letters"),
        (["--namespace", ""], "--namespace : expected lower case letters"),
        (["--client", "../up"], "--client ../up: expected at most 63 letters"),
        (["--client", "mutator"], "--client mutator: expected at most 63 letters"),
        (["--days", "0"], "'0' is not a whole number from 1 to 3650"),
    ],
)
def test_invalid_names_and_clients_are_reported(
    pratique: Program, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    ran = pratique("certs", "certs", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (
            lambda folder: (folder / "ca.key").unlink(),
            "certs/ca.key: does not exist, but ca.crt does: restore it",
        ),
        (
            lambda folder: (folder / "ca.crt").unlink(),
            "certs/ca.crt: does not exist, but ca.key does: restore it",
        ),
        (
            lambda folder: (folder / "ca.crt").write_text("x"),
            "cannot be read as a certificate and its unencrypted",
        ),
        (
            lambda folder: trustme.CA().private_key_pem.write_to_path(folder / "ca.key"),
            "cannot be read as a certificate and its unencrypted",
        ),
        (
            lambda folder: [
                (folder / f"mutator/tls.{end}").rename(folder / f"ca.{end}") for end in ("crt", "key")
            ],
            "certs/ca.crt: is not a CA certificate",
        ),
    ],
)
def test_an_unusable_authority_is_reported_and_left_unchanged(
    pratique: Program, tmp_path: Path, spoil: Callable[[Path], object], complaint: str
) -> None:
    pratique("certs", "certs")
    spoil(tmp_path / "certs")
    before = {path: path.read_bytes() for path in (tmp_path / "certs").rglob("*.*")}
    ran = pratique("certs", "certs")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert {path: path.read_bytes() for path in before} == before


def test_a_file_in_place_of_the_folder_is_reported(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "certs").write_text("")
    ran = pratique("certs", "certs")
    assert ran.returncode == 2
    assert "certs" in ran.stderr
    assert "Traceback" not in ran.stderr


WEBHOOKS = """\
# ours, and somebody else's
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: all}
webhooks:
- name: a.example.com  # waits for a bundle
  clientConfig:
    service: {namespace: pratique, name: pratique}
- name: b.example.com
  clientConfig: {"service": {"namespace": "pratique", "name": "pratique"}}
- name: c.example.com
  clientConfig: {url: "https://c.example.com", caBundle: OURS}
- name: d.example.com
  clientConfig: {url: "https://d.example.com"}
- name: e.example.com
  clientConfig: {url: "https://e.example.com", caBundle: THEIRS}
"""


@pytest.fixture(name="folder")
def _folder(pratique: Program, tmp_path: Path) -> Path:
    pratique("certs", "certs", "--client", "kube-apiserver", "--host", "door.example.com", "--days", "60")
    return tmp_path / "certs"


def days_later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    monkeypatch.setattr(certificate_authority, "_now", lambda: now)


def authorities(folder: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates((folder / "ca.crt").read_bytes())


@pytest.mark.parametrize(
    ("days", "flags", "what"),
    [
        (39, [], "kept"),
        (41, [], "renewed"),
        (29, ["--before", "720h"], "kept"),
        (31, ["--before", "720h"], "renewed"),
        (41, ["--before", "24h"], "kept"),
    ],
)
def test_certificates_are_renewed_in_time(
    pratique: Program,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    days: float,
    flags: list[str],
    *,
    what: str,
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    days_later(monkeypatch, days)
    ran = pratique("certs", "renew", "certs", *flags)
    assert (ran.returncode, words(ran.stdout)) == (0, ["kept", *[what] * 4])
    assert ({path: path.read_bytes() for path in before} == before) is (what == "kept")


@pytest.mark.parametrize("flags", [[], ["--keep-keys"]])
def test_a_renewed_certificate_has_the_names_the_use_and_the_lifetime_of_the_one_before(
    pratique: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    paths = [folder / name / "tls.crt" for name in (*NAMES, "kube-apiserver")]
    before = [certificate(path) for path in paths]
    days_later(monkeypatch, 50)
    pratique("certs", "renew", "certs", *flags)
    for old, path in zip(before, paths, strict=True):
        new = certificate(path)
        assert new.not_valid_after_utc - old.not_valid_after_utc >= dt.timedelta(days=49)
        spec = certificate_authority.CertificateSpec.of
        assert spec(new) == spec(old)
        assert (new.public_key() == old.public_key()) is bool(flags)
        assert read_key_pair(KeyPairFiles(path, path.with_suffix(".key"), "", "")).chain == path.read_bytes()
    assert {stat.S_IMODE(key.stat().st_mode) for key in folder.rglob("*.key")} == {0o600}


def test_an_authority_gives_way_to_another_in_three_steps(pratique: Program, folder: Path) -> None:
    old, (serving,) = certificate(folder / "ca.crt"), [certificate(folder / "frontdoor/tls.crt")]
    steps = [pratique("certs", "renew", "certs", "--rotate-authority").stdout.splitlines()[-2:]]
    new = next(found for found in authorities(folder) if found != old)
    assert authorities(folder / "mutator") == [old, new]
    assert certificate(folder / "frontdoor/tls.crt") == serving
    steps.append(pratique("certs", "renew", "certs", "--rotate-authority").stdout.splitlines()[-2:])
    assert set(authorities(folder / "validator")) == {old, new}
    for path in folder.glob("*/tls.crt"):
        assert certificate_authority.is_signed_by(certificate(path), new)
    assert words(pratique("certs", "certs", "--host", "door.example.com").stdout) == ["kept"] * 4
    assert "--rotate-authority takes the next step" in pratique("certs", "renew", "certs").stdout
    steps.append(pratique("certs", "renew", "certs", "--rotate-authority").stdout.splitlines()[-1:])
    assert authorities(folder) == authorities(folder / "frontdoor") == [new]
    assert [lines[0].split(":")[0] for lines in steps] == [f"step {number} of 3" for number in (1, 2, 3)]
    assert not (folder / "ca-next.key").exists()


def test_a_rotation_that_stopped_goes_on(pratique: Program, folder: Path) -> None:
    pratique("certs", "renew", "certs", "--rotate-authority")
    next_key = (folder / "ca-next.key").read_bytes()
    pratique("certs", "renew", "certs", "--rotate-authority")
    old_key = (folder / "ca.key").read_bytes()
    assert old_key == next_key
    # as if the last step had stopped before it put the new key in place
    (folder / "ca-next.key").write_bytes(next_key)
    ran = pratique("certs", "renew", "certs", "--rotate-authority")
    assert "step 2 of 3" in ran.stdout
    assert words(ran.stdout)[1:5] == ["kept"] * 4
    assert len(authorities(folder)) == 2


def test_the_bundle_is_written_into_webhooks_that_trust_the_authority(
    pratique: Program, folder: Path, tmp_path: Path
) -> None:
    ours = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    theirs = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    file = tmp_path / "webhooks.yaml"
    file.write_text(WEBHOOKS.replace("OURS", ours).replace("THEIRS", theirs))
    ran = pratique("certs", "renew", "certs", "--rotate-authority", "--webhooks", "webhooks.yaml")
    assert "updated  webhooks.yaml, caBundle of 3 of 5 webhooks\n" in ran.stdout
    both = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    text = file.read_text()
    found = [webhook["clientConfig"].get("caBundle") for webhook in yaml.safe_load(text)["webhooks"]]
    assert found == [both, both, both, None, theirs]
    assert text.startswith("# ours, and somebody else's\n")
    assert "- name: a.example.com  # waits for a bundle\n" in text
    again = pratique("certs", "renew", "certs", "--webhooks", "webhooks.yaml")
    assert "kept     webhooks.yaml, caBundle of 3 of 5 webhooks\n" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "Path 'nowhere' does not exist"),
        (["."], "holds no ca.crt and ca.key; pratique certs makes them"),
        (
            ["certs", "--before", "1441h"],
            "certs/frontdoor/tls.crt lasts 60 days, so every run would renew it",
        ),
        (["certs", "--before", "soon"], "write 500ms, 10s or 1m30s"),
        (["certs", "--rotate-authority", "--webhooks", "bad.yaml"], "is not YAML"),
        (["certs", "--webhooks", "pod.yaml"], "no webhook trusts an authority of the folder"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_renewed_is_told(
    pratique: Program, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\n")
    (tmp_path / "bad.yaml").write_text("webhooks: [")
    ran = pratique("certs", "renew", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert not (tmp_path / "certs" / "ca-next.key").exists()


def test_a_broken_pair_stops_the_renewal_before_anything_is_written(
    pratique: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "validator/tls.key").write_text("broken")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    days_later(monkeypatch, 50)
    ran = pratique("certs", "renew", "certs")
    assert ran.returncode == 2
    assert "validator: tls.crt and tls.key are no certificate and its unencrypted key in PEM" in ran.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


@pytest.mark.parametrize(
    "arguments", [("certs",), ("renew", "certs"), ("renew", "certs", "--rotate-authority")]
)
def test_two_runs_do_not_write_to_a_folder_at_a_time(
    pratique: Program, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    pratique("certs", "certs")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with certificate_authority.locked(tmp_path / "certs"):
        ran = pratique("certs", *arguments)
        assert ran.returncode == 2
        assert "certs: another run writes to it" in ran.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    assert pratique("certs", *arguments).returncode == 0
