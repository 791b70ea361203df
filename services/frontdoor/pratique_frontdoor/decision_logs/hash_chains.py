"""Hash chains: each line has the hash of the previous one; and the verification of such lines.

A line is a JSON object whose last member is ``hash``: SHA-256, or HMAC-SHA-256 with a key, of the bytes of the same
object without that member. Hashing bytes instead of values avoids any ambiguity of encoding.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import encode
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared

VERSION = 1
"""The version of the format; every head has it."""
FIRST_PREVIOUS_HASH = "0" * 64
"""The previous hash of the first line."""
_BEGINNING = b'{"sequence":'
"""What every line begins with, so that half a line can be told from what is no line."""
_SUFFIX = pattern(rb',"hash":"([0-9a-f]{64})"}')
_SUFFIX_BYTES = len(b',"hash":""}') + 64


def digest(key: bytes | None, content: bytes) -> str:
    """Return the hash of a line's bytes."""
    if key is None:
        return hashlib.sha256(content).hexdigest()
    return hmac.digest(key, content, hashlib.sha256).hex()


@dataclasses.dataclass(slots=True)
class HashChain:
    """The end of a chain, to which lines are added."""

    key: bytes | None = dataclasses.field(repr=False, default=None)
    sequence: int = 0
    """The number of the last line; the first line has number 1."""
    last: str = FIRST_PREVIOUS_HASH
    """The hash of the last line."""

    @property
    def algorithm(self) -> str:
        """The hash algorithm of the lines."""
        return "sha256" if self.key is None else "hmac-sha256"

    def line(self, members: Mapping[str, Any]) -> bytes:
        """Return the next line. The chain does not change until :meth:`advance`."""
        body = encode({"sequence": self.sequence + 1, "previous": self.last, **members})
        return body[:-1] + b',"hash":"' + digest(self.key, body).encode() + b'"}\n'

    def advance(self, line: bytes) -> None:
        """Advance the chain after a line has been written."""
        self.sequence += 1
        self.last = line[-67:-3].decode()


class Link(msgspec.Struct, frozen=True):
    """The members that link a line to its neighbors."""

    sequence: int
    previous: str
    kind: str
    algorithm: str = ""
    version: int = VERSION
    final: bool = False
    lost: int = 0
    repaired_bytes: int = msgspec.field(default=0, name="repairedBytes")


_link_decoder = msgspec.json.Decoder(prepared(Link))


class Fault(msgspec.Struct, frozen=True):
    """A position where the lines are not the chain that was written."""

    file: str
    line: int
    """The line of the file, counted from 1."""
    text: str
    """The description of the fault."""


class ChainReport(msgspec.Struct):
    """The result of the verification of a chain."""

    entries: int = 0
    first: int = 0
    """The number of the first entry; 0 without entries."""
    last: int = 0
    last_hash: str = ""
    decisions: int = 0
    lost: int = 0
    """Entries that the writer reports as lost."""
    repairs: int = 0
    """How often the writer was killed within a line."""
    is_sealed: bool = False
    """Whether the last entry is a final seal."""
    foreign_lines: int = 0
    """Lines that no writer of decision logs has written."""
    is_keyed: bool = False
    """Whether the lines are verified with a key."""
    faults: list[Fault] = msgspec.field(default_factory=list)


class KeyMissingError(ConfigurationError):
    """The chain was written with a key, and none was given."""


class Verifier:
    """Verifies the lines of one chain, file after file."""

    def __init__(self, key: bytes | None = None) -> None:
        """Accept lines written with ``key``, or without one."""
        self.report = ChainReport(is_keyed=key is not None)
        self.hashes: set[str] = set()
        """The hashes of all complete lines."""
        self._key = key
        self._previous: Link | None = None

    def verify(self, name: str, lines: Iterable[bytes], *, is_last: bool = True) -> None:
        """Verify the lines of one file, each with its newline.

        Raises:
            KeyMissingError: a line was written with a key, and none was given.
        """
        number, line = 0, b"\n"
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n") and _BEGINNING.startswith(line[: len(_BEGINNING)]):
                where = (
                    "the writer was killed, or is about to go on" if is_last else "a line of an earlier file"
                )
                self._fault(name, number, f"ends within an entry: {where}")
                return
            self._verify_line(name, number, line)
        if not number:
            self._fault(name, 0, "is empty: a log begins with a head")

    def _verify_line(self, name: str, number: int, line: bytes) -> None:
        report = self.report
        suffix = _SUFFIX.fullmatch(line[-_SUFFIX_BYTES - 1 : -1])
        body = line[: -_SUFFIX_BYTES - 1] + b"}"
        try:
            link = _link_decoder.decode(body) if suffix else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            link = None
        if suffix is None or link is None:
            report.foreign_lines += 1
            self._fault(name, number, "is no entry of a decision log")
            return
        if link.algorithm == "hmac-sha256" and self._key is None:
            raise KeyMissingError(f"{name}: the chain was made with a key: name its file with --key")
        found = suffix[1].decode()
        if not hmac.compare_digest(found, digest(self._key, body)):
            self._fault(name, number, f"entry {link.sequence} was changed: its hash is not that of its text")
        elif fault := self._misplaced(link, number):
            self._fault(name, number, fault)
        self._previous = link
        self.hashes.add(found)
        report.entries += 1
        report.first = report.first or link.sequence
        report.last, report.last_hash = link.sequence, found
        report.is_sealed = link.kind == "seal" and link.final
        report.decisions += link.kind == "decision"
        report.lost += link.lost
        report.repairs += bool(link.repaired_bytes)

    def _misplaced(self, link: Link, number: int) -> str:
        """Return what is wrong with the position of a valid entry."""
        if link.version != VERSION:
            return f"entry {link.sequence} is of version {link.version} of the format; this program knows {VERSION}"
        if number == 1 and link.kind != "head":
            return f"entry {link.sequence} begins the file, and is no head: entries before it are missing"
        if self._previous is not None:
            return self._misplaced_after(self._previous, link)
        begins = link.sequence > 0 and (link.sequence == 1) == (link.previous == FIRST_PREVIOUS_HASH)
        return "" if begins else f"entry {link.sequence} does not begin a log"

    def _misplaced_after(self, before: Link, link: Link) -> str:
        if link.sequence != before.sequence + 1:
            return (
                f"entry {link.sequence} follows entry {before.sequence}: entries are missing, or out of order"
            )
        if link.previous != self.report.last_hash:
            return f"entry {link.sequence} does not follow this entry {before.sequence}, but another one"
        if before.kind == "seal" and before.final and link.kind != "head":
            return f"entry {link.sequence} follows a final seal, and is no head"
        return ""

    def _fault(self, name: str, number: int, text: str) -> None:
        self.report.faults.append(Fault(name, number, text))


def last_link(line: bytes, key: bytes | None) -> tuple[int, str]:
    """Return the number and hash of a line that a chain is to continue after.

    Raises:
        ValueError: it is not a line of such a chain.
    """
    suffix = _SUFFIX.fullmatch(line[-_SUFFIX_BYTES - 1 : -1])
    body = line[: -_SUFFIX_BYTES - 1] + b"}"
    if suffix is None or not hmac.compare_digest(suffix[1].decode(), digest(key, body)):
        raise ValueError("no entry of a chain with this key")
    try:
        return _link_decoder.decode(body).sequence, suffix[1].decode()
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("no entry of a chain") from None
