from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique_cli.outputs import ReviewCounts, UndecidedDocument
from pratique_cli.outputs.junit import HEAD, TAIL, JUnitOutput, JUnitSuite, Part, error, failure, system_out
from support.hostile_reviews import HOSTILE, denied_hostilely, hostile_manifest, missed_hostilely

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
COUNTS = ("tests", "failures", "errors")
PROBLEM = (set[str](), {"type", "message"}, list[str]())
# What junit-10.xsd of Jenkins and jenkins-junit.xsd of JUnit both let pass:
# attributes that must be there, attributes that may, and children in the order in which they may come.
SCHEMA = {
    "testsuites": (set[str](), {"name", "time", *COUNTS}, ["testsuite"]),
    "testsuite": ({"name", *COUNTS}, {"time", "skipped", "timestamp", "hostname", "id"}, ["testcase"]),
    "testcase": ({"name"}, {"time", "classname"}, ["error", "failure", "system-out"]),
    "error": PROBLEM,
    "failure": PROBLEM,
    "system-out": (set[str](), set[str](), list[str]()),
}


def read(report: str | bytes) -> ET.Element:
    """Parse a report, and check it against the schemas."""
    root = ET.fromstring(report)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= required | optional
        order = [children.index(child.tag) for child in element]
        assert order == sorted(order)
    for suite in root:
        cases = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}
        assert {name: int(suite.attrib[name]) for name in cases} == {
            name: len(suite.findall(path)) for name, path in cases.items()
        }
        names = [case.attrib["name"] for case in suite]
        assert len(set(names)) == len(names)
        assert float(suite.attrib["time"]) == pytest.approx(
            sum(float(case.attrib["time"]) for case in suite), abs=1e-5
        )
    return root


def report_of(*write: Callable[[JUnitOutput], None]) -> ET.Element:
    stream = io.BytesIO()
    output = JUnitOutput(stream)
    for item in write:
        item(output)
    output.finish(ReviewCounts())
    return read(stream.getvalue())


def test_every_document_is_a_case_and_every_file_a_suite(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{CONFIG_MAP}---\n{CONFIG_MAP}")
    (tmp_path / "b.yaml").write_text(CONFIG_MAP.replace("conf", "other"))
    ran = pratique("review", "-o", "junit", ".", "-", stdin=CONFIG_MAP)
    suites = read(ran.stdout)
    assert [suite.attrib["name"] for suite in suites] == ["a.yaml", "b.yaml", "standard input"]
    assert [[case.attrib["name"] for case in suite] for suite in suites] == [
        ["ConfigMap default/conf", "ConfigMap default/conf (2)"],
        ["ConfigMap default/other"],
        ["ConfigMap default/conf"],
    ]
    assert ran.returncode == 0


def test_a_denial_is_a_failure_with_reason_message_and_place(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"# first\n{CONFIG_MAP}")
    ran = pratique("review", "--admission-control", "AlwaysDeny", "-o", "junit", "a.yaml")
    (failure,) = read(ran.stdout).findall("testsuite/testcase/failure")
    message = 'configmaps "conf" is forbidden: admission control is denying all modifications'
    assert failure.attrib == {"type": "Forbidden", "message": message}
    assert failure.text == f"a.yaml:2: AlwaysDeny: {message}"
    assert ran.returncode == 1


def test_an_unreadable_document_is_an_error(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"kind: Podd\napiVersion: v1\n---\n{CONFIG_MAP}")
    ran = pratique("review", "-o", "junit", "a.yaml")
    (suite,) = read(ran.stdout)
    assert [case.attrib["name"] for case in suite] == ["document at line 1", "ConfigMap default/conf"]
    (error,) = suite.findall("testcase/error")
    assert error.attrib["type"] == "unreadable"
    assert ran.stderr == f"pratique: {error.attrib['message']}\n"
    assert ran.returncode == 2


def test_an_undecided_document_is_an_error_under_its_own_name() -> None:
    asked = denied_hostilely(text="conf").review
    missed = UndecidedDocument(InputError("no decision", file="a.yaml"), asked)
    (case,) = report_of(lambda output: output.write_problem(missed)).findall("testsuite/testcase")
    assert case.attrib["name"] == "ConfigMap n/conf"
    assert case[0].attrib == {"type": "undecided", "message": "no decision"}


def test_empty_input_still_gives_a_report(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n")
    ran = pratique("review", "-o", "junit", "a.yaml")
    (suite,) = read(ran.stdout)
    assert (suite.attrib["name"], suite.attrib["errors"], ran.returncode) == ("a.yaml", "1", 2)


def test_hostile_names_do_not_break_the_report(pratique: Program, tmp_path: Path) -> None:
    file = 'a"<&\U0001f6a2\x07.json'
    (tmp_path / file).write_text(hostile_manifest())
    (suite,) = read(pratique("review", "-o", "junit", file).stdout)
    assert suite.attrib["name"] == file.replace("\x07", "\\x07")
    assert suite[0].attrib["name"].startswith("ConfigMap n/a\\x00b\\x1b[31m\r\n::error file=x:: ]]> <x")


def test_hostile_texts_do_not_break_the_report() -> None:
    root = report_of(
        lambda output: output.write(denied_hostilely()),
        lambda output: output.write_problem(missed_hostilely()),
    )
    expected_text = HOSTILE.translate(
        {ord(c): c.encode("unicode_escape").decode() for c in "\0\x1b\x85\ufffe\udcff"}
    )
    (failure,), (error,) = root.findall(".//failure"), root.findall(".//error")
    assert failure.attrib == {"type": expected_text, "message": expected_text}
    assert error.attrib == {"type": "unreadable", "message": expected_text}
    assert error.text == expected_text
    assert root.findall(".//system-out")[0].text is not None


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_reported(text: str) -> None:
    root = report_of(lambda output: output.write(denied_hostilely(text=text)))
    assert len(root.findall(".//failure")) == 1


def test_a_large_suite_is_not_written_from_memory() -> None:
    written: list[int] = []

    class Counting(io.BytesIO):
        def write(self, data: object) -> int:
            assert isinstance(data, bytes)
            written.append(len(data))
            return len(data)

    output = JUnitOutput(Counting())
    for line in range(2000):
        output.write(denied_hostilely(line=line, text="long " * 200))
    output.finish(ReviewCounts())
    assert sum(written) > 4_000_000
    assert max(written) < 1_000_000


def suite_of(*cases: tuple[str, float, list[Part]]) -> ET.Element:
    suite, stream = JUnitSuite("a.yaml"), io.BytesIO(HEAD)
    stream.seek(0, io.SEEK_END)
    for name, seconds, parts in cases:
        suite.add(name, seconds, parts)
    suite.write_to(stream)
    stream.write(TAIL)
    return read(stream.getvalue())[0]


def test_the_counts_of_a_suite_are_those_of_its_cases() -> None:
    suite = suite_of(
        ("a", 0.5, [failure("Forbidden", "no", "a.yaml:1: no"), system_out("careful")]),
        ("b", 0.25, [error("unreadable", "not YAML")]),
        ("c", 0.25, [system_out("careful")]),
        ("d", 0.0, []),
    )
    counts = {name: suite.attrib[name] for name in (*COUNTS, "skipped", "time")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "0", "time": "1.000000"}


@pytest.mark.parametrize(
    ("seconds", "written"), [(1e-7, "0.000000"), (0.00001, "0.000010"), (90.0, "90.000000")]
)
def test_times_have_no_exponent(seconds: float, written: str) -> None:
    assert suite_of(("a", seconds, []))[0].attrib["time"] == written


def test_repeated_names_are_numbered() -> None:
    suite = suite_of(*[("a", 0.0, [])] * 3)
    assert [case.attrib["name"] for case in suite] == ["a", "a (2)", "a (3)"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_printable_text_reads_back_unchanged(text: str) -> None:
    kept = "".join(character for character in text if character.isprintable() or character in "\t\n\r")
    (case,) = suite_of((kept, 0.0, [failure(kept, kept, kept)]))
    assert (case.attrib["name"], case[0].attrib["message"], case[0].text or "") == (kept, kept, kept)
