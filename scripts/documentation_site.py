# ruff: noqa: INP001 - mkdocs and griffe load it by its path
"""Hooks of mkdocs, and the extension of mkdocstrings, that make the documents a site: ``make docs``.

The documents are written for GitHub and stay as they are. Here they become what mkdocs needs: the index,
``docs/README.md``, becomes the navigation; what they link to outside of ``docs`` joins the site; fences and lists are
spelt as its parser reads them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

_INDEX = "docs/README.md"
_NAMES = {"README.md": "pratique.md", "CHANGELOG.md": "changes.md"}
"""Names in the site of files outside of ``docs``; those of others begin with ``repository/``."""

_SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_TITLED_FENCE = re.compile(r"^(```\w+) ([^\s`]+)$", re.MULTILINE)
_NESTED = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_TITLE = re.compile(r"# (.+)")
_SUMMARY = re.compile(r"^# (.+)\n\n((?:.+\n)+)")
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`([\w.]+)`")
_LITERAL_BLOCK = re.compile(r"::$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the index of the documents the navigation."""
    index = (ROOT / _INDEX).read_text("utf-8")
    (start, first), *others = ((title, list(_entries(section))) for title, section in _SECTION.findall(index))
    config.nav = [{start: ["README.md", *first]}, *({title: entries} for title, entries in others)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the documents link to outside of their folder, what that links to, and an index of the controllers."""
    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    files.append(File.generated(config, "controllers/README.md", content=_index_of_controllers()))
    while pages:
        page = pages.pop()
        for link in _LINK.finditer((ROOT / page).read_text("utf-8")):
            path = _linked_file(page, link["target"])
            if path is None or files.get_file_from_path(name := _name_in_site(path)) is not None:
                continue
            inclusion = InclusionLevel.INCLUDED if path in _NAMES else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path), inclusion=inclusion))
            pages += [path] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Spell a page as the parser of mkdocs reads it, with links that lead where they do in the repository."""
    if page.file.abs_src_path is None:
        return markdown  # made here
    path = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()
    parts = _FENCE.split(markdown)
    prose = [
        _LINK.sub(lambda link: _link_in_site(link, path), _NESTED.sub("    ", part)) for part in parts[::2]
    ]
    fences = [_TITLED_FENCE.sub(r'\1 title="\2"', part) for part in parts[1::2]]
    return "".join(part for pair in zip(prose, [*fences, ""], strict=True) for part in pair)


class DocstringMarkup(griffe.Extension):
    """Makes Markdown of the roles and literal blocks in docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of what was found in a source file."""
        if obj.docstring:
            obj.docstring.value = _LITERAL_BLOCK.sub(":", _ROLE.sub(r"`\1`", obj.docstring.value))


def _entries(section: str) -> Iterator[str | dict[str, list[str]]]:
    """Yield what a section of the index holds, once each; a folder's pages as a section of their own."""
    for target in dict.fromkeys(link["target"] for link in _LINK.finditer(section)):
        folder = posixpath.dirname(target) if target.endswith("/README.md") else target
        if (DOCS / folder).is_dir() and not folder.startswith(".."):
            names = sorted(page.name for page in (DOCS / folder).glob("*.md") if page.name != "README.md")
            yield {folder.capitalize(): [f"{folder}/{name}" for name in ["README.md", *names]]}
        elif not target.startswith("controllers/"):  # they are a section
            yield _name_in_site(posixpath.normpath(f"docs/{target}"))


def _index_of_controllers() -> str:
    summaries = [
        _SUMMARY.match(page.read_text("utf-8")) for page in sorted((DOCS / "controllers").glob("*.md"))
    ]
    lines = [f"- [{found[1]}]({found[1]}.md): {found[2]}" for found in summaries if found]
    return "# Admission controllers\n\n" + "".join(lines)


def _linked_file(page: str, target: str) -> str | None:
    """Return the file that a page's link leads to, of a folder its README; None if there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    there = (ROOT / path).is_file() or path == "docs/controllers/README.md"
    return path if there and not path.startswith("..") else None


def _name_in_site(path: str) -> str:
    """Return the name, in the site, of a file of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else _NAMES.get(path, f"repository/{path}")


def _link_in_site(link: re.Match[str], page: str) -> str:
    """Return a page's link as it is in the site; only its text if what it leads to is no page, such as a folder."""
    path = _linked_file(page, link["target"])
    if path is None:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["target"]))
        return link["text"] if (ROOT / target).is_dir() else link[0]
    relative = posixpath.relpath(_name_in_site(path), posixpath.dirname(_name_in_site(page)) or ".")
    text = _title(path) if page == _INDEX and link["text"] == link["target"] else link["text"]
    return f"[{text}]({relative}{link['anchor'] or ''})"


def _title(path: str) -> str:
    """Return the title of a page, or the name of what has none."""
    found = _TITLE.match((ROOT / path).read_text("utf-8")) if (ROOT / path).is_file() else None
    return found[1] if found else path
