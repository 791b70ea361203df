"""Bytes to the query of a URL, and to the head of a request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pratique_frontdoor.http.messages import RequestError, check_head, query_reader
from pratique_frontdoor.settings import FrontDoorSettings

LINE = b"\n"
"""Stands between the query, the type of content and its encoding."""


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Make the reader."""
    settings = FrontDoorSettings()
    read = query_reader(settings)

    def attempt(data: bytes) -> bool:
        query, _, head = data.partition(LINE)
        media_type, _, encoding = head.partition(LINE)
        fields = [(b"content-type", media_type), (b"content-encoding", encoding)]
        try:
            found = read(query)
            check_head(fields[: 2 if encoding else 1], settings.max_body_bytes)
        except RequestError as error:
            assert error.status.code in {400, 415}  # noqa: PT017 - what matters is that it is the right one
            return False
        assert 0 < found.seconds <= settings.max_timeout_seconds
        return True

    yield attempt


def seeds() -> Iterator[bytes]:
    """What API servers send, and what they might."""
    for query in (
        b"timeout=10s",
        b"timeout=1h2m3.5s&phase=mutate",
        b"timeout=-1%C2%B5s&blame=true",
        b"timeout=.5ms&timeout=9",
        b"phase=admit&&x=%zz;y",
    ):
        for media_type in (
            b"application/json",
            b'application/json; charset="utf-8"',
            b"text/json; charset*=utf-8''x",
            b"application/json\nidentity",
            b'application/json; a*0*=b; c="d\\"',
        ):
            yield query + LINE + media_type
