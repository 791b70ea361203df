"""Secret files: bearer tokens, and users with passwords, one a line. What is wrong is told by its line alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frontdoor.authentication.digests import Digests
from pratique.errors import PartlyUsableError

if TYPE_CHECKING:
    from pathlib import Path

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""``b64token`` of RFC 6750: what can stand behind ``Bearer`` in a header."""
_LOGIN = re.compile(rb"[^:\x00-\x1f\x7f]+:[^\x00-\x1f\x7f]+")
"""``user-pass`` of RFC 7617: no control characters, and no colon in the user. An empty password is none."""


def read_tokens(file: Path) -> Digests:
    """Read bearer tokens.

    Raises:
        PartlyUsableError: the file cannot be read, holds no token, or a line that is none; brings the tokens of the
            other lines. A file that is gone, empty or unreadable has none, and lets nobody in.
    """
    return _read(file, "--token-file", _TOKEN, "a bearer token: letters, digits and . _ ~ + / - alone")


def read_logins(file: Path) -> Digests:
    """Read users and passwords.

    Raises:
        PartlyUsableError: as :func:`read_tokens`, with users.
    """
    return _read(file, "--basic-auth-file", _LOGIN, "user:password")


def _read(file: Path, flag: str, pattern: re.Pattern[bytes], expected: str) -> Digests:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PartlyUsableError(f"{flag} {file}: {error.strerror}", Digests(())) from None
    lines = [line.rstrip(b"\r") for line in content.split(b"\n")]
    bad = [number for number, line in enumerate(lines, 1) if line and not pattern.fullmatch(line)]
    secrets = Digests.of(line for line in lines if pattern.fullmatch(line))
    if bad:
        raise PartlyUsableError(f"{flag} {file}: line {bad[0]}: expected {expected}", secrets)
    if not secrets.held:
        problem = f"is empty: nobody could call; expected {expected}, one a line"
        raise PartlyUsableError(f"{flag} {file}: {problem}", secrets)
    return secrets
