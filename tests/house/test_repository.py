from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

# written in two halves, so that this file does not name what it looks for
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "docker" + ".io",
    "gcr" + ".io",
    "ghcr" + ".io",
    "quay" + ".io",
    "npm" + "js.org",
    "debian" + ".org",
    "proxy." + "golang.org",
]
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|root|opt/wheels|home/\w+|Users/\w+)/")
# third parties' manifests and reviews name their own images, which is what they are about
NOT_OURS = ("tests/data/", "tests/vectors/", "examples/")


def test_no_file_names_a_registry_or_an_index(texts: dict[str, str]) -> None:
    named = {
        (name, host)
        for name, text in texts.items()
        for host in REGISTRIES
        if host in text and not name.startswith(NOT_OURS)
    }
    assert not named


def test_no_file_names_a_path_of_one_machine(texts: dict[str, str]) -> None:
    assert not {name for name, text in texts.items() if MACHINE_PATH.search(text)}


def test_generated_code_is_not_kept(git: Callable[..., str]) -> None:
    path = "services/pratique/admission/v1/review_pb2.py"
    assert git("check-ignore", "--no-index", path).strip() == path


def test_the_top_of_the_tree_stays_small(texts: dict[str, str]) -> None:
    entries = {name.split("/")[0] for name in texts}
    # GitHub looks for an action at the root alone, and mkdocs for its configuration.
    assert len({name for name in entries if not name.startswith(".")} - {"action.yml", "mkdocs.yml"}) <= 16


def test_the_licence_is_whole(root: Path) -> None:
    text = (root / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize(
    "link", ["LICENSE", "CHANGELOG.md", "docs/SECURITY.md", "docs/architecture.md", "docs/README.md"]
)
def test_the_readme_leads_to(link: str, texts: dict[str, str]) -> None:
    assert f"({link})" in texts["README.md"]


def test_every_link_between_documents_leads_somewhere(root: Path, texts: dict[str, str]) -> None:
    dead = {
        (name, target)
        for name, text in texts.items()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
        if not (root / name).parent.joinpath(target).exists()
    }
    assert not dead


def test_the_index_of_the_documents_is_whole(root: Path) -> None:
    index = (root / "docs" / "README.md").read_text()
    pages = {page.name for page in (root / "docs").iterdir()} - {"README.md"}
    assert {page for page in pages if f"]({page}" not in index} == set()


def test_the_architecture_says_what_the_import_contracts_check(root: Path) -> None:
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    text = (root / "docs" / "architecture.md").read_text()
    assert [contract["name"] for contract in contracts] == re.findall(
        r"^- (.+)\.$", text.partition("import contracts, which")[2].partition("## ")[0], re.MULTILINE
    )
