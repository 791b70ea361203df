"""Pages name files that exist, and link to headings that exist."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [ROOT, *(ROOT / "services" / name for name in ("", "mutator", "validator", "frontdoor"))]
FRONT_DOOR = ROOT / "services" / "frontdoor" / "pratique_frontdoor"
PATH = re.compile(
    r"`((?:services|pratique\w*|tests|scripts|bench|proto|http|chain|engines|transports)/[\w./-]+\.(?:py|toml|sh|json|proto))`"
)
LINK = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub derives them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text("utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(next(name for name in variants(slug) if name not in found))
    return found


def variants(slug: str) -> list[str]:
    return [slug, *(f"{slug}-{number}" for number in itertools.islice(itertools.count(1), 20))]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    missing = {
        path
        for path in PATH.findall(text)
        if not any((root / path).is_file() for root in [*SOURCES, FRONT_DOOR])
    }
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    dead = {
        f"{file}#{anchor}"
        for file, anchor in LINK.findall(text)
        if anchor not in anchors((page.parent / file) if file else page)
    }
    assert not dead
