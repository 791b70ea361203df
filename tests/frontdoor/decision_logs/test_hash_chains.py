"""Every later change to a log is found, and nothing that the writer does is mistaken for one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.key_files import read_key
from pratique_frontdoor.decision_logs.hash_chains import HashChain, KeyMissingError, Verifier

KEY = b"k" * 32
HEAD = {"kind": "head", "version": 1}


def written(decisions: int, key: bytes | None = None, user: str = "jane") -> list[bytes]:
    """The lines of a log: a head, decisions, and a final seal."""
    chain, lines = HashChain(key), []
    members: list[dict[str, object]] = [
        {**HEAD, "algorithm": chain.algorithm},
        *({"kind": "decision", "user": user, "allowed": number % 2 == 0} for number in range(decisions)),
        {"kind": "seal", "final": True},
    ]
    for member in members:
        line = chain.line(member)
        chain.advance(line)
        lines.append(line)
    return lines


def verified(*files: Sequence[bytes], key: bytes | None = None) -> Verifier:
    verifier = Verifier(key)
    for number, lines in enumerate(files):
        verifier.verify(f"file{number}", lines, is_last=number == len(files) - 1)
    return verifier


def faults(lines: Sequence[bytes], key: bytes | None = None) -> list[int]:
    return [fault.line for fault in verified(lines, key=key).report.faults]


keys = st.sampled_from([None, KEY])
logs = st.integers(1, 12)


@given(logs, keys)
def test_an_unchanged_log_is_valid(decisions: int, key: bytes | None) -> None:
    verifier = verified(written(decisions, key), key=key)
    assert verifier.report.faults == []
    assert (verifier.report.entries, verifier.report.decisions) == (decisions + 2, decisions)
    assert verifier.report.is_sealed


@given(logs, keys, st.data())
def test_a_changed_byte_is_found_in_its_line(decisions: int, key: bytes | None, data: st.DataObject) -> None:
    lines = written(decisions, key)
    number = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[number]) - 2))  # the newline is what makes it a line
    byte = data.draw(st.integers(0, 255).filter(lambda first: first not in (lines[number][at], 10)))
    lines[number] = lines[number][:at] + bytes([byte]) + lines[number][at + 1 :]
    try:
        assert number + 1 in faults(lines, key)
    except KeyMissingError:
        pytest.fail("a log without a key asks for one only if it says so itself")


@given(logs, keys, st.data())
def test_a_line_removed_from_the_middle_is_detected(
    decisions: int, key: bytes | None, data: st.DataObject
) -> None:
    lines = written(decisions, key)
    first = data.draw(st.integers(0, len(lines) - 2))
    last = data.draw(st.integers(first, len(lines) - 2))
    del lines[first : last + 1]
    assert faults(lines, key)[0] == first + 1


@given(logs, keys, st.data())
def test_two_swapped_lines_are_detected(decisions: int, key: bytes | None, data: st.DataObject) -> None:
    lines = written(decisions, key)
    first = data.draw(st.integers(0, len(lines) - 2))
    other = data.draw(st.integers(first + 1, len(lines) - 1))
    lines[first], lines[other] = lines[other], lines[first]
    assert faults(lines, key)[0] == first + 1


@given(logs, keys, st.data())
def test_an_inserted_line_is_detected(decisions: int, key: bytes | None, data: st.DataObject) -> None:
    lines = written(decisions, key)
    stranger = written(decisions, key, user="eve")[1]
    new = data.draw(st.sampled_from([lines[-1], lines[0], lines[1], stranger, b"{}\n", b"\n", b"not JSON\n"]))
    at = data.draw(st.integers(0, len(lines)))
    lines.insert(at, new)
    assert faults(lines, key)


@given(logs, keys, st.data())
def test_a_line_of_another_log_is_detected(decisions: int, key: bytes | None, data: st.DataObject) -> None:
    lines, others = written(decisions, key), written(decisions, key, user="eve")
    at = data.draw(st.integers(1, decisions))
    lines[at] = others[at]
    assert faults(lines, key)


@given(logs, st.data())
def test_the_rest_of_a_chain_cannot_be_forged_without_the_key(decisions: int, data: st.DataObject) -> None:
    lines = written(decisions, KEY)
    at = data.draw(st.integers(1, len(lines) - 1))
    for wrong in (None, b"w" * 32):
        chain = HashChain(wrong, at, lines[at - 1][-67:-3].decode())
        forged = [*lines[:at], chain.line({"kind": "decision", "user": "eve", "allowed": True})]
        assert faults(forged, KEY) == [at + 1]
    assert faults(written(decisions), KEY) == list(range(1, decisions + 3))


def test_a_log_with_a_key_is_not_verified_without_it() -> None:
    with pytest.raises(KeyMissingError):
        verified(written(3, KEY))


def test_a_truncated_log_is_detected_only_against_a_hash_kept_elsewhere() -> None:
    lines = written(5)
    verifier = verified(lines[:-2])
    assert verifier.report.faults == []
    assert not verifier.report.is_sealed
    assert lines[-1][-67:-3].decode() not in verifier.hashes


def test_a_partial_line_at_the_end_is_reported() -> None:
    lines = written(2)
    report = verified([*lines[:-1], lines[-1][:-20]]).report
    assert [(fault.line, fault.text) for fault in report.faults] == [
        (4, "ends within an entry: the writer was killed, or is about to go on")
    ]


def test_a_missing_file_between_two_others_is_detected() -> None:
    chain, files = HashChain(), []
    for _ in range(3):
        lines = []
        for members in (HEAD, {"kind": "decision"}):
            lines.append(chain.line(members))
            chain.advance(lines[-1])
        files.append(lines)
    assert verified(*files).report.faults == []
    assert [fault.text for fault in verified(files[0], files[2]).report.faults] == [
        "entry 5 follows entry 2: entries are missing, or out of order"
    ]
    assert verified(files[1], files[2]).report.first == 3


def test_entries_after_a_final_seal_start_with_a_head() -> None:
    lines = written(1)
    chain = HashChain(None, 3, lines[-1][-67:-3].decode())
    assert faults([*lines, chain.line({"kind": "decision"})]) == [4]
    assert faults([*lines, chain.line(HEAD)]) == []


@pytest.mark.parametrize(
    ("content", "text"), [(b"", "0 bytes"), (b"short\n", "5 bytes"), (b"x" * 5000, "4097 bytes")]
)
def test_a_key_of_the_wrong_length_is_refused(content: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"--key .*: has {text}; a key has 32 to 4096"):
        read_key(file, "--key")
