"""A reader process: checks large texts for a service, and takes them apart.

The service starts it by :mod:`pratique.processes.large_texts`, as
``python -m pratique.processes.large_text_process FD``; that file is a socket to the service.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys

import msgspec

from pratique.apimachinery.json_reading import JsonLimitError, parse_checked
from pratique.processes.large_text_frames import MemberSelection, TextRequest, TextResult, strip_members, receive, receive_bytes, send
from pratique.processes.parent_death import end_with_parent

_NICENESS = 10
"""Small reviews go first: where there are more that want to run than cores, this has a tenth of a service's share."""


def check_text(text: bytes, cut: MemberSelection | None) -> TextResult:
    """Check a text, and take out of it what is to be taken out."""
    try:
        parse_checked(text)
        return TextResult("", "", None if cut is None else strip_members(text, cut))
    except JsonLimitError as error:
        return TextResult(str(error), "", None)
    except UnicodeDecodeError as error:
        return TextResult("", f"invalid UTF-8 at byte {error.start}", None)
    except msgspec.DecodeError as error:
        return TextResult("", str(error), None)


def main() -> None:
    """Read until the service is gone."""
    end_with_parent()
    os.nice(_NICENESS)
    gc.disable()  # nothing that is read has circles, and all that a large text becomes would be walked again and again
    with socket.socket(fileno=int(sys.argv[1])) as service, contextlib.suppress(EOFError, ConnectionError):
        while True:
            order = receive(service, TextRequest)
            send(service, check_text(bytes(receive_bytes(service, order.length)), order.cut))


if __name__ == "__main__":
    main()
