from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique_cli.reviews.inputs import read_inputs

Pratique = Callable[..., subprocess.CompletedProcess[str]]


def names(path: Path | str, stdin: bytes | None = None) -> list[str]:
    """Return the name of each document, and ``!`` with the message for unreadable ones."""
    stream = None if stdin is None else io.BytesIO(stdin)
    return [
        f"!{read_input}" if isinstance(read_input, InputError) else str(read_input.data["name"])
        for read_input in read_inputs(path, stream)
    ]


def line(name: str) -> str:
    return json.dumps({"name": name}) + "\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.yaml", "name: a\n---\nname: b\n"),
        ("a.yaml", "---\nname: a\n---\n# nothing here\n---\nname: b\n"),
        ("a.yaml", "%YAML 1.1\n---\nname: a\n--- \nname: b\n"),
        ("a.yaml", "name: a\r\n---\r\nname: b\r\n"),
        ("a.yaml", "--- {name: a}\n--- # comment\nname: b\n...\n"),
        ("a.yaml", "kind: List\nitems:\n- name: a\n- name: b\n"),
        ("a.yml", line("a") + line("b")),
        ("a.json", line("a") + line("b")),
        ("a.json", json.dumps({"name": "a"}, indent=1) + "\n" + json.dumps({"name": "b"}, indent=1)),
        ("a.json", json.dumps({"kind": "PodList", "items": [{"name": "a"}, {"name": "b"}]}, indent=2)),
        ("a.jsonl", line("a") + "\n" + line("b")),
        ("a.json", line("a") + "---\n" + line("b")),
        ("a.yaml", line("a") + "---\nname:\n  b\n"),
        ("a.yaml", "\ufeff" + line("a") + line("b")),
        ("noname", "name: a\n---\nname: b\n"),
    ],
)
def test_documents_are_read_in_order(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_bytes(text.encode())
    assert names(tmp_path / file) == ["a", "b"]
    assert names("-", text.encode()) == ["a", "b"]


def test_folders_are_read_recursively_except_hidden_ones(tmp_path: Path) -> None:
    for place in ("b/deep", ".git", "..data"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "c.yaml").write_text(line(place))
    (tmp_path / "a.yaml").write_text(line("a"))
    assert names(tmp_path) == ["a", "b/deep"]


def test_the_files_of_a_folder_are_read_in_name_order(tmp_path: Path) -> None:
    for name in ("c.json", "a.yaml", "b.yml"):
        (tmp_path / name).write_text(line(name))
    (tmp_path / "notes.txt").write_text("not: read")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    (tmp_path / "folder.yaml").mkdir()
    assert names(tmp_path) == ["a.yaml", "b.yml", "c.json"]


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("a.yaml", "name: a\n---\nname: [\n---\nname: b\n", "document 2, line 4, column 1"),
        ("a.yaml", "name: a\n---\n- just\n- a list\n---\nname: b\n", "document 2, line 3, column 1"),
        ("a.yaml", "name: a\n---\nname: 'x\n---\nname: b\n", "document 2, line 4, column 1"),
        ("a.yaml", "name: a\n---\n&a [*a]\n---\nname: b\n", "document 2, line 3"),
        ("a.jsonl", line("a") + '{"name": \n' + line("b"), "document 2, line 2"),
        ("a.jsonl", line("a") + "oops\n" + line("b"), "document 2, line 2"),
        ("a.jsonl", line("a") + "[1]\n" + line("b"), "document 2, line 2"),
        ("a.json", line("a") + '{"name"}\n' + line("b"), "document 2, line 2"),
        ("a.json", '{\n"name":"a"\n}\n{\n"name" "x"\n}\n{\n"name":"b"\n}', "document 2, line 5, column 8"),
        ("a.yaml", "name: a\n---\nkind: List\nitems: 3\n---\nname: b\n", "document 2, line 4, column 1"),
    ],
)
def test_an_unreadable_document_does_not_affect_others(
    tmp_path: Path, file: str, text: str, wrong: str
) -> None:
    (tmp_path / file).write_text(text)
    first, problem, last = names(tmp_path / file)
    assert (first, last) == ("a", "b")
    assert problem.startswith(f"!{tmp_path / file}: {wrong}")


@pytest.mark.parametrize("text", ["", "\n \n", "# only a comment\n", "---\n---\n", "null"])
def test_empty_input_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (problem,) = names(tmp_path / "a.yaml")
    assert "holds no documents" in problem


def test_a_stream_is_read_as_it_arrives() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # bytes are all it is given
            text = line("more").encode()
            buffer[: len(text)] = text
            return len(text)

    documents = read_inputs("-", io.BufferedReader(Endless()))
    for _ in range(1000):
        assert not isinstance(next(documents), InputError)


def test_lines_and_indexes_count_through_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# head\nname: a\n---\n\nname: b\n---\n# none\n---\nname: c\n")
    documents = [
        read_input
        for read_input in read_inputs(tmp_path / "a.yaml")
        if not isinstance(read_input, InputError)
    ]
    assert [(document.index, document.line) for document in documents] == [(0, 2), (1, 5), (2, 9)]


@given(st.binary(max_size=60), st.sampled_from(["-"]))
def test_arbitrary_bytes_never_raise(raw: bytes, path: str) -> None:
    for read_input in read_inputs(path, io.BytesIO(raw)):
        assert isinstance(read_input, InputError) or isinstance(read_input.data, dict)


PIECES = [
    "name: a",
    "- x",
    "{",
    "name: 'x",
    "# no",
    "a: |\n  ----\n ---",
    "}",
    "%A",
    "&a b",
    "*a",
    "? [",
    "\t",
]


@given(st.lists(st.sampled_from(PIECES)))
def test_a_broken_document_does_not_hide_the_next_one(pieces: list[str]) -> None:
    text = "\n---\n".join([*pieces, "name: last"]) + "\n"
    assert names("-", text.encode())[-1] == "last"


TWICE = """\
kind: List
apiVersion: v1
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a, name: b}
  data:
    k: "1"
    k: "2"
- apiVersion: v1
  kind: ConfigMap
  metadata:
    <<: {labels: {a: b}}
    labels: {a: c}
    name: c
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_fields_that_a_manifest_has_twice_are_told_and_the_last_ones_count(
    pratique: Pratique, tmp_path: Path, jobs: int
) -> None:
    """Values that a merge key brings may be overridden, as they are here for labels."""
    (tmp_path / "a.yaml").write_text(TWICE)
    padding = (
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: long}}\ndata: {{k: {'x' * 600_000}}}\n"
    )
    (tmp_path / "b.yaml").write_text(padding + "---\n" + TWICE)
    ran = pratique("review", "--jobs", jobs, "a.yaml", "b.yaml")
    assert ran.returncode == 0
    assert ran.stderr.splitlines() == [
        f"pratique: {file}: document {number}, line {line + before}, column {column}: warning: "
        f'duplicate field "{field}": the last one counts'
        for file, number, before in (("a.yaml", 1, 0), ("b.yaml", 2, padding.count("\n") + 1))
        for line, column, field in ((6, 23, "metadata.name"), (9, 5, "data.k"))
    ]
    assert "ConfigMap default/b" in ran.stdout


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt"])
def test_fields_that_a_json_manifest_has_twice_are_told(
    pratique: Pratique, tmp_path: Path, name: str
) -> None:
    twice = (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{"k":"1:2","k":"2"}}'
    )
    once = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"\\u003a:"},"data":{"k":"{\\"k\\":1}"}}'
    (tmp_path / name).write_text(f"{once}\n{twice}\n")
    ran = pratique("review", "--object-validation", "off", name)
    place = f"pratique: {name}: document 2, line 2, column"
    assert ran.stderr.splitlines() == [
        f'{place} {twice.index(second) + 1}: warning: duplicate field "{field}": the last one counts'
        for second, field in (('"name":"b"', "metadata.name"), ('"k":"2"', "data.k"))
    ]
    assert (ran.returncode, "ConfigMap default/b" in ran.stdout) == (0, True)


def test_of_many_duplicate_fields_the_first_ones_are_told(pratique: Pratique, tmp_path: Path) -> None:
    fields = "".join(f'  k{number}: "1"\n' for number in range(30))
    (tmp_path / "a.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n{fields}{fields}"
    )
    ran = pratique("review", "a.yaml")
    assert [line.rpartition('field "data.')[2] for line in ran.stderr.splitlines()] == [
        f'k{number}": the last one counts' for number in range(10)
    ]
