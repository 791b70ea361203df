"""Fixtures of the console's tests: the program on a free port of loopback, and Debian's Chromium."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from support import go_programs
from support.forked_commands import PROGRAM, ForkedCommand
from support.recordings import deployment, pod_creation, record, written
from support.validating_policies import binding, policy

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "scripts/console_editor"
OPEN_ALL = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
RUN_AXE = """
const done = arguments[arguments.length - 1];
const told = (found) => found.violations.map((one) => [one.id, one.help, one.nodes.map((node) => node.html)]);
axe.run(document).then(async (found) => {
  document.getElementById("theme").click();
  done([told(found), told(await axe.run(document))]);
});
"""
HOSTILE = "<img src=x onerror=document.title=1>"
KEY = "AKIA-not-for-the-page"
PATIENCE_SECONDS = 120  # far more than a page takes, so that a busy machine fails nothing
POLL_SECONDS = 0.05


@contextlib.contextmanager
def console_of(*flags: str) -> Iterator[str]:
    """Run a console until the block ends, and give its URL."""
    command = [str(PROGRAM), "console", "--port", "0", *flags]
    with ForkedCommand(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("pratique: console on http://127.0.0.1:")
        yield line.split()[-1]
        process.terminate()


@pytest.fixture(scope="session")
def console() -> Iterator[str]:
    """The URL of a running console."""
    with console_of() as url:
        yield url


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three decisions: one is denied, and one has a hostile name."""
    folder = tmp_path_factory.mktemp("recorded")
    limit = "!has(object.spec.replicas) || object.spec.replicas <= 5"
    rule = policy({"expression": limit, "message": f"at most 5, {HOSTILE}"}, name="replicas")
    config = written(folder, "policies.yaml", rule, binding("replicas"))
    secret = {"name": "TOKEN", "value": KEY}
    reviews = [
        pod_creation(HOSTILE, uid="1"),
        deployment(9, "web", secret, uid="2"),
        deployment(1, "small", uid="3"),
    ]
    return record(reviews, folder / "reviews.jsonl", config)


@pytest.fixture(scope="session")
def recorded_console(recorded: Path) -> Iterator[str]:
    """The URL of a console with that recording."""
    with console_of("--record", str(recorded)) as url:
        yield url


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser that logs its requests and what its pages say on their console."""
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip("no Chromium here: Debian's packages chromium and chromium-driver have it")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--window-size=1400,1500",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(profile)})
    options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options, Service(str(DRIVER)))
    driver.set_script_timeout(PATIENCE_SECONDS)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser for one test, which fails if a page reached beyond loopback or had an error."""
    chromium.set_window_size(1400, 1500)
    chromium.get("about:blank")  # the page of an earlier test would go on asking a server that has ended
    for kind in ("browser", "performance"):
        new_log_entries(chromium, kind)
    yield chromium
    assert [entry["message"] for entry in new_log_entries(chromium, "browser")] == []
    urls = requested(new_log_entries(chromium, "performance"))
    assert urls
    assert {url for url in urls if not url.startswith(("http://127.0.0.1:", "blob:"))} == set()


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the editor with the packages of its lock, installed once for each lock, checked by their hashes."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here")
    names = (".npmrc", "package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in names)).hexdigest()
    installed = go_programs.CACHE / "console_editor" / digest[:16]
    if not installed.exists():
        installed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=installed.parent) as installing:
            for name in names:
                shutil.copy(SOURCES / name, installing)
            subprocess.run(["npm", "ci", "--silent"], cwd=installing, check=True)
            with contextlib.suppress(OSError):  # another process was faster
                shutil.copytree(installing, installed, symlinks=True)
    folder = tmp_path_factory.mktemp("console_editor")
    for name in (*names, "editor.js"):
        shutil.copy(SOURCES / name, folder)
    (folder / "node_modules").symlink_to(installed / "node_modules")
    return folder


def violations(browser: webdriver.Chrome, packages: Path) -> list[list[Any]]:
    """What axe-core finds on the page in each of both themes, with all that can be opened open."""
    browser.execute_script(OPEN_ALL)
    browser.execute_script((packages / "node_modules/axe-core/axe.min.js").read_text())
    found: list[list[Any]] = browser.execute_async_script(RUN_AXE)
    return found


def new_log_entries(driver: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """What a log has got since it was last read."""
    entries: list[dict[str, Any]] = driver.get_log(kind)  # type: ignore[no-untyped-call]  # selenium has no types here
    return entries


def requested(entries: list[dict[str, Any]]) -> set[str]:
    """The URLs of all requests in a performance log."""
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    return {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }
