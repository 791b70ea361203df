from __future__ import annotations

import asyncio
import dataclasses
import socket
from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique_frontdoor.serve import announce, serve
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.running import open_door


def test_an_address_in_use_is_named_and_the_engine_is_closed() -> None:
    engine = AllowingEngine()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=rf"^--host 127\.0\.0\.1, --port {port}: cannot listen there: "
        ):
            asyncio.run(serve(FrontDoorSettings(port=port), engine))
    assert engine.closed


def test_a_foreign_address_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^--host 192\.0\.2\.1, --port 0: cannot listen there: "):
        asyncio.run(serve(FrontDoorSettings(host="192.0.2.1", port=0), AllowingEngine()))


def test_a_missing_certificate_is_found_before_listening(tmp_path: Path) -> None:
    engine = AllowingEngine()
    settings = FrontDoorSettings(tls_cert_file=tmp_path / "a", tls_private_key_file=tmp_path / "b")
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        asyncio.run(serve(settings, engine))
    assert engine.closed


def test_the_ready_line_names_the_url(capsys: pytest.CaptureFixture[str]) -> None:
    announce("http://127.0.0.1:8080")
    assert capsys.readouterr().out == "pratique: frontdoor ready on http://127.0.0.1:8080\n"


def test_ipv6_addresses_are_in_brackets() -> None:
    with open_door(AllowingEngine(), FrontDoorSettings(host="::1")) as door:
        assert door.url.startswith("http://[::1]:")


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FrontDoorSettings().port = 1  # type: ignore[misc] # that is what is tested
