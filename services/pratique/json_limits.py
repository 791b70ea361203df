"""JSON limits: what a text may not hold though it is JSON, found before or without building what it describes.

What goes from an API server to its webhooks was written by Go's ``encoding/json``: no member occurs twice, every
number is an int64 or a float64, and every text is Unicode. What breaks that was not sent by an API server, and two
readers of it may see different objects: admission would decide on the one, and something else would act on the other.

``json`` of the standard library takes duplicates, NaN and lone surrogates; msgspec takes duplicates and integers of
any size. Neither bounds what a text becomes in memory: 7 MiB of ``[[],[],…]`` are 2.4 million values in 200 MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique import json_members
from pratique.errors import InputError
from pratique.json_glances import DoubtError, decode_undoubted
from pratique.json_marks import count_values, has_more_levels, structure
from pratique.json_values import NULL, Document

if TYPE_CHECKING:
    from pratique.json_values import JSON

MOST_LEVELS = 200
"""How deep objects and arrays may nest. A schema of a CustomResourceDefinition takes two levels a field and is the
deepest that is met: 60. Python's own limit, which is a crash, is at less than 1,000."""

MOST_NODES = 600_000
"""How many values a text may hold. Pods have one in 20 bytes, so that a legal review of 7 MiB holds 370,000; the worst
of the same length holds 2.4 million and takes a second and 200 MiB to build."""

TOO_MUCH = f"more than {MOST_NODES} values"
"""What is said of a text that holds more."""

LARGE_BYTES = 256 * 1024
"""From here on a text is not for an event loop: it may take longer than 5 ms."""

WHOLE_VALUES = 60_000
"""Up to here a large text is parsed as a whole, too: other threads wait for some 40 ns for each value, and 1 ms for
2 MiB. What holds more is only looked at, and others run in between, which takes five times as long."""

_FEW_BYTES = 16 * 1024
"""Up to here it is worth while to count brackets, for they may be so few that nothing else is to be looked at."""


class JsonLimitError(InputError):
    """A text holds what it may not. Says what and where, and repeats nothing of the text."""


def read_document(raw: bytes) -> Document:
    """Make a document of JSON text that :func:`parse_checked` lets pass; parsed already, where that was cheap.

    Raises:
        JsonLimitError: as :func:`parse_checked`, like the others.
    """
    if not raw:
        return NULL
    data = parse_checked(raw)
    if data is msgspec.UNSET:
        return Document.from_raw(raw)
    return NULL if data is None else Document(raw, data, parsed=True)


def parse_checked(raw: bytes) -> JSON | msgspec.UnsetType:
    """Refuse JSON that no API server writes, or that takes too much to be read; give what it is parsed to otherwise.

    UNSET is given where parsing it is not cheap. It costs about 15 microseconds for 2 KB of a Pod. From
    :data:`LARGE_BYTES` on call it in a thread.

    Raises:
        JsonLimitError: the text is too deep, holds too many values, a member twice, a number that is no float64, or a
            member whose name has a NUL. What it says follows the name of the text.
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no UTF-8.
    """
    str(raw, "utf-8")
    if _check_structure(raw) <= WHOLE_VALUES:
        try:
            return decode_undoubted(raw)
        except (DoubtError, msgspec.ValidationError):
            pass  # a number that is no float64, like all that is in doubt, is to be told where
        except RecursionError:
            raise _too_deep() from None
    _check_members(raw)
    return msgspec.UNSET


def _too_much() -> JsonLimitError:
    return JsonLimitError(f"holds {TOO_MUCH}")


def _too_deep() -> JsonLimitError:
    return JsonLimitError(f"is nested too deeply: it has more than {MOST_LEVELS} levels")


def holds_too_much(raw: bytes) -> bool:
    """True where a text holds more than :data:`MOST_NODES` values; of a text that is no JSON it says nothing."""
    if len(raw) <= MOST_NODES or raw.count(b"{") + raw.count(b"[") + raw.count(b",") <= MOST_NODES:
        return False
    return count_values(structure(raw)) > MOST_NODES


def _check_structure(raw: bytes) -> int:
    """Refuse too many values and too many levels; gives the number of values, 0 where the text is not large.

    Brackets in strings count at first, for most texts have few of both.
    """
    if len(raw) <= _FEW_BYTES and raw.count(b"{") + raw.count(b"[") <= MOST_LEVELS:
        return 0
    marks = structure(raw)
    values = count_values(marks) if len(raw) > LARGE_BYTES else 0
    if values > MOST_NODES:
        raise _too_much()
    if has_more_levels(marks, MOST_LEVELS):
        raise _too_deep()
    return values


def _check_members(raw: bytes) -> None:
    try:
        json_members.check_members(raw)
    except json_members.MemberFaultError as fault:
        raise JsonLimitError(str(fault)) from None
