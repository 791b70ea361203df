"""``/replay`` of ``pratique console --record --config``: what another configuration would decide."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from pratique.configuration.settings import ChainSettings
from pratique_cli.replays.recording_replays import RecordingReplayer
from pratique_frontdoor.console.recording import Recording
from pratique_frontdoor.console.replay import ReplayState, ReplayStatus
from support.recordings import written
from support.validating_policies import binding, policy
from support.waiting import within

from .conftest import HOSTILE, PATIENCE_SECONDS, POLL_SECONDS, console_of, violations
from .test_playground import refusal

SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}


@pytest.fixture(scope="module")
def stricter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policies that deny what was admitted, admit what was denied, and one that never applies."""
    web = policy(
        {"expression": "object.metadata.name != 'small'", "message": f"too small {HOSTILE}"}, name="names"
    )
    unused = policy({"expression": "false"}, name="unused", matchConstraints={"resourceRules": [SERVICES]})
    folder = tmp_path_factory.mktemp("stricter")
    return written(folder, "policies.yaml", web, binding("names"), unused, binding("unused", name="c"))


@pytest.fixture(scope="module")
def replaying_console(recorded: Path, stricter: Path) -> Iterator[str]:
    """The URL of a console with a recording and another configuration."""
    with console_of("--record", str(recorded), "--config", str(stricter)) as url:
        yield url


def replay(browser: Chrome, console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/replay")
    browser.find_element(By.ID, "start").click()
    wait_until_done(browser)


def wait_until_done(browser: Chrome) -> None:
    WebDriverWait(browser, PATIENCE_SECONDS, POLL_SECONDS).until(
        lambda here: here.find_element(By.ID, "state").text == "Done."
    )


def test_differences_are_grouped_by_the_policy_that_makes_them(
    browser: Chrome, replaying_console: str
) -> None:
    replay(browser, replaying_console)
    assert browser.find_element(By.ID, "totals").text.startswith("3 replayed, 1 as before, 2 different")
    groups = {
        group.find_element(By.TAG_NAME, "h2").text.rpartition("/")[2]: group
        for group in browser.find_elements(By.CSS_SELECTOR, ".group")
    }
    assert "✕ 1 admitted before, denied now" in groups["names"].text
    assert f"+ too small {HOSTILE}" in groups["names"].text.replace("ValidatingAdmissionPolicy", "")
    assert "✓ 1 denied before, admitted now" in groups["replicas"].text
    assert browser.find_elements(By.TAG_NAME, "img") == []


def test_a_difference_leads_to_its_decision(browser: Chrome, replaying_console: str) -> None:
    replay(browser, replaying_console)
    browser.find_element(By.LINK_TEXT, "Deployment shop/small").click()
    assert browser.current_url == f"{replaying_console}/recording/3"
    assert "shop/small" in browser.find_element(By.CSS_SELECTOR, "article h2").text


def test_coverage_names_policies_that_never_ran(browser: Chrome, replaying_console: str) -> None:
    replay(browser, replaying_console)
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "[aria-label=Coverage] tbody tr")]
    [names] = [row for row in rows if "/names" in row]
    assert names.split()[-5:] == ["3", "1", "0", "0", "0"]
    assert "/unused never ran" in rows[0]
    [unused] = [row for row in rows if "/unused" in row]
    assert "never ran" in unused
    assert unused.split()[-5:] == ["0", "0", "0", "0", "3"]


def test_the_keyboard_alone_replays(browser: Chrome, replaying_console: str) -> None:
    browser.get("about:blank")
    browser.get(f"{replaying_console}/replay")
    for _ in range(10):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if browser.switch_to.active_element.text == "Replay" and (
            browser.switch_to.active_element.tag_name == "button"
        ):
            break
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    wait_until_done(browser)


def test_axe_finds_nothing(browser: Chrome, replaying_console: str, packages: Path) -> None:
    replay(browser, replaying_console)
    assert violations(browser, packages) == [[], []]


def test_the_documents_show_a_replay(browser: Chrome, replaying_console: str, tmp_path: Path) -> None:
    replay(browser, replaying_console)
    folder = Path(os.environ.get("PRATIQUE_SCREENSHOTS", tmp_path))
    assert browser.save_screenshot(str(folder / "replay.png"))


def test_pages_of_others_may_not_replay(replaying_console: str) -> None:
    assert refusal(replaying_console, "/replay", {}, Origin="http://attacker.example")[0] == 403


def test_there_is_nothing_to_replay_without_a_recording(console: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{console}/replay", timeout=120)


def finished(replayer: RecordingReplayer) -> ReplayState:
    replayer.start()
    assert within(60, lambda: replayer.state.status is not ReplayStatus.RUNNING)
    return replayer.state


def test_a_configuration_that_broke_meanwhile_is_told(recorded: Path, tmp_path: Path) -> None:
    config = tmp_path / "policies.yaml"
    config.write_text("kind: [")
    state = finished(RecordingReplayer(recorded, ChainSettings(config=(config,)), 10, lambda _: 0))
    assert (state.status, "policies.yaml" in state.problem) == (ReplayStatus.FAILED, True)


def test_a_recording_that_disappears_is_told(recorded: Path, tmp_path: Path) -> None:
    state = finished(RecordingReplayer(tmp_path / "gone.jsonl", ChainSettings(), 10, lambda _: 0))
    assert state.totals == ["0 replayed", "0 as before", "0 different", "1 unreadable"]


def test_a_replay_ends_when_the_console_does(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(recorded.read_bytes() * 2_000)
    replayer = RecordingReplayer(path, ChainSettings(), 10, lambda _: 0)
    replayer.start()
    assert within(60, lambda: replayer.state.share > 0)
    replayer.stop()
    assert replayer.state.status is ReplayStatus.IDLE


def test_lines_that_hold_no_decision_are_not_counted(recorded: Path, tmp_path: Path) -> None:
    first, second, third = recorded.read_bytes().splitlines(keepends=True)
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(b"\n" + first + b"no decision\n" + second + third)
    recording = Recording(path)
    assert [recording.number_of(line) for line in range(7)] == [0, 0, 1, 0, 2, 3, 0]
