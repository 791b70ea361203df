"""The pages for those who come from other projects: what is Pratique's on them is run, and the same on two of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from support.followed_pages import DOCS, follow, steps_of

PAGES = ("gatekeeper", "kopf", "kyverno", "pepr")
TEXTS = {name: (DOCS / "migrating" / f"{name}.md").read_text("utf-8") for name in PAGES}
RULES = ["Required labels", "No latest tag", "No privileged containers", "Registries", "Default requests"]


def test_every_page_is_here() -> None:
    assert {page.stem for page in (DOCS / "migrating").glob("*.md")} == set(PAGES)


@pytest.mark.parametrize("page", ["gatekeeper", "pepr"])
def test_what_a_page_shows_happens(page: str, tmp_path: Path) -> None:
    done = follow(f"migrating/{page}.md", tmp_path)
    assert "2 admitted, 1 denied, 1 denied of the 2 Pods" in done[-2].output
    assert '{"requests":{"memory":"128Mi"}}' in done[-1].output


@pytest.mark.parametrize(("page", "followed"), [("kyverno", "gatekeeper"), ("kopf", "pepr")])
def test_what_another_page_shows_is_the_same(page: str, followed: str) -> None:
    assert list(steps_of(f"migrating/{page}.md")) == list(steps_of(f"migrating/{followed}.md"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_each_rule_on_both_sides(page: str) -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", TEXTS[page], re.MULTILINE))
    assert [title for title in sections if title in RULES] == RULES
    for rule in RULES:
        fences = re.findall(r"^```(\w+)( \S+)?$", sections[rule], re.MULTILINE)
        assert {bool(name) for _, name in fences} == {True, False}, rule
    assert {"What becomes what", "What has no equivalent", "Move without a gap"} <= sections.keys()


@pytest.mark.parametrize("page", PAGES)
def test_what_other_projects_read_can_be_read(page: str) -> None:
    for language, text in re.findall(r"^```(yaml|python)\n(.*?)^```$", TEXTS[page], re.MULTILINE | re.DOTALL):
        assert list(yaml.safe_load_all(text)) if language == "yaml" else ast.parse(text).body
