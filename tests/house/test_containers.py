from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pratique.configuration.settings import ChainSettings
from pratique.controllers.quota.ledger import parse_ledger_url
from pratique_cli.chain_options import chain_flags

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
HARDENED = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "user": "65532:65532",
}

OURS = {name: service for name, service in SERVICES.items() if name != "ledger"}

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def test_the_stack_is_the_three_services_and_the_ledger_of_quotas() -> None:
    assert OURS.keys() == {"frontdoor", "mutator", "validator"}
    assert SERVICES.keys() == {*OURS, "ledger"}


@each_service
@pytest.mark.parametrize(("key", "value"), HARDENED.items())
def test_a_container_is_hardened(service: dict[str, Any], key: str, value: object) -> None:
    # the ledger's image is somebody else's, with a user of its own
    assert service[key] == ("postgres" if (key, service) == ("user", SERVICES["ledger"]) else value)


@each_service
def test_a_container_has_its_limits(service: dict[str, Any]) -> None:
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}


@each_service
def test_a_container_is_asked_for_its_health_without_a_shell(service: dict[str, Any]) -> None:
    assert service["healthcheck"]["test"][0] == "CMD"


@each_service
def test_a_container_has_time_to_finish_what_it_answers(service: dict[str, Any]) -> None:
    assert int(service["stop_grace_period"].removesuffix("s")) >= 40


def test_what_is_mounted_is_mounted_read_only_but_for_what_the_ledger_keeps() -> None:
    assert all(volume["read_only"] for service in OURS.values() for volume in service["volumes"])
    assert SERVICES["ledger"]["volumes"] == ["ledger:/var/lib/postgresql/data"]
    assert "ledger" in COMPOSE["volumes"]


def test_a_mistyped_path_on_the_host_becomes_no_empty_folder() -> None:
    mounts = [volume["bind"] for service in OURS.values() for volume in service["volumes"]]
    assert mounts == [{"create_host_path": False}] * 4 * len(OURS)


def test_every_chain_flag_comes_from_the_variable_of_its_name() -> None:
    @click.command
    @chain_flags
    def command(chain: ChainSettings) -> None:
        """Take the flags."""

    given = {flag.envvar for flag in command.params} - {"PRATIQUE_RESOURCE_QUOTA_LEDGER"}
    assert all(service["environment"].keys() >= given for service in OURS.values())


def test_all_validators_charge_one_ledger_and_wait_for_it() -> None:
    validator, ledger = SERVICES["validator"], SERVICES["ledger"]
    url = validator["environment"]["PRATIQUE_RESOURCE_QUOTA_LEDGER"]
    [default] = re.findall(r"^\$\{PRATIQUE_RESOURCE_QUOTA_LEDGER:-(.*)\}$", url)
    user, database = ledger["environment"]["POSTGRES_USER"], ledger["environment"]["POSTGRES_DB"]
    assert parse_ledger_url(default).display_url == f"postgresql://{user}@ledger/{database}"
    assert validator["environment"]["PGPASSWORD"] == ledger["environment"]["POSTGRES_PASSWORD"]
    assert validator["depends_on"]["ledger"]["condition"] == "service_healthy"
    assert validator["environment"].items() >= SERVICES["mutator"]["environment"].items()


def test_the_ledger_can_be_reached_by_validators_alone() -> None:
    assert SERVICES["ledger"]["networks"] == ["charges"]
    assert {name for name, service in OURS.items() if "charges" in service["networks"]} == {"validator"}
    assert "ports" not in SERVICES["ledger"]


def test_validators_can_be_scaled() -> None:
    assert not SERVICES["validator"].keys() & {"ports", "container_name"}
    assert any("dns:///validator:" in word for word in SERVICES["frontdoor"]["command"])


def test_only_the_front_door_can_be_reached_from_outside() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"frontdoor"}
    assert {name for name, service in SERVICES.items() if "outside" in service["networks"]} == {"frontdoor"}


@pytest.mark.parametrize("name", ["inside", "charges"])
def test_no_way_leads_out_of_a_network_nor_to_the_host(name: str) -> None:
    assert COMPOSE["networks"][name] == {
        "internal": True,
        "driver_opts": {"com.docker.network.bridge.inhibit_ipv4": "true"},
    }


def test_the_front_door_waits_for_the_services_that_it_asks() -> None:
    waits = SERVICES["frontdoor"]["depends_on"]
    assert {name: wait["condition"] for name, wait in waits.items()} == {
        "mutator": "service_healthy",
        "validator": "service_healthy",
    }


def test_the_image_runs_as_nobody_on_a_base_of_choice() -> None:
    text = (ROOT / "Dockerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^ARG BASE_IMAGE=", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert "\nUSER 65532:65532\n" in last
    assert '\nENTRYPOINT ["pratique"]\n' in last


def test_the_image_is_made_of_what_was_locked() -> None:
    installs = re.findall(r"install [^&\n]*", (ROOT / "Dockerfile").read_text())
    assert len(installs) == 3
    assert all("--require-hashes" in install or "--no-deps --no-index" in install for install in installs)


def test_the_build_sees_only_what_the_image_is_made_of() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    assert "services/pratique/admission/v1/" in lines


def test_the_front_door_is_published_to_this_machine_alone_unless_somebody_asks_for_more() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published == ["${PUBLISH_ADDRESS:-127.0.0.1}:${PORT:-8080}:8080"]


def test_all_services_of_compose_are_given_the_same_chain() -> None:
    """They ask nobody who decides by another one; where charges are kept is the validators' own matter."""
    own = {"PRATIQUE_RESOURCE_QUOTA_LEDGER", "PGPASSWORD"}
    services = [COMPOSE["services"][name] for name in ("frontdoor", "mutator", "validator")]
    first, *others = [
        (
            {name: value for name, value in one["environment"].items() if name not in own},
            one["volumes"],
            one["image"],
        )
        for one in services
    ]
    assert first[0]["PRATIQUE_CONFIG"]
    assert all(one == first for one in others)
