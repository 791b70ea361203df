"""A written suite reads back unchanged, wherever it is stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import decode, encode
from pratique_cli.suites.reading import find_suites, read_cases
from pratique_cli.suites.writing import WrittenCase, suite_text
from support.policy_suites import POLICIES

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(VALUES, TEXTS.filter(str.strip))
def test_any_object_survives_writing_and_reading(value: object, name: str) -> None:
    manifest = CONFIG_MAP | {"data": value}
    case = WrittenCase(name=name, manifest=manifest, expect={"allowed": True})
    (document,) = read_text(suite_text("s", [case]).encode(), "suite.yaml")
    (found,) = document.data["cases"]
    # As Go writes it: a float that has no fraction is read as an integer afterwards.
    assert found == decode(encode({"name": name, "manifest": manifest, "expect": {"allowed": True}}))


def test_a_written_suite_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policies").mkdir()
    Path("policies/policies.yaml").write_text(POLICIES)
    Path("old.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
    cases = [
        WrittenCase(
            name="a",
            manifest="old.yaml",
            request={"operation": "UPDATE", "old": "old.yaml"},
            expect={"allowed": True},
        ),
        WrittenCase(
            name="b", manifest=CONFIG_MAP, phase="mutate", expect={"fixedPoint": True}, cluster=[CONFIG_MAP]
        ),
    ]
    text = suite_text(
        "s",
        cases,
        config=["policies"],
        cluster=["old.yaml"],
        flags={"first-denial-only": True},
        folder="suites",
        comment="found\ntoday",
    )
    Path("suites").mkdir()
    Path("suites/s.yaml").write_text(text)
    problems: list[InputError] = []
    first, second = read_cases(list(find_suites([Path("suites")], problems)), problems)
    assert not problems
    assert first.settings.config == (Path("policies"),)
    assert first.settings.first_denial_only
    assert first.cluster is not None
    assert first.cluster.paths == (Path("old.yaml"),)
    assert second.expect.fixed_point
    assert text.startswith("# found\n# today\napiVersion: test.pratique/v1\nkind: TestSuite\n")


def test_empty_members_are_omitted_except_an_empty_cluster() -> None:
    case = WrittenCase(name="a", manifest=CONFIG_MAP, expect={"warnings": []})
    written = yaml.safe_load(suite_text("s", [case]))
    assert written.keys() == {"apiVersion", "kind", "metadata", "cases"}
    assert written["cases"] == [{"name": "a", "manifest": CONFIG_MAP, "expect": {"warnings": []}}]
    assert yaml.safe_load(suite_text("s", [case], cluster=[]))["cluster"] == []


def test_absolute_paths_stay_absolute() -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = yaml.safe_load(suite_text("s", [], config=[Path(folder)], folder="suites"))
    assert written["config"] == [folder]
