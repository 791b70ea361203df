"""YAML read by its lines is what libyaml reads, or is left to libyaml."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pratique.apimachinery.yaml_block_style import read_block_style, read_yaml
from pratique.apimachinery.yaml_values import YamlReadError, read_values
from pratique_cli.reviews.inputs import parts_of

DATA = Path(__file__).parents[2] / "data"


def assert_same_or_left(text: bytes) -> bool:
    """Compare with libyaml's reader, types and members' order included; tell whether the text was read by lines."""
    found = read_block_style(text)
    if found is None:
        return False
    assert repr(found) == repr(list(read_values(text, unique_keys=True)))
    return True


# What a line may hold, in the order of how plain it is.
PLAIN = [
    *(
        "a",
        "v1",
        "nginx:1.27",
        "http://x/y",
        "-1",
        "--flag=x",
        "0755",
        "0x1F",
        "1e3",
        "1_000",
        "0.10",
        ".5",
        "+5",
    ),
    *(
        "yes",
        "No",
        "on",
        "n",
        "~",
        "null",
        "true",
        "TRUE",
        ".inf",
        ".nan",
        "0b1",
        "18446744073709551615",
        "1e400",
    ),
    *(
        "2026-01-01",
        "12:30:00",
        "a b",
        "a  b",
        "a#b",
        "a: b",
        "a #b",
        "a:",
        ":a",
        "a :b",
        "-",
        "- a",
        "--- a",
        "...",
    ),
    *(
        "(x)",
        "$(A)",
        "a,b",
        "a]b",
        "a{b}",
        "*a",
        "&a x",
        "!t x",
        "!!str 1",
        "@x",
        "`x",
        "%x",
        "? x",
        "=",
        "<<",
        "|+",
    ),
    *(
        "'it''s'",
        "'a'",
        '"b"',
        '"\\n"',
        '"a" b',
        "''",
        '""',
        "{}",
        "[]",
        "{a: 1}",
        "[a]",
        "|",
        "|-",
        ">",
        "|2",
        "é",
    ),
]
KEYS = [
    "a",
    "b",
    "y",
    "0",
    "1.50",
    "~",
    "null",
    "<<",
    '"a"',
    "'b'",
    '"',
    "? a",
    "a b",
    "x/y",
    ".x",
    "-a",
    "a" * 300,
]
INDENTS = st.integers(0, 4).map(" ".__mul__)
DASHES = st.sampled_from(["", "", "", "- ", "-  ", "- - ", "-"])
ENDS = st.sampled_from(["", "", "", "", " ", " # note", "# note", " #", "\t", "\r"])
LINES = st.one_of(
    st.builds("{}{}{}: {}{}".format, INDENTS, DASHES, st.sampled_from(KEYS), st.sampled_from(PLAIN), ENDS),
    st.builds("{}{}{}:{}".format, INDENTS, DASHES, st.sampled_from(KEYS), ENDS),
    st.builds("{}{}{}{}".format, INDENTS, DASHES, st.sampled_from(PLAIN), ENDS),
    st.sampled_from(["", "  ", "# note", "  # note: x", "---", "--- a", "...", "%YAML 1.1", "\t", "---  "]),
)


@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", ""]))
@example(["a:", "- b: 1", "c:", " - d"], "\n")
@example(["- a:", "  - b", "- c:", "- d: |", "    x", "", "     y", "", "", "e"], "\n")
@example(["a: |-", "  x", "  ", "b: 1"], "\n")
@example(["a: |", "  x"], "")
@example(["a: |", "", "  x"], "\n")
@example(["a: |", "   x", "  y: 1"], "\n")
@example(["a: |", "  x", " # note", "b: 1"], "\n")
@example(["- - a: 1", "  b: 2"], "\n")
@example(["a: b", "  c"], "\n")
@example(["a: # note", "  b: 1 # x: y", "c: '#' # d", "e: {} #", "f: |", "  # g"], "\n")
@example(["- |", "  a", "- - |-", "   b", "  - c: |", "       d"], "\n")
@example(["a: b # note", "  c"], "\n")
@example([": "], "\n")
@example(["a: " + "x" * 3000 + ":", "b: " + "y " * 3000 + "#", "c: #" + " " * 3000], "\n")
@example(["a: " + "x" * 3000 + ": b"], "\n")
@example(["- a", "  - b"], "\n")
@example(["a: 1", "---", "---", "# none", "---", "- b"], "\n")
@example(["a: " + "x" * 3000, "- " + "y" * 3000], "\n")
def test_any_lines_mean_the_same_or_are_left(lines: list[str], end: str) -> None:
    assert_same_or_left(("\n".join(lines) + end).encode())


TEXTS = st.sampled_from([*PLAIN, "a\nb\n", "a\n\nb", "\na", "a\n ", " a\nb", "a\n\n"]) | st.text(max_size=6)
VALUES = st.recursive(
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as people do, and lists further in than their keys."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - PyYAML's signature
        return super().increase_indent(flow, indentless=False)


Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.sampled_from([Dumper, yaml.SafeDumper]))
def test_what_dumpers_write_means_the_same_or_is_left(value: object, dumper: type[yaml.SafeDumper]) -> None:
    assert_same_or_left(yaml.dump(value, Dumper=dumper, sort_keys=False).encode())


@given(st.text(st.sampled_from("ab:- \n#|'\"{}[]1~&*!>%"), max_size=30))
def test_any_text_of_significant_characters_means_the_same_or_is_left(text: str) -> None:
    assert_same_or_left(text.encode())


@given(st.binary(max_size=40))
def test_any_bytes_mean_the_same_or_are_left(text: bytes) -> None:
    assert_same_or_left(text)


def test_most_manifests_are_read_by_their_lines() -> None:
    parts = [part for part in parts_of([DATA / "manifests"]) if part.is_yaml]
    read = [assert_same_or_left(part.text.raw) for part in parts]
    assert len(read) > 30
    assert sum(read) / len(read) > 0.9


def test_whatever_yaml_is_at_hand_means_the_same_or_is_left() -> None:
    files = [*DATA.rglob("*.y*ml"), *(DATA.parents[1] / "examples").rglob("*.yaml")]
    assert len(files) > 20
    for file in files:
        assert_same_or_left(file.read_bytes())


@pytest.mark.parametrize("text", ["a: &x 1\nb: *x\n", "a: [\n", "a: 1\na: 2\n", "a: é\n", "a: >\n  b\n"])
def test_what_is_not_plain_is_left(text: str) -> None:
    assert read_block_style(text.encode()) is None


def test_what_is_left_is_read_all_the_same() -> None:
    assert [found.value for found in read_yaml(b"a: &x 1\nb: *x\n")] == [{"a": 1, "b": 1}]
    with pytest.raises(YamlReadError, match='duplicate field "a"'):
        list(read_yaml(b"a: 1\na: 2\n", unique_keys=True))


def test_documents_have_the_lines_at_which_they_begin() -> None:
    text = b"# head\na: 1\n---\n\n# none\n---\n\n- b\n"
    found = read_block_style(text)
    assert found is not None
    assert [document.line for document in found] == [2, 8]
    assert assert_same_or_left(text)


def test_a_text_that_is_too_deep_or_too_long_is_left() -> None:
    deep = "".join(f"{' ' * level}a:\n" for level in range(99)).encode()
    assert assert_same_or_left(deep)
    assert read_block_style(deep + b" " * 99 + b"a:\n" + b" " * 100 + b"a:\n" + b" " * 101 + b"- a\n") is None
    assert read_block_style(b"a: 1\n" + b"#\n" * 524_288) is None
