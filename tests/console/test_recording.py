"""``pratique console --record``: the decisions of a recording."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By

from pratique.apimachinery.errors import InputError
from pratique_frontdoor.console import recorded_lines
from pratique_frontdoor.console.recorded_lines import OTHERS
from pratique_frontdoor.console.recording import PAGE_DECISIONS, Recording
from support.forked_commands import PROGRAM, run

from .conftest import KEY


def fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_the_page_adds_up_a_recording(browser: Chrome, recorded_console: str) -> None:
    browser.get(f"{recorded_console}/recording")
    totals = browser.find_element(By.ID, "totals").text
    assert totals.startswith("3 decisions: 2 admitted, 1 denied, 0 with warnings")
    policies = browser.find_element(By.CSS_SELECTOR, "[aria-label='Denials by policy']").text
    assert "ValidatingAdmissionPolicy/replicas 1" in policies
    assert "shop 1" in browser.find_element(By.CSS_SELECTOR, "[aria-label='Denials by namespace']").text
    assert "ServiceAccount 2" in browser.find_element(By.CSS_SELECTOR, "[aria-label='Latency by step']").text
    rows = browser.find_elements(By.CSS_SELECTOR, "#decisions tbody tr")
    assert [row.text.split(" ")[2:4] for row in rows][1] == ["✕", "Denied"]
    assert "CREATE deployments.apps shop/small" in rows[0].text


def test_the_keyboard_alone_opens_a_decision(browser: Chrome, recorded_console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{recorded_console}/recording")
    for _ in range(30):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if browser.switch_to.active_element.text == "CREATE deployments.apps shop/web":
            break
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert browser.find_element(By.CSS_SELECTOR, "article h2").text.startswith("✕ Denied")


def test_a_decision_opens_to_its_chain(browser: Chrome, recorded_console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{recorded_console}/playground")
    browser.find_element(By.LINK_TEXT, "Recording").click()
    browser.find_element(By.LINK_TEXT, "CREATE deployments.apps shop/web").click()
    assert "at most 5" in browser.find_element(By.CLASS_NAME, "message").text
    denied = browser.find_element(By.CSS_SELECTOR, ".box.denied .name")
    assert denied.text == "replicas"
    assert KEY not in browser.page_source
    assert "redacted:" in browser.page_source


def test_hostile_names_and_messages_stay_text(browser: Chrome, recorded_console: str) -> None:
    for path, title in (
        ("/recording", "Recording"),
        ("/recording/1", "Decision"),
        ("/recording/2", "Decision"),
    ):
        browser.get("about:blank")
        browser.get(recorded_console + path)
        assert "<img src=x" in browser.find_element(By.TAG_NAME, "main").text
        assert browser.find_elements(By.TAG_NAME, "img") == []
        assert browser.title == f"{title} · Pratique"


def test_the_list_fits_a_narrow_window(browser: Chrome, recorded_console: str) -> None:
    metrics = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.get(f"{recorded_console}/recording")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("/recording", 200, "Page 1 of 1"),
        ("/recording?page=99", 200, "Page 1 of 1"),
        ("/recording?page=x", 400, "page: give a whole number"),
        ("/recording/2", 200, "✕ Denied"),
        ("/recording/0", 404, "there is no such decision"),
        ("/recording/4", 404, "there is no such decision"),
    ],
)
def test_answers_of_the_recording(recorded_console: str, path: str, code: int, text: str) -> None:
    answer = fetched(recorded_console + path)
    assert answer[0] == code
    assert text in answer[1]


def test_without_a_recording_there_is_no_page_of_one(console: str) -> None:
    assert fetched(f"{console}/recording")[0] == 404
    assert "/recording" not in fetched(f"{console}/playground")[1]


def test_a_long_recording_is_read_by_pages(recorded: Path, tmp_path: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    long = tmp_path / "long.jsonl"
    long.write_bytes(lines[0] * PAGE_DECISIONS + lines[1])
    recording = Recording(long)
    first, second = recording.page(1), recording.page(2)
    assert [one.number for one in first.decisions] == list(range(PAGE_DECISIONS + 1, 1, -1))
    assert ([one.number for one in second.decisions], second.pages) == ([1], 2)
    assert not first.decisions[0].allowed


def test_a_recording_is_followed_while_it_grows_and_when_it_is_rotated(
    recorded: Path, tmp_path: Path
) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    growing = tmp_path / "growing.jsonl"
    growing.write_bytes(lines[0] + lines[1][:100])
    recording = Recording(growing)
    assert len(recording.page(1).decisions) == 1
    growing.write_bytes(lines[0] + lines[1])
    assert len(recording.page(1).decisions) == 2
    growing.rename(tmp_path / "growing.jsonl.1")
    growing.write_bytes(lines[2])
    page = recording.page(1)
    assert [one.title for one in page.decisions] == ["CREATE deployments.apps shop/small"]
    assert page.denied == 0


def test_lines_that_are_no_decisions_are_counted(recorded: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(b'{"kind": "Pod"}\n\xff\n' + recorded.read_bytes())
    page = Recording(mixed).page(1)
    assert (page.unreadable, len(page.decisions)) == (2, 3)


def test_a_file_without_any_decision_is_no_recording(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("kind: Pod\n")
    with pytest.raises(InputError, match="this is no recording"):
        Recording(other)
    ran = run([PROGRAM, "console", "--port", "0", "--record", other])
    assert (ran.returncode, "this is no recording" in ran.stderr) == (2, True)


def test_the_count_of_names_is_bounded(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_lines, "MAX_NAMES", 1)
    denied = recorded.read_bytes().splitlines(keepends=True)[1]
    many = tmp_path / "many.jsonl"
    elsewhere = (denied.replace(b'"shop"', f'"shop-{number}"'.encode()) for number in range(3))
    many.write_bytes(denied + b"".join(elsewhere))
    assert Recording(many).page(1).denials_by_namespace == [(OTHERS, 3), ("shop", 1)]
