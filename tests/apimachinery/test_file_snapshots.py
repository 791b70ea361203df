"""What a load found in files, compared with the load before it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from pratique.apimachinery.documents import read_documents
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.file_snapshots import FilesSnapshot, record_files

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: shop}\n"
EMPTY_LIST = "apiVersion: v1\nkind: List\nitems: []\n"


def snapshot_of(path: Path) -> FilesSnapshot:
    with (
        record_files() as snapshot,
        contextlib.suppress(InputError),
    ):  # an empty folder is an error of its own
        list(read_documents(path))
    return snapshot


def pod_manifest(name: str) -> str:
    return POD.replace("NAME", name)


def test_objects_are_recorded_by_kind_namespace_and_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        f"{pod_manifest('a')}---\nkind: PodList\napiVersion: v1\nitems: [{{metadata: {{name: b}}}}]\n"
    )
    assert snapshot_of(tmp_path).objects == {("Pod", "shop", "a"), ("Pod", "", "b")}


def test_files_are_recorded_only_inside_the_block(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(pod_manifest("a"))
    with record_files() as snapshot:
        pass
    list(read_documents(tmp_path))
    assert snapshot.files == {}


def test_an_empty_file_is_reported_unless_a_list_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    (tmp_path / "stated.yaml").write_text(EMPTY_LIST)
    (tmp_path / "full.yaml").write_text(pod_manifest("a"))
    assert snapshot_of(tmp_path).empty_files == [str(tmp_path / "empty.yaml")]


def test_a_file_that_lost_all_its_objects_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod_manifest("a"))
    before = snapshot_of(tmp_path)
    file.write_text("# nothing\n")
    with pytest.raises(ConfigurationError, match=f"^{file}: no longer holds any objects, but held 1 before"):
        snapshot_of(tmp_path).check_after(before)


@pytest.mark.parametrize("content", [EMPTY_LIST, None], ids=["a list says so", "the file is deleted"])
def test_objects_can_be_removed_on_purpose(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod_manifest("a"))
    (tmp_path / "b.yaml").write_text(pod_manifest("b"))
    before = snapshot_of(tmp_path)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    snapshot_of(tmp_path).check_after(before)


def test_a_folder_that_lost_all_its_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "a.yaml").write_text(pod_manifest("a"))
    before = snapshot_of(tmp_path)
    (folder / "a.yaml").unlink()
    with pytest.raises(ConfigurationError, match=f"^{folder}: no longer holds any files"):
        snapshot_of(tmp_path).check_after(before)


@pytest.mark.parametrize(
    ("content", "doubt"),
    [
        (pod_manifest("a") + "---\n" + pod_manifest("b"), ""),
        (pod_manifest("a") + "---\n" + pod_manifest("b") + "# more\n", ""),
        (pod_manifest("a"), "without Pod b"),
        ((pod_manifest("a") + "---\n" + pod_manifest("b")).rstrip("\n"), " ends early"),
        (pod_manifest("c"), "without Pod a, Pod b"),
    ],
)
def test_a_file_that_may_be_half_written_is_doubted(tmp_path: Path, content: str, doubt: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod_manifest("a") + "---\n" + pod_manifest("b"))
    before = snapshot_of(tmp_path)
    file.write_text(content)
    expected = f"{file}{doubt}" if doubt.startswith(" ") else doubt
    assert snapshot_of(tmp_path).doubt_after(before) == expected


def test_of_many_lost_objects_three_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("---\n".join(pod_manifest(name) for name in "abcde"))
    before = snapshot_of(tmp_path)
    file.write_text(pod_manifest("a"))
    assert snapshot_of(tmp_path).doubt_after(before) == "without Pod b, Pod c, Pod d and 1 more"
