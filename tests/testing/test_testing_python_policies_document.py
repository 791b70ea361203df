"""The page about testing policies in Python, followed by a user with a folder of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing-python-policies.md").read_text("utf-8")
POLICY, TESTS, FIXTURES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, where the plugin is installed as pyproject.toml says."""
    (tmp_path / "policy.py").write_text(POLICY, "utf-8")
    (tmp_path / "test_policy.py").write_text(TESTS, "utf-8")
    (tmp_path / "test_fixtures.py").write_text(FIXTURES, "utf-8")
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "plugin_of_pratique-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-pratique\nVersion: 1\n")
    lines = [f"{name} = {module}" for name, module in entry_points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    return tmp_path


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{folder / 'site'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_tests_of_the_page_pass_with_plain_pytest(folder: Path) -> None:
    done = run_pytest(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_they_fail_if_the_policy_is_wrong(folder: Path) -> None:
    wrong = POLICY.replace('return deny("label team is missing")', "return allow()")
    (folder / "policy.py").write_text(wrong, "utf-8")
    done = run_pytest(folder, "test_policy.py")
    assert done.returncode == 1
    assert "2 failed, 4 passed" in done.stdout


def test_the_plugin_imports_nothing_until_a_test_asks_for_a_fixture(folder: Path) -> None:
    (folder / "test_nothing.py").write_text(
        "import sys\n\n\ndef test_nothing():\n"
        "    loaded = sorted(name for name in sys.modules if name.startswith('pratique'))\n"
        "    assert loaded == ['pratique', 'pratique.testing', 'pratique.testing.plugin']\n"
    )
    done = run_pytest(folder, "test_nothing.py")
    assert done.returncode == 0, done.stdout + done.stderr
