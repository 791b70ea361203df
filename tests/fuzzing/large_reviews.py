"""Bytes to reviews in both ways in which they are read: whole, and without their objects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pratique.apimachinery.errors import ReviewError
from pratique.cluster.store import ANY_NAMESPACE
from pratique.processes.large_text_process import MemberSelection, StrippedText, check_text
from pratique_frontdoor.http.codecs import ReceivedReview, decode_large_review, decode_review

PIECE_BYTES = 37
"""Short, so that most values are in several pieces."""


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make ready."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Read them in both ways, which have to come to the same."""
    pieces = [data[begin : begin + PIECE_BYTES] for begin in range(0, len(data), PIECE_BYTES)]
    whole = _read(lambda: decode_review(data, ANY_NAMESPACE))
    assert _read(lambda: decode_large_review(pieces, ANY_NAMESPACE, _strip_members)) == whole
    return not isinstance(whole, str)


def _strip_members(pieces: Sequence[bytes], selection: MemberSelection) -> StrippedText | None:
    return check_text(b"".join(pieces), selection).check().stripped


def _read(decode: Callable[[], ReceivedReview]) -> ReceivedReview | str:
    try:
        return decode()
    except ReviewError as error:
        return str(error)
