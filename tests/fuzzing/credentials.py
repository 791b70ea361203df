"""Bytes to the header by which somebody says who he is, and to the files that say who may call."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from pratique.apimachinery.errors import ConfigurationError
from pratique_frontdoor.http.authentication import Callers, SecretDigests, read_logins, read_tokens

TOKEN, LOGIN = b"a-token", b"ann:open sesame"


@dataclasses.dataclass(frozen=True)
class _Held:
    value: SecretDigests


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Let two callers in."""
    held: Any = [_Held(SecretDigests.of([secret])) for secret in (TOKEN, LOGIN)]
    callers = Callers(tokens=held[0], logins=held[1])
    file = folder / "secrets"

    def attempt(data: bytes) -> bool:
        scope = {"method": "POST", "path": "/admit", "state": {}, "headers": [(b"authorization", data)]}
        is_let_in = isinstance(callers.identify(cast("Any", scope)), str)
        assert not is_let_in or _is_right(data), "somebody was let in who has shown nothing"
        file.write_bytes(data)
        readable = [_is_readable(read, file) for read in (read_tokens, read_logins)]
        return is_let_in or any(readable)

    yield attempt


def _is_readable(read: Callable[[Path], SecretDigests], file: Path) -> bool:
    try:
        return bool(read(file).held)
    except ConfigurationError:
        return False


def _is_right(header: bytes) -> bool:
    """Tell by other means whether a header is right."""
    words = header.split()
    if len(words) != 2:
        return False
    scheme, credentials = words[0].lower(), words[1]
    right = {b"bearer": TOKEN, b"basic": base64.b64encode(LOGIN)}
    return right.get(scheme) == credentials


def seeds() -> Iterator[bytes]:
    """Right ones and wrong ones."""
    login = base64.b64encode(LOGIN)
    yield from (b"Bearer a-token", b"Bearer  b", b"basic " + login, b"Basic " + login[:-1], b"Basic %%%=")
    yield from (b"token==\r\n\r\ntoken2", b"ann:open\nbob:a:b\r\n", b"Negotiate x", b"")
