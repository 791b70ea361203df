"""``pratique verify``: our own services keep the contract, and every check can fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import grpc
import pytest

from pratique_cli.conformance.server_checks import (
    METHODS,
    SERVER_CHECKS,
    CheckOutcome,
    CheckResult,
    all_check_names,
    checks_of,
    run_checks,
)
from pratique_cli.conformance.service_calls import MESSAGE_LIMIT, MUTATE, VALIDATE, Method, TestedService
from support.services.nonconforming_services import NAME, served
from support.services.processes import running

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

PROTO = Path(__file__).parents[2] / "proto/pratique/admission/v1"
ADVICE = {"health", "reflection", "settles"}
FAULTS = [
    (method, check.name)
    for method in METHODS.values()
    for check in (*(SERVER_CHECKS if method is MUTATE else ()), *checks_of(method))
]


def results_of(address: str, method: Method, *only: str) -> list[CheckResult]:
    sizes = [
        ("grpc.max_send_message_length", MESSAGE_LIMIT),
        ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ]
    with grpc.insecure_channel(address, sizes) as channel:
        return list(run_checks(TestedService(channel, 3.0), [method], only))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_service_without_faults_passes_every_check(method: Method) -> None:
    with served(method) as address:
        results = results_of(address, method)
    assert {result.check for result in results if result.outcome is CheckOutcome.KEPT} == {
        check.name for check in (*SERVER_CHECKS, *checks_of(method))
    }


@pytest.mark.parametrize(("method", "fault"), FAULTS, ids=lambda value: getattr(value, "service", value))
def test_each_check_finds_its_fault(method: Method, fault: str) -> None:
    with served(method, fault) as address:
        [result] = results_of(address, method, fault)
    assert result.outcome is (CheckOutcome.ADVISED if fault in ADVICE else CheckOutcome.BROKEN)
    assert result.seen
    assert "verify-marker" not in result.seen


def test_every_rule_is_a_place_in_the_contract_or_a_page() -> None:
    checks = [
        (method, check) for method in METHODS.values() for check in (*SERVER_CHECKS, *checks_of(method))
    ]
    for method, check in checks:
        file, _, place = check.rule.format(rules=method.rules, name=method.name).partition(": ")
        if not place:
            assert (PROTO.parents[3] / file).exists()
            continue
        text = (PROTO / file).read_text()
        owner, _, field = place.partition(".")
        assert f" {owner} " in text or f" {owner}(" in text
        assert f" {field} " in text


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_pratiques_own_services_keep_the_contract(pratique: Program, method: Method) -> None:
    async def verified() -> subprocess.CompletedProcess[str]:
        arguments = ("-m", "pratique_cli", "serve", method.service, "--port", "0", "--metrics-port", "0")
        async with running(method.service, *arguments) as process:
            return await asyncio.to_thread(pratique, "verify", process.address, "--strict", "-o", "json")

    done = asyncio.run(verified())
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert {result["outcome"] for result in results} == {"kept"}
    assert {result["check"] for result in results} == {
        check.name for check in (*SERVER_CHECKS, *checks_of(method))
    }


def test_text_names_what_was_expected_and_seen_and_the_rule(pratique: Program) -> None:
    with served(VALIDATE, "uid-required") as address:
        done = pratique("verify", address, "--check", "uid-required", "--check", "dry-run")
    assert done.returncode == 1
    assert done.stdout == (
        "✗ validator uid-required\n"
        "    expected: INVALID_ARGUMENT without uid\n"
        "    seen: OK\n"
        "    rule: review.proto: Review.uid\n"
        "✓ validator dry-run\n"
        f"2 checks of {address}: 1 kept, 1 broken\n"
    )


def test_junit_has_a_case_for_each_check(pratique: Program) -> None:
    with served(MUTATE, "settles") as address:
        checks = ("--check", "settles", "--check", "answers", "-o", "junit")
        done = pratique("verify", address, *checks)
        strict = pratique("verify", address, "--strict", *checks)
    assert (done.returncode, strict.returncode) == (0, 1)
    suite = ET.fromstring(strict.stdout).find("testsuite")
    assert suite is not None
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == [
        "mutator settles"
    ]


def test_advice_fails_only_if_it_is_strict(pratique: Program) -> None:
    with served(VALIDATE, "reflection") as address:
        done = pratique("verify", address)
    assert done.returncode == 0
    assert "! validator" not in done.stdout
    assert "! server    reflection\n" in done.stdout


def test_both_services_can_be_asked_for(pratique: Program) -> None:
    with served(VALIDATE) as address:
        done = pratique("verify", address, "--service", "both", "--check", "answers")
    assert done.returncode == 1
    assert "✗ mutator   answers" in done.stdout
    assert "seen: UNIMPLEMENTED" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "'nowhere' is not HOST:PORT"),
        (["127.0.0.1:70000"], "is not HOST:PORT"),
        (["127.0.0.1:1", "--timeout", "200ms"], "no gRPC connection within 0.2 s, with no TLS"),
        (["127.0.0.1:1", "--cert-file", __file__], "--cert-file and --private-key-file go together"),
        (["127.0.0.1:1", "--server-name", "a"], "--server-name is for TLS"),
        (["127.0.0.1:1", "--check", "nothing"], "'nothing' is not one of"),
    ],
)
def test_wrong_usage_is_one_clear_error(pratique: Program, arguments: list[str], words: str) -> None:
    done = pratique("verify", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_check_of_the_other_service_alone_is_wrong_usage(pratique: Program) -> None:
    with served(VALIDATE) as address:
        done = pratique("verify", address, "--check", "patch-applies")
    assert done.returncode == 2
    assert "no check of patch-applies is one of the service's" in done.stderr


def test_the_named_controllers_are_called(pratique: Program) -> None:
    with served(VALIDATE) as address:
        known = pratique("verify", address, "--controller", NAME, "--check", "answers")
        other = pratique("verify", address, "--controller", "other", "--check", "answers")
    assert (known.returncode, other.returncode) == (0, 1)
    assert "other failed with KIND_UNKNOWN_CONTROLLER; does --controller name it right?" in other.stdout


def test_every_check_has_its_own_name() -> None:
    assert len(set(all_check_names())) == len(all_check_names())
