"""Certificates change in every way that files can, and no caller notices."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import trustme

from pratique_frontdoor.settings import FrontDoorSettings
from support.certificate_mounts import WAYS, Mount, Rotation, Step, bundle_of
from support.front_doors.engines import AllowingEngine
from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, Door, exchange, open_door
from support.steady_loads import steady_load
from support.waiting import within

SECONDS = 10  # in which a new certificate has to be shown
HOST = "127.0.0.1"


@pytest.fixture(name="authorities", scope="module")
def _authorities() -> tuple[trustme.CA, trustme.CA]:
    return trustme.CA(), trustme.CA()


@pytest.fixture(name="mount")
def _mount(tmp_path: Path, authorities: tuple[trustme.CA, trustme.CA]) -> Mount:
    return Mount.of(tmp_path / "tls", authorities[0].issue_cert(HOST), *authorities)


@pytest.fixture(name="door")
def _door(mount: Mount) -> Iterator[Door]:
    settings = FrontDoorSettings(tls_cert_file=mount.certificate, tls_private_key_file=mount.key)
    with open_door(AllowingEngine(), settings, trusting(mount.authorities)) as door:
        yield door


def trusting(bundle: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=bundle)


def shown(door: Door) -> str:
    """The serial number of the certificate that a new connection is shown."""
    assert door.tls is not None
    with door.socket() as plain, door.tls.wrap_socket(plain, server_hostname=HOST) as connection:
        certificate = connection.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def failed_reload(door: Door) -> bool:
    line = 'pratique_certificate_reload_failed{certificate="serving-certificate"}'
    [value] = [item.split()[-1] for item in door.get("/metrics").text.splitlines() if item.startswith(line)]
    return float(value) == 1


def code(connection: HTTPConnection) -> int:
    """That of the answer to a review."""
    return exchange(connection, "POST", "/validate", review_body(), JSON_TYPE).code


def review(door: Door) -> None:
    answer = door.post("/validate")
    assert answer.json["response"]["allowed"], answer.code


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_new_serving_certificate_fails_no_request(
    way: Callable[[Rotation], Iterator[Step]],
    mount: Mount,
    door: Door,
    authorities: tuple[trustme.CA, trustme.CA],
) -> None:
    signing = authorities[way is Rotation.of_another_authority]
    rotation = Rotation(mount, signing.issue_cert(HOST))
    before = shown(door)
    with steady_load(lambda: review(door)) as load:
        for step in way(rotation):
            step.change()
            if step.usable:
                assert within(SECONDS, lambda: shown(door) != before)
            else:
                assert within(SECONDS, lambda: failed_reload(door))
                assert shown(door) == before
        assert within(SECONDS, lambda: not failed_reload(door))
        answered = load.answered
        assert within(SECONDS, lambda: load.answered >= answered + 25)


def test_metrics_show_when_the_certificate_expires(door: Door) -> None:
    [line] = [
        item for item in door.get("/metrics").text.splitlines() if item.startswith("pratique_certificate_exp")
    ]
    assert door.tls is not None
    with door.socket() as plain, door.tls.wrap_socket(plain, server_hostname=HOST) as connection:
        certificate = connection.getpeercert()
    assert certificate is not None
    assert float(line.split()[-1]) == ssl.cert_time_to_seconds(str(certificate["notAfter"]))


def test_after_the_client_authorities_change_the_old_ones_are_refused(
    tmp_path: Path, authorities: tuple[trustme.CA, trustme.CA]
) -> None:
    old, new = authorities
    mount = Mount.of(tmp_path / "tls", new.issue_cert(HOST), old, new)
    context = trusting(mount.authorities)
    old.issue_cert("client.example.com").configure_cert(context)
    settings = FrontDoorSettings(
        tls_cert_file=mount.certificate, tls_private_key_file=mount.key, client_ca_file=mount.authorities
    )
    with open_door(AllowingEngine(), settings, context) as door:
        connection = door.connect()
        assert code(connection) == 200
        mount.swap({"ca.crt": bundle_of(new)})
        # On the connection that was open already: a handshake has nothing to do with it any more.
        assert within(SECONDS, lambda: code(connection) == 401)
        connection.close()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            door.post("/validate")


def test_an_expiring_certificate_is_a_warning_and_the_front_door_stays_ready(
    tmp_path: Path, authorities: tuple[trustme.CA, trustme.CA]
) -> None:
    end = (dt.datetime.now(dt.UTC) + dt.timedelta(days=3)).replace(microsecond=0)
    mount = Mount.of(tmp_path / "tls", authorities[0].issue_cert(HOST, not_after=end), authorities[0])
    settings = FrontDoorSettings(tls_cert_file=mount.certificate, tls_private_key_file=mount.key)
    with open_door(AllowingEngine(), settings, trusting(mount.authorities)) as door:
        assert door.get("/readyz").code == 200
        ready = door.get("/readyz?verbose")
        warning = f"[+]certificates ok, but: serving certificate ends {end:%Y-%m-%dT%H:%M:%SZ}\n"
        assert (ready.code, warning in ready.text) == (200, True)
        rotation = Rotation(mount, authorities[0].issue_cert(HOST))
        for step in rotation.in_place():
            step.change()
        assert within(SECONDS, lambda: "[+]certificates ok\n" in door.get("/readyz?verbose").text)
