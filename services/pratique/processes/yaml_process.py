"""The child process that reads YAML ahead of the process that needs it, and the messages that the two exchange.

It is started as ``python -m pratique.processes.yaml_process FD``, where FD is a socket to its parent. Texts go one way
in batches, and what they hold comes back, in the same order and in MessagePack.
"""

from __future__ import annotations

import contextlib
import gc
import queue
import socket
import sys
import threading
from collections.abc import Iterator, Sequence

import msgspec

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.yaml_block_style import read_yaml
from pratique.apimachinery.yaml_values import DuplicateField, YamlReadError, YamlValue
from pratique.processes.frames import FrameKind, receive_body, send_frame
from pratique.processes.parent_death import end_with_parent


class YamlFault(msgspec.Struct, frozen=True, array_like=True):
    """Why a text cannot be read further: the arguments of a :class:`YamlReadError`."""

    problem: str
    line: int
    column: int


class YamlReading(msgspec.Struct, frozen=True, array_like=True):
    """What one YAML text holds, as :func:`pratique.apimachinery.yaml_block_style.read_yaml` reads it."""

    values: tuple[tuple[JSON, int, tuple[DuplicateField, ...]], ...]
    """Each document's value, line and duplicate fields."""
    fault: YamlFault | None = None
    """What is wrong after them; None if nothing is."""

    @classmethod
    def of(cls, text: bytes) -> YamlReading:
        """Read a text."""
        values: list[tuple[JSON, int, tuple[DuplicateField, ...]]] = []
        try:
            values.extend(
                (document.value, document.line, document.duplicates) for document in read_yaml(text)
            )
        except YamlReadError as error:
            return cls(tuple(values), YamlFault(error.problem, error.line, error.column))
        return cls(tuple(values))

    def documents(self) -> Iterator[YamlValue]:
        """Yield the documents, and raise the fault, as reading the text does.

        Raises:
            YamlReadError: the text cannot be read further.
        """
        for value, line, duplicates in self.values:
            yield YamlValue(value, line, duplicates)
        if self.fault is not None:
            raise YamlReadError(self.fault.problem, self.fault.line, self.fault.column)


_batches = msgspec.msgpack.Decoder(prepared(list[bytes]))
_NULL = msgspec.Raw(msgspec.msgpack.encode(None))
_results = msgspec.msgpack.Decoder(prepared(list[YamlReading | None]))


def send_texts(connection: socket.socket, texts: Sequence[bytes]) -> None:
    """Send the child a batch of texts; it always takes it, whether or not earlier results were received.

    Raises:
        OSError: the child is gone.
    """
    send_frame(connection, FrameKind.YAML_TEXTS, [msgspec.msgpack.encode(texts)])


def receive_readings(connection: socket.socket) -> list[YamlReading | None]:
    """Receive what the next batch holds; None stands for a text that the parent must read itself.

    Raises:
        EOFError: the child is gone.
        OSError: the connection broke.
        msgspec.DecodeError: what came is no result.
    """
    return _results.decode(receive_body(connection, FrameKind.YAML_READINGS))


def _reading_or_null(text: bytes) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.msgpack.encode(YamlReading.of(text)))
    except Exception:  # noqa: BLE001 - whatever it is, the parent meets it at this text's turn, and reports it
        return _NULL


def _receive(parent: socket.socket, batches: queue.SimpleQueue[list[bytes] | None]) -> None:
    """Take every batch at once: a parent that sends must never wait for one that waits for it to receive."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            batches.put(_batches.decode(receive_body(parent, FrameKind.YAML_TEXTS)))
    batches.put(None)


def main() -> None:
    """Read until the parent is gone."""
    end_with_parent()
    gc.disable()  # what is read has no cycles
    batches: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
    with socket.socket(fileno=int(sys.argv[1])) as parent, contextlib.suppress(OSError):
        threading.Thread(target=_receive, args=(parent, batches), name="batches", daemon=True).start()
        while (texts := batches.get()) is not None:
            readings = msgspec.msgpack.encode([_reading_or_null(text) for text in texts])
            send_frame(parent, FrameKind.YAML_READINGS, [readings])


if __name__ == "__main__":
    main()
