"""Objects of files and folders, with a problem for each file that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.apimachinery.documents import NO_DOCUMENTS, read_objects

POD = "{kind: Pod, apiVersion: v1, metadata: {name: %s}}\n"


def read(*paths: Path, unique_keys: bool = False) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    names = [
        str(document.data["metadata"]["name"])
        for document in read_objects(paths, problems, unique_keys=unique_keys)
    ]
    return names, problems


def test_lists_are_unwrapped_and_suites_left_out(tmp_path: Path) -> None:
    items = ", ".join(POD % name for name in "ab")
    (tmp_path / "1.yaml").write_text(f"{{kind: List, apiVersion: v1, items: [{items}]}}\n")
    (tmp_path / "2.yaml").write_text(
        "{kind: Suite, apiVersion: test.pratique/v1, cases: []}\n---\n" + POD % "c"
    )
    assert read(tmp_path) == (["a", "b", "c"], [])


def test_an_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    for number, text in enumerate((POD % "a", "{", POD % "b", "[1]")):
        (tmp_path / f"{number}.yaml").write_text(text)
    names, problems = read(tmp_path, tmp_path / "missing.yaml")
    assert names == ["a", "b"]
    assert [problem.partition(": ")[0] for problem in problems] == [
        str(tmp_path / name) for name in ("1.yaml", "3.yaml", "missing.yaml")
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "null\n"])
def test_only_a_path_without_any_documents_is_a_problem(tmp_path: Path, text: str) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text(text)
    assert read(empty) == ([], [f"{empty}: {NO_DOCUMENTS}"])
    assert read(tmp_path) == ([], [f"{tmp_path}: {NO_DOCUMENTS}"])
    (tmp_path / "pod.yaml").write_text(POD % "a")
    assert read(tmp_path) == (["a"], [])


def test_a_suite_counts_as_a_document(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("{kind: Suite, apiVersion: test.pratique/v1}")
    assert read(tmp_path) == ([], [])


def test_duplicate_members_are_refused_on_request(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("{kind: Pod, metadata: {name: a, name: b}}")
    assert read(file) == (["b"], [])
    names, (problem,) = read(file, unique_keys=True)
    assert not names
    assert problem.endswith('duplicate field "metadata.name"')
