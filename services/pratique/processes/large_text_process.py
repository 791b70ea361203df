"""The child process that checks large JSON texts for a service, and the messages it exchanges with it.

The service starts it from :mod:`pratique.processes.large_texts` as
``python -m pratique.processes.large_text_process FD``, where FD is a socket to the service.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from pratique.apimachinery.json_reading import JsonLimitError, parse_checked
from pratique.apimachinery.prepared_types import prepared
from pratique.processes.frames import FrameKind, receive_body, send_frame
from pratique.processes.parent_death import end_with_parent

_members = msgspec.json.Decoder(prepared(dict[str, msgspec.Raw]))
_NULL = msgspec.Raw(b"null")


class MemberSelection(msgspec.Struct, frozen=True):
    """The members to strip from a text: some members of one member of the outermost object."""

    parent: str
    """The member of the outermost object."""
    names: tuple[str, ...]
    """The names of its members to strip."""


class StrippedText(msgspec.Struct, frozen=True):
    """A text without the values of some members."""

    text: bytes
    """The text with ``null`` in place of every stripped value."""
    spans: dict[str, tuple[int, int]]
    """The byte offsets in the original text at which each stripped value begins and ends, by member name."""


MemberStripper: TypeAlias = Callable[[Sequence[bytes], MemberSelection], StrippedText | None]
"""Checks a text that comes in pieces, and strips members as :func:`strip_members` does."""


def strip_members(text: bytes, selection: MemberSelection) -> StrippedText | None:
    """Strip members from a text without duplicate members; None if the parent is missing or is not an object.

    Raises:
        msgspec.DecodeError: the text is not JSON.
    """
    try:
        outer = _members.decode(text)
        inner = _members.decode(outer[selection.parent])
    except (msgspec.ValidationError, KeyError):
        return None
    spans = {name: _span(text, bytes(inner[name])) for name in selection.names if name in inner}
    outer[selection.parent] = msgspec.Raw(msgspec.json.encode(inner | dict.fromkeys(spans, _NULL)))
    return StrippedText(msgspec.json.encode(outer), spans)


def slice_pieces(pieces: Sequence[bytes], begin: int, end: int) -> bytes:
    """A slice of a text that comes in pieces. Joining copies it without the interpreter lock."""
    found = []
    for piece in pieces:
        if begin < len(piece) and end > 0:
            found.append(piece[max(begin, 0) : end])
        begin, end = begin - len(piece), end - len(piece)
    return b"".join(found)


def _span(text: bytes, value: bytes) -> tuple[int, int]:
    # An equal value earlier in the text is just as good.
    begin = text.index(value)
    return begin, begin + len(value)


class TextResult(msgspec.Struct, frozen=True):
    """The result of checking a text. All fields are required, so a truncated result never passes for a good text."""

    beyond: str
    """The limit that the text exceeds, as the message of a ``JsonLimitError``; empty if it is within all limits."""
    malformed: str
    """Why the text is not JSON; empty if it is."""
    stripped: StrippedText | None
    """The stripped text, if members were to be stripped and the parent exists."""

    def check(self) -> TextResult:
        """This result, if the text is good.

        Raises:
            JsonLimitError: the text exceeds a limit.
            msgspec.DecodeError: it is not JSON, or not UTF-8.
        """
        if self.beyond:
            raise JsonLimitError(self.beyond)
        if self.malformed:
            raise msgspec.DecodeError(self.malformed)
        return self


def check_text(text: bytes, selection: MemberSelection | None) -> TextResult:
    """Check a text, and strip the selected members."""
    try:
        parse_checked(text)
        return TextResult("", "", None if selection is None else strip_members(text, selection))
    except JsonLimitError as error:
        return TextResult(str(error), "", None)
    except UnicodeDecodeError as error:
        return TextResult("", f"invalid UTF-8 at byte {error.start}", None)
    except msgspec.DecodeError as error:
        return TextResult("", str(error), None)


def request_text(
    connection: socket.socket, pieces: Sequence[bytes], selection: MemberSelection | None
) -> TextResult:
    """Have the process at the other end check a text; the service's side of the conversation.

    Raises:
        EOFError: the process is gone.
        OSError: the connection broke, or the socket timed out.
    """
    send_frame(connection, FrameKind.TEXT_REQUEST, [msgspec.msgpack.encode(selection)])
    send_frame(connection, FrameKind.TEXT, pieces)
    return msgspec.msgpack.decode(receive_body(connection, FrameKind.TEXT_RESULT), type=prepared(TextResult))


def _serve(service: socket.socket) -> None:
    while True:
        request = receive_body(service, FrameKind.TEXT_REQUEST)
        selection = msgspec.msgpack.decode(request, type=prepared(MemberSelection | None))
        text = bytes(receive_body(service, FrameKind.TEXT))
        send_frame(service, FrameKind.TEXT_RESULT, [msgspec.msgpack.encode(check_text(text, selection))])


_NICENESS = 10
"""Small reviews go first: on a busy machine, niceness 10 leaves this process a tenth of a service's CPU share."""


def main() -> None:
    """Serve until the service is gone."""
    end_with_parent()
    os.nice(_NICENESS)
    gc.disable()  # parsed JSON has no cycles, and the collector would walk all values of a large text again and again
    with socket.socket(fileno=int(sys.argv[1])) as service, contextlib.suppress(EOFError, ConnectionError):
        _serve(service)


if __name__ == "__main__":
    main()
