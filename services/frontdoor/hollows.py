"""Hollows: large AdmissionReviews without what is deep inside of their objects, so that the rest is read in no time.

Reading megabytes keeps everybody else waiting, even where objects stay the bytes that they are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.json_portions import Place, Stretch

_OBJECTS = {("request", "object"), ("request", "oldObject"), ("request", "options")}
_PIECE_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class _Filling:
    """What was taken out, and what stands in its place."""

    begin: Place
    end: Place
    mark: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Hollow:
    """A review that was hollowed out."""

    text: bytes
    """JSON like the review, but that its large objects have other members."""
    body: bytes
    fillings: Sequence[_Filling]

    def fill(self, content: bytes) -> bytes:
        """Give an object of the hollow text as the bytes that it was in the review."""
        pieces = []
        for filling in self.fillings:
            before, mark, after = content.partition(filling.mark)
            if mark:
                pieces += [before, *_pieces(self.body, filling.begin.byte, filling.end.byte)]
                content = after
        # Of so many bytes objects Python copies what they hold while others run.
        return b"".join([*pieces, content]) if pieces else content


def hollow_out(body: bytes, stretches: Sequence[Stretch]) -> Hollow:
    """Take out of a review that was checked what is deep inside of its objects, of the stretches that it has."""
    fillings = list(_fillings(stretches))
    pieces, begin = [], 0
    for filling in fillings:
        pieces += [body[begin : filling.begin.byte], filling.mark]
        begin = filling.end.byte
    return Hollow(b"".join([*pieces, body[begin:]]) if pieces else body, body, fillings)


def _fillings(stretches: Sequence[Stretch]) -> Iterator[_Filling]:
    begin: Place | None = None
    for index, stretch in enumerate(stretches):
        if stretch.path not in _OBJECTS:
            continue
        begin = begin or stretch.begin
        following = stretches[index + 1 : index + 2]
        if not following or following[0].begin != stretch.end or following[0].path != stretch.path:
            yield _Filling(begin, stretch.end, _mark(begin, stretch.end, index))
            begin = None


def _mark(begin: Place, end: Place, number: int) -> bytes:
    """Close all in the object of the review, add a member to it, and open all that is to go on.

    A review that was checked has it nowhere: no name has a NUL, and within a string its quotes would be escaped.
    """
    return begin.closing(2)[:-1] + b',"\\u0000%d":null,' % number + end.opening(2)[1:]


def _pieces(body: bytes, begin: int, end: int) -> Iterator[bytes]:
    for start in range(begin, end, _PIECE_BYTES):
        yield body[start : min(start + _PIECE_BYTES, end)]
