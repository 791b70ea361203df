"""How `pratique review` reports JSON that no API server writes, in reviews and in manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pratique_cli.main import main
from support.front_doors.reviews import review_body
from support.hostile_json import HOSTILE

UNREADABLE = sorted(
    {name for name, (_, problem) in HOSTILE.items() if problem == "is not JSON"}
    | {"4,301 digits", "310 digits", "1e400"}
)
LIMITED = {
    "a NUL in a name": "a member whose name has a NUL",
    "201 levels": "nested too deeply",
    "600,001 values": "more than 600000 values",
}
OBJECT = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"},"data":-}'


def problem_of(path: Path, text: bytes, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    file = path / "hostile.json"
    file.write_bytes(text)
    with pytest.raises(SystemExit) as ended:
        main(["review", str(file)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("around", ["an object", "a review"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_invalid_json_is_reported_with_its_position(
    tmp_path: Path, around: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OBJECT.replace(b"-", HOSTILE[name][0])
    if around == "a review":
        text = review_body(object="-the object-").replace(b'"-the object-"', text)
    code, said = problem_of(tmp_path, text, capsys)
    assert code == 2
    assert "hostile.json: document 1, line 1, column " in said
    assert "not JSON: " in said or "not UTF-8: " in said


@pytest.mark.parametrize("name", LIMITED)
def test_invalid_reviews_get_the_front_doors_message(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = review_body(object="-the object-").replace(b'"-the object-"', HOSTILE[name][0])
    code, said = problem_of(tmp_path, text, capsys)
    assert code == 2
    assert LIMITED[name] in said


def test_the_last_duplicate_member_wins_as_in_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "twice.json"
    file.write_bytes(OBJECT.replace(b"-", b'{"a":"first","a":"last"}'))
    with pytest.raises(SystemExit) as ended:
        main(["review", str(file), "-o", "json"])
    assert ended.value.code == 0
    assert "first" not in json.dumps(capsys.readouterr().out)
