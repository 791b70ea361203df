"""``pratique decision-log verify``, and what docs/decision-log.md shows of it, executed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pratique.apimachinery.errors import InputError
from pratique_cli.main import root
from pratique_cli.service_options import DECISION_LOG_HELPS
from pratique_frontdoor.decision_logs.hash_chains import HashChain
from pratique_frontdoor.settings import FrontDoorSettings

TEXT = (Path(__file__).parents[2] / "docs" / "decision-log.md").read_text("utf-8")
FILES = re.findall(r"^```json (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ pratique (.*?)\n(.+?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def verify(*arguments: str | Path) -> tuple[int, str]:
    command = ["decision-log", "verify", *map(str, arguments)]
    ran = CliRunner().invoke(root, command, standalone_mode=False, catch_exceptions=False)
    return ran.return_value or 0, ran.output


def log(
    file: Path, decisions: int = 3, key: bytes | None = None, chain: HashChain | None = None
) -> list[bytes]:
    chain, lines = chain or HashChain(key), []
    for kind in ("head", *["decision"] * decisions):
        lines.append(chain.line({"kind": kind, "algorithm": chain.algorithm}))
        chain.advance(lines[-1])
    file.write_bytes(b"".join(lines))
    return lines


def test_the_page_quotes_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES:
        (tmp_path / name).write_text(text)
        (tmp_path / "changed.jsonl").write_text(text.replace('"allowed":false', '"allowed":true'))
    assert len(COMMANDS) == 2
    for command, shown in COMMANDS:
        group, verb, *arguments = command.split()
        assert (group, verb) == ("decision-log", "verify")
        code, output = verify(*arguments)
        assert output == shown
        assert code == (0 if shown.startswith("whole") else 1)


def test_the_page_lists_every_flag_with_its_default() -> None:
    settings = FrontDoorSettings()
    assert {f"--{name.replace('_', '-')}" for name in DECISION_LOG_HELPS} <= set(
        re.findall(r"`(--decision-log[a-z-]*)", TEXT)
    )
    assert f"| {settings.decision_log_max_bytes >> 20} MiB |" in TEXT


def test_an_intact_log_exits_with_0_and_a_changed_one_with_1(tmp_path: Path) -> None:
    file = tmp_path / "log"
    lines = log(file)
    code, said = verify(file)
    assert code == 0
    assert said.startswith("whole: 4 entries, 3 of them decisions; the last is entry 4, hash ")
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    code, said = verify(file)
    assert code == 1
    assert f"{file}:2: entry 3 follows entry 1: entries are missing, or out of order" in said


@pytest.mark.parametrize("content", [b'{"a": 1}\n', b"hello", b"\x7fELF\n\x00", b'{"sequence":"x"}\n'])
def test_a_file_that_is_no_log_is_bad_input(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "no.log").write_bytes(content)
    with pytest.raises(InputError, match=r"no\.log: no decision log: no line is an entry of one"):
        verify(tmp_path / "no.log")


@pytest.mark.parametrize("content", [b"", b'{"seq', b'{"sequence":1,"prev'])
def test_a_log_of_which_nothing_whole_is_left_was_changed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)
    code, said = verify(tmp_path / "log")
    assert (code, "not whole: 0 entries" in said) == (1, True)


def test_one_file_of_a_log_that_is_none_is_a_change_of_the_log(tmp_path: Path) -> None:
    log(tmp_path / "log.1")
    (tmp_path / "log").write_text("hello\n")
    code, said = verify(tmp_path / "log", tmp_path / "log.1")
    assert (code, "log:1: is no entry of a decision log" in said) == (1, True)


def test_files_are_verified_in_log_order(tmp_path: Path) -> None:
    chain, files = HashChain(), [tmp_path / f"log{number}" for number in range(3)]
    for file in files:
        log(file, chain=chain)
    assert verify(files[2], files[0], files[1])[0] == 0
    assert verify(files[2], files[0])[0] == 1
    code, said = verify(files[1], files[2])
    assert code == 0
    assert "note: begins with entry 5" in said


def test_json_output_gives_the_same_result(tmp_path: Path) -> None:
    file = tmp_path / "log"
    lines = log(file)
    file.write_bytes(b"".join(lines[:2]))
    last = lines[-1][-67:-3].decode()
    code, said = verify("-o", "json", "--expect", last, file)
    document: dict[str, Any] = json.loads(said)
    assert code == 1
    assert (document["whole"], document["expectedFound"], document["faults"]) == (False, False, [])
    assert (document["entries"], document["last"]) == (2, 2)


def test_the_expected_hash_reveals_a_truncated_log(tmp_path: Path) -> None:
    file = tmp_path / "log"
    lines = log(file)
    last = lines[-1][-67:-3].decode()
    assert verify("--expect", last, file)[0] == 0
    file.write_bytes(b"".join(lines[:-1]))
    code, said = verify("--expect", last, file)
    assert code == 1
    assert "the expected hash is not in the log: entries were cut off its end, or replaced" in said


@pytest.mark.parametrize("given", [None, b"w" * 64])
def test_a_keyed_log_needs_its_key(given: bytes | None, tmp_path: Path) -> None:
    file, key = tmp_path / "log", tmp_path / "key"
    log(file, key=b"k" * 64)
    if given is not None:
        key.write_bytes(given)
        assert verify("--key", key, file)[0] == 1
        return
    ran = CliRunner().invoke(root, ["decision-log", "verify", str(file)], standalone_mode=False)
    assert "the chain was made with a key: name its file with --key" in str(ran.exception)
    key.write_bytes(b"k" * 64)
    assert verify("--key", key, file)[0] == 0
