"""Reading files, folders and streams as kubectl does."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from pratique.apimachinery.documents import read_documents, read_file
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.manifest_files import list_files


def names(path: Path) -> list[object]:
    return [document.data["name"] for document in read_documents(path)]


def stream(raw: bytes) -> list[tuple[int, int, object]]:
    documents = read_documents("-", stdin=io.BytesIO(raw))
    return [(document.index, document.line, document.data) for document in documents]


def refusal(path: Path | str, raw: bytes = b"") -> str:
    with pytest.raises(InputError) as refused:
        list(read_documents(path, stdin=io.BytesIO(raw)))
    return str(refused.value)


def test_the_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "C.JSON", ".hidden.yaml", "d.txt", "e.jsonl"):
        (tmp_path / name).write_text(f'{{"name": "{name}"}}')
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "f.yaml").write_text("name: f")
    (tmp_path / "folder.yaml").mkdir()
    assert names(tmp_path) == [".hidden.yaml", "C.JSON", "a.yaml", "b.yml", "f"]


def write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"name: {file.stem}")


def test_subfolders_are_read_in_name_order(tmp_path: Path) -> None:
    for name in ("c.yaml", "b/z.yaml", "b/deep/er/x.json", "a.yml", "d/w.yaml", "b.yaml"):
        write(tmp_path / name)
    assert names(tmp_path) == ["a", "x", "z", "b", "c", "w"]


@pytest.mark.parametrize("hidden", [".git", "..data", "..2024_11_22", ".hidden/inner"])
def test_hidden_subfolders_are_read_only_when_named(tmp_path: Path, hidden: str) -> None:
    write(tmp_path / "a.yaml")
    write(tmp_path / hidden / "b.yaml")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / hidden) == ["b"]


def test_a_linked_folder_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "b.yaml")
    folder = tmp_path / "folder"
    write(folder / "a.yaml")
    (folder / "again").symlink_to(".")
    (folder / "beside").symlink_to("../elsewhere")
    (folder / "twice").symlink_to("../elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to("..")
    assert names(folder) == ["a", "b"]


def test_a_named_file_is_read_whatever_its_extension(tmp_path: Path) -> None:
    file = tmp_path / "manifest"
    file.write_text("name: a")
    (document,) = read_documents(file)
    assert document.file == str(file)
    assert document.data == {"name": "a"}


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "..2024").mkdir()
    (tmp_path / "..2024" / "a.yaml").write_text("name: a")
    (tmp_path / "..data").symlink_to("..2024")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert names(tmp_path) == ["a"]


def test_an_empty_file_among_others_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n")
    (tmp_path / "b.yaml").write_text("name: b")
    assert names(tmp_path) == ["b"]
    assert list(read_file(str(tmp_path / "a.yaml"))) == []


def test_json_lines_keep_their_line_numbers() -> None:
    assert stream(b'\n{"a":1}\n\n{"a":2}\r\n') == [(0, 2, {"a": 1}), (1, 4, {"a": 2})]


def test_multi_line_values_may_follow_json_lines() -> None:
    assert stream(b'{"a":1}\n{"a":2}\n{\n"a": 3\n}\n{"a":4}') == [
        (0, 1, {"a": 1}),
        (1, 2, {"a": 2}),
        (2, 3, {"a": 3}),
        (3, 6, {"a": 4}),
    ]


def test_yaml_is_read_from_standard_input() -> None:
    assert stream(b"a: 1\n---\na: 2\n") == [(0, 1, {"a": 1}), (1, 3, {"a": 2})]


def test_a_line_is_yielded_before_the_next_is_written() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb", buffering=0) as writer:
        documents = read_documents("-", stdin=reader)
        for number in range(3):
            writer.write(b'{"number": %d}\n' % number)
            assert next(documents).data == {"number": number}


def test_a_field_of_a_json_line_is_located_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": 1}\n{"b": {"c": 2}}\n')
    position = list(read_documents(file))[1].position(("b", "c"))
    assert (position.line, position.column) == (2, 8)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "standard input: holds no documents; expected an object with apiVersion and kind"),
        (b"\n\n", "standard input: holds no documents"),
        (b'{"a":1}\n[1]\n', "standard input: document 2, line 2, column 1: expected an object"),
        (
            b'{"a":1}\n{"b"\n',
            "standard input: document 2, line 3, column 1: not JSON: the text ends before",
        ),
    ],
)
def test_an_unreadable_stream_is_reported(raw: bytes, message: str) -> None:
    assert refusal("-", raw).startswith(message)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "a.yaml"
    assert refusal(missing) == f"{missing}: no such file or folder"


def test_a_folder_without_manifests_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("name: a")
    expected = "holds no .yaml, .yml or .json file, and neither do its subfolders"
    others = "; files with other endings, such as a.txt, are not read"
    assert refusal(tmp_path) == f"{tmp_path}: {expected}{others}"
    (tmp_path / "a.txt").unlink()
    assert refusal(tmp_path) == f"{tmp_path}: {expected}"


def test_an_empty_file_alone_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.touch()
    assert refusal(file) == f"{file}: holds no documents; expected an object with apiVersion and kind"


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
        assert refusal(file).startswith(f"{file}: ")


def test_a_path_that_is_no_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert refusal(tmp_path / "loop.yaml") == f"{tmp_path / 'loop.yaml'}: too many levels of symbolic links"


@pytest.mark.parametrize("what", ["a device", "a pipe"])
def test_what_may_never_end_is_read_only_where_it_is_named(tmp_path: Path, what: str) -> None:
    file = tmp_path / "a.yaml"
    if what == "a pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    (tmp_path / "b.yaml").write_text("a: 1")
    assert refusal(tmp_path) == f"{file}: is a device or a pipe, which is read only where it is named"
    assert list_files(file) == [str(file)]


def test_only_folders_are_expanded(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    assert list_files(tmp_path) == [str(tmp_path / "a.yaml")]
    assert list_files(tmp_path / "b.yaml") == [str(tmp_path / "b.yaml")]
    assert list_files("-") == ["-"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ([], ["a.json", "a.yaml", "b/a.yaml", "b/c/d.yaml", "e/f.yaml"]),
        (["a.yaml"], ["a.json", "b/c/d.yaml", "e/f.yaml"]),
        (["./a.yaml", "a"], ["a.json", "b/c/d.yaml", "e/f.yaml"]),
        (["b/a.yaml"], ["a.json", "a.yaml", "b/c/d.yaml", "e/f.yaml"]),
        (["b"], ["a.json", "a.yaml", "e/f.yaml"]),
        (["b/c/", "e/*"], ["a.json", "a.yaml", "b/a.yaml"]),
        (["*.json", "[ef].yaml"], ["a.yaml", "b/a.yaml", "b/c/d.yaml"]),
        (["A.yaml", "/a.yaml"], ["a.json", "a.yaml", "b/a.yaml", "b/c/d.yaml", "e/f.yaml"]),
    ],
)
def test_patterns_leave_files_and_subfolders_out(
    patterns: list[str], left: list[str], tmp_path: Path
) -> None:
    for name in ("a.json", "a.yaml", "b/a.yaml", "b/c/d.yaml", "e/f.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(Path(file).relative_to(tmp_path)) for file in list_files(tmp_path, patterns)] == left


def test_patterns_can_leave_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    with pytest.raises(InputError, match="neither do its subfolders, without what is excluded"):
        list_files(tmp_path, ["*"])
    assert list_files(tmp_path / "a.yaml", ["a.yaml"]) == [str(tmp_path / "a.yaml")]
