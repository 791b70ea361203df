"""What axe-core finds on the console's pages, and the bundle of their editor."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from .conftest import PATIENCE_SECONDS, POLL_SECONDS, ROOT, SOURCES, violations

BUNDLE = ROOT / "services/frontdoor/pratique_frontdoor/console/static/editor.js"


@pytest.mark.parametrize("example", ["a-policy-denies-replicas", "defaults-and-limits"])
def test_axe_finds_nothing_on_the_playground(
    browser: Chrome, console: str, packages: Path, example: str
) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    Select(browser.find_element(By.ID, "example")).select_by_value(example)
    WebDriverWait(browser, PATIENCE_SECONDS, POLL_SECONDS).until(
        lambda here: here.find_elements(By.TAG_NAME, "article")
    )
    assert violations(browser, packages) == [[], []]


@pytest.mark.parametrize("page", ["/recording", "/recording/1"])
def test_axe_finds_nothing_on_a_recording(
    browser: Chrome, recorded_console: str, packages: Path, page: str
) -> None:
    browser.get("about:blank")
    browser.get(recorded_console + page)
    assert violations(browser, packages) == [[], []]


def test_axe_would_find_a_control_without_a_name(browser: Chrome, console: str, packages: Path) -> None:
    browser.get("about:blank")
    browser.get(f"{console}/playground")
    browser.execute_script("document.querySelector('main').append(document.createElement('button'))")
    assert [[name for name, *_ in found] for found in violations(browser, packages)] == [["button-name"]] * 2


def test_the_editor_is_the_one_that_its_lock_makes(packages: Path) -> None:
    made = packages / "made.js"
    build = ["npm", "run", "--silent", "build", "--", "--log-level=warning", f"--outfile={made}"]
    subprocess.run(build, cwd=packages, check=True)
    assert made.read_text() == BUNDLE.read_text(), "run `make console`"


def test_the_lock_of_the_editor_has_hashes_and_no_index() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_the_editor_is_served_from_the_wheel(console: str) -> None:
    with urllib.request.urlopen(f"{console}/static/editor.js") as answer:
        assert answer.read() == BUNDLE.read_bytes()
