"""``/console`` of a front door: what it is doing now."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique_frontdoor.console.live import LiveDecisions, read_service_state
from pratique_frontdoor.http.listener import ListenerSecurity
from pratique_frontdoor.settings import FrontDoorSettings
from support.local_stacks import Stack, running, running_alone
from support.recordings import deployment, pod_creation, written
from support.validating_policies import binding, policy
from support.waiting import within

from .conftest import HOSTILE, KEY, PATIENCE_SECONDS, POLL_SECONDS, violations

SHOP, COUNTED = (
    [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}},
    ]
    for name in ("shop", "counted")
)
COUNTED.append(
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "counted", "uid": "q"},
        "spec": {"hard": {"pods": "5"}},
    }
)
REPLICAS = """
return [...document.querySelectorAll("[aria-label=Replicas] tbody tr")].map((row) => row.innerText.trim());
"""
TWO_PERIODS = "setTimeout(arguments[0], 2500)"
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A local stack with a console, which denies Deployments of more than five replicas."""
    rule = policy(
        {"expression": "!has(object.spec.replicas) || object.spec.replicas <= 5", "message": "at most 5"},
        name="replicas",
    )
    folder = tmp_path_factory.mktemp("live")
    config = written(folder, "policies.yaml", rule, binding("replicas"))
    cluster = written(folder, "cluster.yaml", *SHOP, *COUNTED)
    inputs = ("--config", str(config), "--cluster", str(cluster))
    with running("--console", *inputs, "--resource-quota-sync-period", "200ms") as started:
        yield started


def open_console(browser: Chrome, stack: Stack) -> None:
    browser.get("about:blank")
    browser.get(f"http://127.0.0.1:{stack.port}/console")


def wait_for(browser: Chrome, name: str, text: str) -> None:
    def shown(here: Chrome) -> bool:
        script = "return document.querySelector(arguments[0])?.textContent ?? ''"
        return text in " ".join(here.execute_script(script, name).split())

    WebDriverWait(browser, PATIENCE_SECONDS, POLL_SECONDS).until(shown)


def open_paused(browser: Chrome, stack: Stack, name: str, text: str) -> None:
    """Open the console, and hold it as soon as it shows this: elements that are found stay in the page."""
    open_console(browser, stack)
    wait_for(browser, name, text)
    browser.find_element(By.ID, "pause").click()
    wait_for(browser, "#state", "Paused.")


def test_decisions_appear_as_they_come(browser: Chrome, stack: Stack) -> None:
    open_console(browser, stack)
    assert stack.post("/admit", deployment(9, "large", uid="9"))["response"]["allowed"] is False
    wait_for(browser, "#decisions", "CREATE deployments.apps shop/large")
    wait_for(browser, "[aria-label='Denials by policy']", "ValidatingAdmissionPolicy/replicas")
    wait_for(browser, "#decisions", "at most 5")
    assert browser.find_element(By.ID, "state").text == ""


def test_each_replica_is_shown_with_its_load(browser: Chrome, stack: Stack) -> None:
    stack.post("/admit", deployment(uid="1"))
    open_console(browser, stack)
    WebDriverWait(browser, PATIENCE_SECONDS, POLL_SECONDS).until(
        lambda here: all(row.endswith("✓ used") for row in here.execute_script(REPLICAS))
    )
    rows = browser.execute_script(REPLICAS)
    assert [row.split()[0] for row in rows] == ["mutator", "validator", "validator"]
    digest = browser.execute_script("return document.querySelector('.digest code').innerText")
    assert f'digest="{digest}"' in stack.get("/metrics")[1]


def test_a_decision_that_is_kept_opens_without_its_secrets(browser: Chrome, stack: Stack) -> None:
    secret = {"name": "TOKEN", "value": KEY}
    stack.post("/admit", deployment(1, "secretive", secret, uid="s"))
    open_paused(browser, stack, "#decisions", "shop/secretive")
    browser.find_element(By.PARTIAL_LINK_TEXT, "shop/secretive").click()
    assert "✓ Admitted" in browser.find_element(By.CSS_SELECTOR, "article h2").text
    assert "redacted:" in browser.page_source
    assert KEY not in browser.page_source


def test_the_validators_tell_how_much_of_a_quota_is_used(stack: Stack) -> None:
    review = pod_creation("web", uid="1", namespace="counted")
    assert stack.post("/admit", review)["response"]["allowed"]
    assert within(60, lambda: used(stack) == ["counted/small", "pods", "1", "5"])


def used(stack: Stack) -> list[str]:
    """The cells of the table of quotas, without markup."""
    page = stack.get("/console/state")[1]
    table = page.partition('aria-label="Quotas used"')[2].partition("</table>")[0]
    return re.findall(r"<td[^>]*>\s*([^<]*?)\s*</td>", table)


def test_axe_finds_nothing(browser: Chrome, stack: Stack, packages: Path) -> None:
    stack.post("/admit", deployment(9, "large", uid="9"))
    open_paused(browser, stack, "#decisions", "shop/large")
    assert violations(browser, packages) == [[], []]


def test_the_documents_show_the_live_page(browser: Chrome, stack: Stack, tmp_path: Path) -> None:
    for number in range(8):
        stack.post("/admit", deployment(2 * number, f"web-{number}", uid=str(number)))
    open_console(browser, stack)
    wait_for(browser, "#decisions", "shop/web-7")
    folder = Path(os.environ.get("PRATIQUE_SCREENSHOTS", tmp_path))
    assert browser.save_screenshot(str(folder / "live.png"))


def test_a_hostile_name_stays_text(browser: Chrome, stack: Stack) -> None:
    stack.post("/admit", pod_creation(HOSTILE, uid="h"))
    open_console(browser, stack)
    wait_for(browser, "#decisions", HOSTILE)
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.title == "Live · Pratique"


def test_a_paused_page_stays_as_it_is(browser: Chrome, stack: Stack) -> None:
    open_paused(browser, stack, "#totals", "admitted")
    before = browser.find_element(By.ID, "totals").text
    stack.post("/admit", deployment(1, "unseen", uid="p"))
    browser.execute_async_script(TWO_PERIODS)
    assert browser.find_element(By.ID, "totals").text == before
    browser.find_element(By.ID, "pause").click()
    wait_for(browser, "#decisions", "shop/unseen")


def test_the_keyboard_alone_opens_a_decision_while_the_page_changes(browser: Chrome, stack: Stack) -> None:
    reached = "CREATE deployments.apps shop/reached"
    stack.post("/admit", deployment(1, "reached", uid="k"))
    open_console(browser, stack)
    wait_for(browser, "#decisions", "shop/reached")
    for _ in range(60):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if browser.execute_script("return document.activeElement.innerText") == reached:
            break
    stack.post("/admit", deployment(1, "later", uid="l"))
    wait_for(browser, "#decisions", "shop/later")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    wait_for(browser, "article h2", "shop/reached")


def test_a_link_that_is_pressed_while_the_page_changes_is_followed(browser: Chrome, stack: Stack) -> None:
    stack.post("/admit", deployment(1, "pressed", uid="m"))
    open_paused(browser, stack, "#decisions", "shop/pressed")
    link = browser.find_element(By.PARTIAL_LINK_TEXT, "shop/pressed")
    ActionChains(browser).click_and_hold(link).perform()
    browser.execute_script("document.getElementById('pause').click()")  # the page goes on
    browser.execute_async_script(TWO_PERIODS)
    ActionChains(browser).release().perform()
    wait_for(browser, "article h2", "shop/pressed")


def test_a_narrow_window_needs_no_sideways_scrolling(browser: Chrome, stack: Stack) -> None:
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_paused(browser, stack, "#decisions", "shop/")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
        row = browser.find_element(By.CSS_SELECTOR, "#decisions tbody tr")
        request = row.find_element(By.CSS_SELECTOR, "td:nth-child(3)")
        assert request.size["width"] > row.size["width"] / 2, "what is asked for has a line of its own"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def fetched(url: str, **headers: str) -> tuple[int, str | None]:
    """The code of an answer, and how it asks for credentials."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120) as answer:
            return answer.status, None
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers["WWW-Authenticate"]


def test_there_is_no_console_unless_asked_for() -> None:
    with running_alone() as alone:
        assert alone.get("/console/")[0] == 404


def test_the_console_asks_for_the_credentials_of_callers(tmp_path: Path) -> None:
    logins = tmp_path / "logins"
    logins.write_text("ann:word\n")
    basic = f"Basic {base64.b64encode(b'ann:word').decode()}"
    with running_alone("--console", "--basic-auth-file", str(logins)) as alone:
        url = f"http://127.0.0.1:{alone.port}/console"
        for page in ("", "/", "/state", "/decisions/1", "/static/console.css", "/../console/"):
            assert fetched(url + page) == (401, 'Basic realm="Pratique", charset="UTF-8"')
        assert fetched(f"{url}/", Authorization=basic)[0] == 200
        assert fetched(f"http://127.0.0.1:{alone.port}/admit")[1] is None


def test_without_credentials_other_names_of_loopback_are_refused(stack: Stack) -> None:
    assert fetched(f"http://127.0.0.1:{stack.port}/console/", Host="attacker.example")[0] == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::"])
def test_a_console_for_everybody_is_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigurationError, match="would show decisions to everybody"):
        ListenerSecurity(FrontDoorSettings(host=host, console=True))


def recorded_line(uid: str, seconds: int = 0, padding: str = "") -> bytes:
    review = deployment(name=f"web-{uid}", uid=uid)
    decision = {"allowed": True, "uid": uid, "steps": [], "warnings": [padding] if padding else []}
    time = (NOW - dt.timedelta(seconds=seconds)).isoformat()
    return json.dumps({"time": time, "review": review, "decision": decision}).encode() + b"\n"


def test_only_the_newest_decisions_are_kept() -> None:
    live = LiveDecisions(max_lines=3)
    for number in range(1, 6):
        live.append(recorded_line(str(number)))
    page = live.page(NOW)
    assert (page.decided, page.kept) == (5, 3)
    assert [listed.number for listed in page.decisions] == [5, 4, 3]
    assert live.decision(3).title == "CREATE deployments.apps shop/web-3"
    for number in (0, 2, 6, 10**9):
        with pytest.raises(InputError, match=f"decision {number} is not kept"):
            live.decision(number)


def test_large_decisions_leave_room_for_fewer() -> None:
    live = LiveDecisions(max_bytes=10_000)
    for number in range(10):
        live.append(recorded_line(str(number), padding="x" * 4_000))
    assert live.page(NOW).kept == 2
    live.append(recorded_line("huge", padding="x" * 20_000))
    assert live.page(NOW).kept == 1


def test_the_last_minute_is_counted() -> None:
    live = LiveDecisions()
    for seconds in (3600, 61, 60, 1, 0):
        live.append(recorded_line(str(seconds), seconds))
    assert live.page(NOW).last_minute == 3


def test_what_metrics_tell_is_read() -> None:
    replica = 'pratique_frontdoor_replica_%s{service="validator",endpoint="grpc://[::1]:1"} %d'
    names = (("agrees", 0), ("calls_in_flight", 3), ("calls_total", 70), ("left_out", 1))
    metrics = [replica % pair for pair in names]
    metrics += [
        'pratique_inputs_info{digest="old",chain="",configuration="",cluster=""} 0',
        'pratique_inputs_info{digest="now",chain="",configuration="",cluster=""} 1',
        'pratique_certificate_expiration_timestamp_seconds{certificate="serving"} 86400',
        'pratique_quota_used{namespace="shop",resourcequota="small",resource="pods"} 2',
        'pratique_quota_used{namespace="shop",resourcequota="small",resource="requests.memory"} 1610612736',
        'pratique_quota_hard{namespace="shop",resourcequota="small",resource="requests.memory"} 2147483648',
        "pratique_quota_used_left_out 0",
        "not_shown 1",
    ]
    state = read_service_state("\n".join(metrics), now=43200)
    [shown] = state.replicas
    assert (shown.in_flight, shown.calls, shown.agrees, shown.excluded) == (3, 70, False, True)
    assert state.digest == "now"
    assert [(item.name, item.days_left) for item in state.certificates] == [("serving", 0.5)]
    assert [(use.resourcequota, use.resource, *use.shares) for use in state.quotas] == [
        ("small", "pods", "2", ""),
        ("small", "requests.memory", "1.5Gi", "2Gi"),
    ]
