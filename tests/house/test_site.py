"""The documents as a site: built strictly, complete, the same as on GitHub, and without a request to another host."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import pratique
import pratique.testing

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [page for page in PAGES if "\n::: " not in page.read_text("utf-8")]
"""Pages to which mkdocstrings adds nothing."""
LOADED = re.compile(r"<(?!a\b)[a-z]+\b[^>]*?\b(?:src|href|poster|data)=\"?([^\"\s>]+)")
"""Addresses that a browser loads by itself: those of all elements but ``<a>``."""
STRUCTURE = re.compile(r"<(ul|ol|li|table|tr|pre|blockquote|h[1-6]|img)\b")
CODE = re.compile(r"<pre.*?</pre>", re.DOTALL)


def mkdocs(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", site],
        cwd=project,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = mkdocs(ROOT, folder)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def html_of(site: Path, page: Path) -> str:
    path = page.relative_to(ROOT / "docs").with_suffix("")
    folder = path.parent if path.name == "README" else path
    return (site / folder / "index.html").read_text("utf-8")


def structure(html: str) -> collections.Counter[str]:
    return collections.Counter(STRUCTURE.findall(CODE.sub("<pre>", html)))


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    home = html_of(site, ROOT / "docs" / "README.md")
    for page in PAGES:
        assert html_of(site, page)
    for section in re.findall(r"^## (.+)$", (ROOT / "docs" / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"md-tabs__link\">\s*{re.escape(section)}\s*<", home), section


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {address for page in site.rglob("*.html") for address in LOADED.findall(page.read_text("utf-8"))}
    for style in site.rglob("*.css"):
        loaded.update(re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)", style.read_text("utf-8")))
    assert len(loaded) > 20
    assert not {address for address in loaded if re.match(r"(?!data:)[a-z]+:|//", address)}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_structure_that_it_has_on_github(page: Path, site: Path) -> None:
    text = page.read_text("utf-8")
    (article,) = re.findall(r"<article.*?</article>", html_of(site, page), re.DOTALL)
    assert structure(article) == structure(MarkdownIt().enable("table").render(text))


def test_the_reference_describes_every_public_name(site: Path) -> None:
    reference = html_of(site, ROOT / "docs" / "api.md")
    names = {
        f"{module.__name__}.{name}" for module in (pratique, pratique.testing) for name in module.__all__
    }
    assert {name for name in names if f'id="{name}"' not in reference} == set()
    assert ":class:" not in reference


def test_what_is_dead_or_forgotten_stops_the_build(tmp_path: Path) -> None:
    for file in ("mkdocs.yml", "scripts/documentation_site.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "services").mkdir()
    (tmp_path / "docs" / "controllers").mkdir(parents=True)
    (tmp_path / "docs" / "README.md").write_text("# Documents\n\n## Start\n\n- [page.md](page.md)\n")
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n[a](nowhere.md) [b](README.md#nowhere)\n")
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n")
    built = mkdocs(tmp_path, tmp_path / "site")
    assert built.returncode == 1
    assert "link 'nowhere.md', but the target is not found" in built.stderr
    assert "does not contain an anchor '#nowhere'" in built.stderr
    assert 'not included in the "nav" configuration:\n  - forgotten.md' in built.stderr
