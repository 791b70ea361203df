"""Authentication by certificate, bearer token, or user and password; any of them is enough."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import functools
import http.client
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from pratique_frontdoor.settings import FrontDoorSettings
from support.certificate_mounts import Mount, bundle_of
from support.front_doors.engines import AllowingEngine
from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, Answer, Door, exchange, open_door
from support.waiting import within

TOKEN, OTHER_TOKEN = "0123456789abcdef-canary", "second.canary~token"
PASSWORD = "correct horse: canary"
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


@pytest.fixture(name="authority", scope="module")
def _authority() -> trustme.CA:
    # Its long name makes a certificate that it signs longer than one that an authority below it signs.
    return trustme.CA(organization_name="o" * 1000)


def settings_in(folder: Path, authority: trustme.CA) -> FrontDoorSettings:
    """All three ways, and TLS."""
    mount = Mount.of(folder / "tls", authority.issue_cert("127.0.0.1"), authority)
    tokens, logins = folder / "tokens", folder / "logins"
    tokens.write_text(f"{TOKEN}\n{OTHER_TOKEN}\n")
    logins.write_text(f"apiserver:{PASSWORD}\n")
    return FrontDoorSettings(
        tls_cert_file=mount.certificate,
        tls_private_key_file=mount.key,
        client_ca_file=mount.authorities,
        client_allowed_names=("kube-apiserver", "api.example.com", "spiffe://example.com/api"),
        token_file=tokens,
        basic_auth_file=logins,
    )


@pytest.fixture(name="door", scope="module")
def _door(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[Door]:
    """A front door whose files do not change."""
    settings = settings_in(tmp_path_factory.mktemp("door"), authority)
    with open_door(AllowingEngine(), settings, context(authority)) as door:
        yield door


@pytest.fixture(name="settings")
def _settings(tmp_path: Path, authority: trustme.CA) -> FrontDoorSettings:
    return settings_in(tmp_path, authority)


@pytest.fixture(name="changing")
def _changing(settings: FrontDoorSettings, authority: trustme.CA) -> Iterator[Door]:
    """A front door whose files are those of ``settings``."""
    with open_door(AllowingEngine(), settings, context(authority)) as door:
        yield door


def context(authority: trustme.CA, shown: trustme.LeafCert | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context()
    authority.configure_trust(made)
    if shown is not None:
        shown.configure_cert(made)
    return made


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(door: Door, authorization: str | None = None, path: str = "/validate") -> Answer:
    headers = JSON_TYPE if authorization is None else {**JSON_TYPE, "Authorization": authorization}
    return door.request("POST", path, review_body(), headers)


def presenting(door: Door, authority: trustme.CA, shown: trustme.LeafCert) -> Door:
    return Door(door.url, context(authority, shown))


@pytest.mark.parametrize(
    "named",
    [
        {"common_name": "kube-apiserver", "identities": ["other.example.com"]},
        {"identities": ["other.example.com", "api.example.com"]},
    ],
    ids=["common name", "DNS name"],
)
def test_a_certificate_with_an_allowed_name_is_accepted(
    door: Door, authority: trustme.CA, named: dict[str, Any]
) -> None:
    shown = authority.issue_cert(*named.pop("identities"), **named)
    assert ask(presenting(door, authority, shown)).code == 200


@pytest.mark.parametrize("more_names", [0, 200], ids=["a short certificate", "a long one"])
def test_a_certificate_of_an_intermediate_authority_is_accepted(
    door: Door, authority: trustme.CA, more_names: int
) -> None:
    more = [f"{number}.example.com" for number in range(more_names)]
    shown = authority.create_child_ca().issue_cert("api.example.com", *more)
    assert ask(presenting(door, authority, shown)).code == 200


@pytest.mark.parametrize("name", ["api.example.com.evil", "xapi.example.com", "*.example.com"])
def test_a_certificate_with_a_similar_name_is_forbidden(door: Door, authority: trustme.CA, name: str) -> None:
    answer = ask(presenting(door, authority, authority.issue_cert(name)))
    assert answer.code == 403
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'forbidden: User "{name}" cannot post path "/validate"',
        "reason": "Forbidden",
        "code": 403,
    }


@pytest.mark.parametrize(
    "issued",
    [
        pytest.param(lambda own: trustme.CA().issue_cert("api.example.com"), id="wrong authority"),
        pytest.param(lambda own: own.issue_cert("api.example.com", not_after=NOW - DAY), id="ended"),
        pytest.param(
            lambda own: own.issue_cert("api.example.com", not_before=NOW + DAY, not_after=NOW + 2 * DAY),
            id="not begun",
        ),
    ],
)
def test_an_untrusted_certificate_gets_no_connection(door: Door, authority: trustme.CA, issued: Any) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        ask(presenting(door, authority, issued(authority)))


@pytest.mark.parametrize(
    "authorization",
    [
        f"Bearer {TOKEN}",
        f"bearer {OTHER_TOKEN}",
        f"Bearer   {TOKEN} ",
        basic("apiserver", PASSWORD),
    ],
)
def test_a_token_or_password_is_accepted(door: Door, authorization: str) -> None:
    assert ask(door, authorization).code == 200


def test_a_token_is_accepted_beside_a_certificate_without_an_allowed_name(
    door: Door, authority: trustme.CA
) -> None:
    stranger = presenting(door, authority, authority.issue_cert("stranger.example.com"))
    assert ask(stranger, f"Bearer {TOKEN}").code == 200
    assert ask(stranger, "Bearer wrong").code == 403


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer x{TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {OTHER_TOKEN}",
        f"Bearer {TOKEN}\t{OTHER_TOKEN}",
        f"Basic {TOKEN}",
        f"Token {TOKEN}",
        TOKEN,
        basic("apiserver", PASSWORD + "x"),
        basic("apiserver", PASSWORD[:-1]),
        basic("", PASSWORD),
        basic("other", PASSWORD),
        "Basic !!!",
        "Basic !" + basic("apiserver", PASSWORD).removeprefix("Basic "),
        "Basic " + base64.b64encode(PASSWORD.encode()).decode(),
    ],
)
def test_an_unauthenticated_caller_gets_the_status_of_the_api_server(
    door: Door, authorization: str | None
) -> None:
    answer = ask(door, authorization)
    assert answer.code == 401
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz?verbose", "/healthz", "/version"])
def test_probes_and_the_version_need_no_credentials(door: Door, path: str) -> None:
    assert door.get(path).code == 200


@pytest.mark.parametrize(
    "path", ["/metrics", "/", "/nothing", "/livez/", "//livez", "/livez/../metrics", "/LIVEZ"]
)
def test_all_other_paths_need_credentials(door: Door, path: str) -> None:
    assert door.get(path).code == 401


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/admit", "/explain"])
def test_no_review_is_decided_for_unauthenticated_callers(
    settings: FrontDoorSettings, authority: trustme.CA, path: str
) -> None:
    engine = AllowingEngine()
    with open_door(engine, settings, context(authority)) as door:
        assert ask(door, path=path).code == 401
    assert engine.asked == []


WRONG = {"first": f"x{TOKEN[1:]}", "last": f"{TOKEN[:-1]}x", "length": TOKEN[:4], "all": "x" * len(TOKEN)}


@pytest.mark.parametrize("guesses", [5, pytest.param(2_000, marks=pytest.mark.long)])
def test_a_token_that_is_almost_right_is_refused(door: Door, guesses: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in WRONG}
    with contextlib.closing(door.connect()) as connection:
        for name, token in [*WRONG.items()] * guesses:
            headers = {**JSON_TYPE, "Authorization": f"Bearer {token}"}
            began = time.perf_counter()
            assert exchange(connection, "POST", "/validate", review_body(), headers).code == 401
            seconds[name].append(time.perf_counter() - began)
    medians = {name: f"{statistics.median(item) * 1e6:.0f}" for name, item in seconds.items()}
    print(f"microseconds until a token is refused of which this is wrong: {medians}")  # noqa: T201 - to keep an eye on


def test_refusals_are_counted(changing: Door) -> None:
    ask(changing)
    changing.get("/nothing")
    metrics = changing.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    assert 'pratique_frontdoor_requests_total{code="401",path="/validate"} 1.0' in metrics
    assert 'pratique_frontdoor_requests_total{code="401",path="other"} 1.0' in metrics


PARTLY = "bearer tokens: only the readable part of its files is in use"


def test_a_removed_token_is_refused_even_when_the_file_is_broken(
    changing: Door, settings: FrontDoorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    assert settings.token_file is not None
    settings.token_file.write_text("next-canary\n")
    assert within(60, lambda: ask(changing, "Bearer next-canary").code == 200)
    assert ask(changing, f"Bearer {TOKEN}").code == 401
    settings.token_file.write_text("no canary token\nthird-canary\n")
    assert within(60, lambda: ask(changing, "Bearer third-canary").code == 200)
    assert ask(changing, "Bearer next-canary").code == 401
    assert PARTLY in caplog.messages


def is_refused(door: Door, authorization: str) -> bool:
    return ask(door, authorization).code == 401


def emptied(file: Path) -> None:
    file.write_text("")


def blank(file: Path) -> None:
    file.write_text("\n \n")


def gone(file: Path) -> None:
    file.unlink()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("change", [emptied, blank, gone, a_folder])
def test_an_empty_file_of_secrets_refuses_everybody(
    changing: Door,
    settings: FrontDoorSettings,
    change: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert settings.token_file is not None
    assert settings.basic_auth_file is not None
    for file, given, name in (
        (settings.token_file, f"Bearer {TOKEN}", "bearer-tokens"),
        (settings.basic_auth_file, basic("apiserver", PASSWORD), "users-and-passwords"),
    ):
        assert ask(changing, given).code == 200
        change(file)
        assert within(60, functools.partial(is_refused, changing, given))
        assert f"{name.replace('-', ' ')}: only the readable part of its files is in use" in caplog.messages
    # Certificates still open the door, so that it is ready.
    ready = changing.get("/readyz?verbose")
    assert (ready.code, "but: bearer tokens: only the readable part" in ready.text) == (200, True)


def test_the_front_door_is_not_ready_while_no_caller_can_be_accepted(
    changing: Door, settings: FrontDoorSettings, authority: trustme.CA
) -> None:
    assert settings.token_file is not None
    assert settings.basic_auth_file is not None
    assert settings.client_ca_file is not None
    client = presenting(changing, authority, authority.issue_cert("api.example.com")).connect()
    assert exchange(client, "POST", "/validate", review_body(), JSON_TYPE).code == 200
    for file in (settings.token_file, settings.basic_auth_file, settings.client_ca_file):
        file.unlink()
        file.touch()
    assert within(60, lambda: changing.get("/readyz").code == 503)
    assert changing.get("/readyz").text.count("no caller can be accepted: ") == 3
    # On the connection that was open already.
    assert exchange(client, "POST", "/validate", review_body(), JSON_TYPE).code == 401
    client.close()
    settings.token_file.write_text(f"{TOKEN}\n")
    assert within(60, lambda: ask(changing, f"Bearer {TOKEN}").code == 200)
    assert changing.get("/readyz").code == 200


def test_a_token_file_rewritten_in_place_refuses_no_known_caller(
    changing: Door, settings: FrontDoorSettings
) -> None:
    assert settings.token_file is not None
    for _ in range(5):
        with settings.token_file.open("w") as file:
            assert ask(changing, f"Bearer {TOKEN}").code == 200
            file.write(f"{TOKEN}\n")
        assert ask(changing, f"Bearer {TOKEN}").code == 200


def test_no_secret_is_ever_logged_or_shown(
    changing: Door,
    settings: FrontDoorSettings,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    given = (
        f"Bearer {TOKEN}",
        f"Bearer {TOKEN}-wrong",
        basic("apiserver", PASSWORD),
        basic("a", "wrong canary"),
    )
    answers = [ask(changing, authorization) for authorization in given]
    assert settings.token_file is not None
    settings.token_file.write_text("a canary that is no token\n")
    assert within(60, lambda: PARTLY in caplog.messages)
    answers.append(changing.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}))
    logged_texts = [*(answer.text for answer in answers), *(str(vars(record)) for record in caplog.records)]
    assert not [text for text in (*logged_texts, *capfd.readouterr()) if "canary" in text]


def test_callers_of_a_remaining_authority_are_not_disturbed_when_another_is_removed(
    changing: Door, settings: FrontDoorSettings, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pratique")
    assert settings.client_ca_file is not None
    connection = presenting(changing, authority, authority.issue_cert("api.example.com")).connect()
    assert exchange(connection, "POST", "/validate", review_body(), JSON_TYPE).code == 200
    settings.client_ca_file.write_bytes(bundle_of(trustme.CA(), authority))
    assert within(60, lambda: "client authorities reloaded" in caplog.messages)
    assert exchange(connection, "POST", "/validate", review_body(), JSON_TYPE).code == 200
    connection.close()


def test_without_configured_credentials_everybody_may_call(allowing: Door) -> None:
    assert ask(allowing).code == 200
    assert ask(allowing, "Bearer whatever").code == 200
