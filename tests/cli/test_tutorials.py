"""The tutorials of authors and CI users, followed from top to bottom; the operator's needs an API server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.followed_pages import DOCS, ShownCommand, ShownFile, follow, steps_of

ROOT = DOCS.parent


def test_every_tutorial_is_followed() -> None:
    assert {page.stem for page in (DOCS / "tutorials").glob("*.md")} == {"author", "ci", "operator"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tutorial asks with curl")
def test_an_author_gets_from_nothing_to_a_denial(tmp_path: Path) -> None:
    done = follow("tutorials/author.md", tmp_path)
    assert "give these images a version" in done[-1].output


def test_a_ci_user_gets_from_a_denial_to_a_pipeline(tmp_path: Path) -> None:
    commands = [step.command for step in follow("tutorials/ci.md", tmp_path)]
    arguments = action_arguments(tmp_path / "reader" / ".github" / "workflows" / "admission.yaml")
    reviewed, code = commands[-2:]
    assert (reviewed, code) == (f"pratique review {arguments}", "echo $?")
    review, check = hooks(tmp_path / "reader" / ".pre-commit-config.yaml")
    assert [*review["args"], "manifests"] == [*arguments.split()[:-1], "--", "manifests"]
    assert (review["files"], check["files"]) == ("^manifests/", "^policies/")


def action_arguments(workflow: Path) -> str:
    """The arguments that a workflow gives to Pratique's action, which takes all of the inputs that it is given."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = yaml.safe_load(workflow.read_text())["jobs"]["review"]["steps"]
    (step,) = (step for step in steps if step["uses"].startswith("OWNER/pratique"))
    assert step["with"].keys() <= action["inputs"].keys()
    return str(step["with"]["args"])


def hooks(configuration: Path) -> list[dict[str, Any]]:
    """The hooks of a configuration of pre-commit, all of which Pratique has."""
    offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (repository,) = yaml.safe_load(configuration.read_text())["repos"]
    assert {hook["id"] for hook in repository["hooks"]} <= offered
    return list(repository["hooks"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("$ echo one\ntwo\n", "one"),
        ("$ echo one\n", "one"),
        ("$ true\none\n", "true"),
        ("$ sh -c 'exit 2'\n", "ended with 2"),
    ],
    ids=["other", "more", "less", "failure"],
)
def test_a_page_that_shows_something_else_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setattr("support.followed_pages.DOCS", tmp_path)
    (tmp_path / "page.md").write_text(f"# Page\n\n```console\n{text}```\n")
    with pytest.raises(AssertionError, match=problem):
        follow("page.md", tmp_path)


def test_commands_share_a_shell_and_files_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.followed_pages.DOCS", tmp_path)
    page = "```console\n$ mkdir a; cd a; X=1; export Y=2\n$ false\n$ echo $? $Y\n1 …\n```\n\n```text a/b\nc\n```\n"
    (tmp_path / "page.md").write_text(f"{page}\n```console\n$ cat b; echo \\\n    d\nc\n…\n```\n")
    assert [step.name for step in steps_of("page.md") if isinstance(step, ShownFile)] == ["a/b"]
    assert follow("page.md", tmp_path)[-1] == ShownCommand("cat b; echo \\\n    d", "c\nd\n")
