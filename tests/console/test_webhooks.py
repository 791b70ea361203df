"""The playground calls webhooks where it was started so, while its box is ticked, and never otherwise."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from support.webhook_servers import WebhookServer, denied, serve

from .conftest import console_of, violations
from .test_playground import POD, WEBHOOK, decided, refusal, type_case, wait_for_state

MANIFEST = POD % "false"
TYPE_AND_TICK = """
document.getElementById("manifest").dispatchEvent(new Event("input"));
document.getElementById("webhooks").click();
setTimeout(arguments[0], 1000);  // longer than the page waits for another key
"""


@pytest.fixture(name="calling", scope="module")
def _calling() -> Iterator[str]:
    """The URL of a console that may call webhooks."""
    with console_of("--call-webhooks") as url:
        yield url


@pytest.fixture(name="server")
def _server() -> Iterator[WebhookServer]:
    with serve(denied("no such image")) as server:
        yield server


def configuration(server: WebhookServer, side_effects: str = "None") -> str:
    bundle = base64.b64encode(server.ca_bundle).decode()
    config = f'{{url: "{server.url}/", caBundle: {bundle}}}'
    return WEBHOOK.replace('{url: "https://127.0.0.1:1/"}', config).replace(
        "sideEffects: None", f"sideEffects: {side_effects}"
    )


def test_a_case_that_asks_for_webhooks_has_them_called_in_a_dry_run(
    calling: str, server: WebhookServer
) -> None:
    html = decided(calling, manifest=MANIFEST, policies=configuration(server), callWebhooks=True)["html"]
    assert "denied the request: no such image" in html
    assert "Not called here" not in html
    assert [received.review["request"]["dryRun"] for received in server.received] == [True]


def test_a_case_that_does_not_ask_has_none_called(calling: str, server: WebhookServer) -> None:
    html = decided(calling, manifest=MANIFEST, policies=configuration(server))["html"]
    assert "Not called here" in html
    assert server.received == []


def test_a_webhook_with_side_effects_is_not_called(calling: str, server: WebhookServer) -> None:
    some = configuration(server, "Some").replace("k8s.io/v1\n", "k8s.io/v1beta1\n")
    html = decided(calling, manifest=MANIFEST, policies=some, callWebhooks=True)["html"]
    assert server.received == []
    assert "✓ Admitted" not in html


def test_a_console_that_was_not_started_so_refuses_to_call(console: str, server: WebhookServer) -> None:
    case = {"manifest": MANIFEST, "policies": configuration(server), "callWebhooks": True}
    assert refusal(console, "/playground/decide", case) == (
        403,
        "this console calls no webhooks: start it with --call-webhooks",
    )
    assert server.received == []


def test_what_a_webhook_said_is_not_saved_as_a_test(calling: str, server: WebhookServer) -> None:
    case = {"manifest": MANIFEST, "policies": configuration(server), "callWebhooks": True}
    code, text = refusal(calling, "/playground/save", case)
    assert (code, "save it without calls to them" in text) == (400, True)


def test_a_box_calls_webhooks_until_another_case_is_opened(
    browser: Chrome, calling: str, server: WebhookServer
) -> None:
    type_case(browser, calling, manifest=MANIFEST, policies=configuration(server))
    wait_for_state(browser, "Admitted")
    assert server.received == []
    box = browser.find_element(By.ID, "webhooks")
    box.click()
    wait_for_state(browser, "Denied")
    assert len(server.received) == 1
    Select(browser.find_element(By.ID, "example")).select_by_value("defaults-and-limits")
    wait_for_state(browser, "Admitted")
    assert not box.is_selected()


def test_a_tick_right_behind_what_is_typed_calls_a_webhook_once(
    browser: Chrome, calling: str, server: WebhookServer
) -> None:
    type_case(browser, calling, manifest=MANIFEST, policies=configuration(server))
    wait_for_state(browser, "Admitted")
    browser.execute_async_script(TYPE_AND_TICK)
    wait_for_state(browser, "Denied")
    assert len(server.received) == 1


def test_a_console_that_calls_none_has_no_box(browser: Chrome, console: str) -> None:
    type_case(browser, console, manifest=MANIFEST)
    wait_for_state(browser, "Admitted")
    assert browser.find_elements(By.ID, "webhooks") == []


def test_axe_finds_nothing_where_there_is_a_box(browser: Chrome, calling: str, packages: Path) -> None:
    type_case(browser, calling, manifest=MANIFEST)
    wait_for_state(browser, "Admitted")
    assert violations(browser, packages) == [[], []]
