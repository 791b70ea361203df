"""The whole stack over mutual TLS, with the certificates that ``pratique certs`` makes."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from pratique.admission.reviews import Call
from pratique.admission.v1.validator_service_pb2_grpc import ValidatorServiceStub
from pratique.apimachinery.json_values import MIN_PROVED_BYTES
from pratique.rpc.check_digests import CheckDigests
from pratique.rpc.messages import validate_request
from pratique_cli.certificate_authority import CertificateSpec, IssuedCertificate, TrustedAuthorities, issue
from support import forked_commands
from support.forked_commands import ForkedCommand
from support.services.reviews import review_of
from support.steady_loads import steady_load
from support.waiting import within

REVIEW = (Path(__file__).parents[2] / "bench" / "review.json").read_bytes()
SECONDS = 10  # in which a new certificate has to be shown
CHAIN = ("--disable-admission-plugins", "ServiceAccount")  # the reviewed Pod's account is in no cluster
_READY = re.compile(r"pratique: \w+ ready on (?:https://)?127\.0\.0\.1:(\d+)\n")


@contextlib.contextmanager
def serve(service: str, *flags: str) -> Iterator[int]:
    """Run a service until the block ends; gives its port."""
    command = [
        sys.executable,
        "-m",
        "pratique_cli",
        "serve",
        service,
        "--port",
        "0",
        "--drain-seconds",
        "0",
        *CHAIN,
        *flags,
    ]
    with ForkedCommand(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = _READY.match(process.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)


def make_certificates(folder: Path, *flags: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pratique_cli",
        "certs",
        str(folder),
        "--client",
        "kube-apiserver",
        *flags,
    ]
    assert forked_commands.run(command).returncode == 0


def renew(folder: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "pratique_cli", "certs", "renew", str(folder), *flags]
    assert forked_commands.run(command).returncode == 0


def serving(folder: Path, name: str, caller: str) -> list[str]:
    """The flags of a service that shows its certificate and lets one caller in."""
    own = folder / name
    return [
        *("--tls-cert-file", str(own / "tls.crt"), "--tls-private-key-file", str(own / "tls.key")),
        *("--client-ca-file", str(own / "ca.crt"), "--client-allowed-names", caller),
    ]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "certs"
    make_certificates(folder)
    return folder


@pytest.fixture(name="ports", scope="module")
def _ports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int, int]]:
    """Those of the front door, the mutator and a validator."""
    own = folder / "frontdoor"
    ledger = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/quotas.sqlite"
    with (
        serve("mutator", *serving(folder, "mutator", "frontdoor")) as mutator,
        serve(
            "validator", *serving(folder, "validator", "frontdoor"), "--resource-quota-ledger", ledger
        ) as validator,
        serve(
            "frontdoor",
            *serving(folder, "frontdoor", "kube-apiserver"),
            *("--services-ca-file", str(own / "ca.crt")),
            *(
                "--services-cert-file",
                str(own / "tls.crt"),
                "--services-private-key-file",
                str(own / "tls.key"),
            ),
            *("--mutator", f"127.0.0.1:{mutator}", "--validator", f"127.0.0.1:{validator}"),
            *("--validator-server-name", "pratique-validator.default.svc"),
        ) as door,
    ):
        yield door, mutator, validator


def context(folder: Path, client: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=folder / "ca.crt")
    if client is not None:
        made.load_cert_chain(folder / client / "tls.crt", folder / client / "tls.key")
    return made


def ask(port: int, tls: ssl.SSLContext, method: str = "POST", path: str = "/admit") -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=tls)
    with contextlib.closing(connection):
        body, headers = (REVIEW, {"Content-Type": "application/json"}) if method == "POST" else (None, {})
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def shown(port: int, tls: ssl.SSLContext) -> bytes | None:
    """The certificate that a new connection is shown, over HTTP/2 or not."""
    tls.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=120) as plain,
        tls.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True)


def is_other(port: int, tls: ssl.SSLContext, old: bytes | None) -> bool:
    return shown(port, tls) != old


def test_the_api_server_is_answered_over_mutual_tls_on_every_hop(
    ports: tuple[int, int, int], folder: Path
) -> None:
    code, body = ask(ports[0], context(folder, "kube-apiserver"))
    assert (code, json.loads(body)["response"]["allowed"]) == (200, True)
    assert ask(ports[0], context(folder), "GET", "/readyz")[0] == 200


def test_other_callers_are_refused(ports: tuple[int, int, int], folder: Path) -> None:
    assert ask(ports[0], context(folder))[0] == 401
    assert ask(ports[0], context(folder, "mutator"))[0] == 403


def test_no_review_fails_while_all_certificates_are_renewed_under_load(
    ports: tuple[int, int, int], folder: Path
) -> None:
    tls, calling = context(folder, "kube-apiserver"), context(folder, "frontdoor")
    contexts = (tls, calling, calling)
    before = [shown(port, item) for port, item in zip(ports, contexts, strict=True)]
    asking = context(folder, "kube-apiserver")

    def review() -> None:
        code, body = ask(ports[0], asking)
        assert (code, json.loads(body)["response"]["allowed"]) == (200, True), body

    with steady_load(review) as load:
        make_certificates(folder, "--host", "renewed.example.com")
        for port, item, old in zip(ports, contexts, before, strict=True):
            assert within(SECONDS, functools.partial(is_other, port, item, old))
        answered = load.answered
        assert within(SECONDS, lambda: load.answered >= answered + 25)


def trusts_both(port: int, folder: Path, end: float) -> bool:
    """Whether the front door trusts authorities that last until ``end``, as callers and as services."""
    text = ask(port, context(folder, "kube-apiserver"), "GET", "/metrics")[1].decode()
    ends = dict(re.findall(r'expiration_timestamp_seconds{certificate="([a-z-]+)"} (\S+)', text))
    return {float(ends[name]) for name in ("client-authorities", "services-authorities")} == {end}


def lets_in(port: int, folder: Path, caller: IssuedCertificate) -> bool:
    """Whether a gRPC service lets in a caller with a certificate of an authority that is to come."""
    credentials = grpc.ssl_channel_credentials(
        (folder / "ca.crt").read_bytes(), caller.key_pem, caller.certificate_pem
    )
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        try:
            return bool(HealthStub(channel).Check(HealthCheckRequest(), timeout=60))
        except grpc.RpcError:
            return False


def test_no_review_fails_while_another_authority_takes_over(
    ports: tuple[int, int, int], folder: Path
) -> None:
    door, *services = ports
    asking = [context(folder, "kube-apiserver")]

    def review() -> None:
        code, body = ask(door, asking[0])
        assert (code, json.loads(body)["response"]["allowed"]) == (200, True), body

    with steady_load(review) as load:
        renew(folder, "--rotate-authority")
        asking[0] = context(folder, "kube-apiserver")
        pem = (folder / "ca.crt").read_bytes()
        following = TrustedAuthorities.read(pem, (folder / "ca-next.key").read_bytes()).signer
        end = following.certificate.not_valid_after_utc.timestamp()
        caller = issue(following, CertificateSpec("frontdoor", (), serves=False), 1)
        assert within(SECONDS, lambda: trusts_both(door, folder, end))
        for port in services:
            assert within(SECONDS, functools.partial(lets_in, port, folder, caller))
        contexts = [context(folder, "kube-apiserver"), *[context(folder, "frontdoor")] * 2]
        before = [shown(port, item) for port, item in zip(ports, contexts, strict=True)]
        renew(folder, "--rotate-authority")
        asking[0] = context(folder, "kube-apiserver")
        for port, item, old in zip(ports, contexts, before, strict=True):
            assert within(SECONDS, functools.partial(is_other, port, item, old))
        # the certificate that the front door shows its services is loaded with the one that it serves
        renew(folder, "--rotate-authority")
        answered = load.answered
        assert within(SECONDS, lambda: load.answered >= answered + 25)
    assert ask(door, context(folder, "kube-apiserver"))[0] == 200


@pytest.mark.parametrize("proves", [True, False])
def test_a_service_believes_what_an_allowed_client_has_checked(
    folder: Path, ports: tuple[int, int, int], *, proves: bool
) -> None:
    own = folder / "frontdoor"
    twice = b'{"a":1,"a":2,"x":"' + b"x" * MIN_PROVED_BYTES + b'"}'
    request = validate_request(review_of(twice), [Call("NamespaceLifecycle")])
    request.review.checks.object = CheckDigests().digest(twice if proves else twice[:-1])
    credentials = grpc.ssl_channel_credentials(
        *((own / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    )
    options = (("grpc.ssl_target_name_override", "pratique-validator.default.svc"),)
    with grpc.secure_channel(f"127.0.0.1:{ports[2]}", credentials, options) as channel:
        validate = ValidatorServiceStub(channel).Validate
        if proves:
            assert len(validate(request, timeout=10).verdicts) == 1
        else:
            with pytest.raises(grpc.RpcError, match="holds a member twice"):
                validate(request, timeout=10)
