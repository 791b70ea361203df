"""The errors that Pratique raises.

::

    PratiqueError
    ├── CallError                 calling a controller or webhook failed; its failurePolicy decides
    │   ├── CallTimeoutError      no answer in time
    │   ├── UnreachableError      no connection, or a broken one
    │   │   └── ResetError        the peer reset the connection
    │   ├── BadAnswerError        the response is unusable
    │   └── MismatchError         the service uses another configuration, cluster or chain than its caller
    ├── ConversionError           an object cannot be converted to the version a webhook wants; the request is denied
    ├── RefusalError              the reviewed object is refused; the user gets a Status
    └── InputError                something a person wrote is wrong: a file, a flag, a request body
        ├── ConfigurationError    a configuration; names file, document and field
        │   ├── ListenError       an address that a server cannot listen on
        │   └── PartlyUsableError  carries the part to use at once, because the previous value is worse
        └── ReviewError           an AdmissionReview

A controller does not raise to deny a request: it returns :func:`pratique.deny`. ``RefusalError`` is for code below
a controller that cannot continue, such as a look-up.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pratique.apimachinery.statuses import Status

if TYPE_CHECKING:
    # At runtime this would be a circle: source documents raise these errors.
    from pratique.apimachinery.source_documents import Position


class PratiqueError(Exception):
    """Base class of the errors that Pratique raises on purpose."""


class CallError(PratiqueError):
    """Calling a controller or webhook failed. The text is the reason in Kubernetes' words.

    ``code`` is the HTTP code under which the API server's metrics count the failure: 503 unless more is known.
    """

    def __init__(self, text: str, code: int = 503) -> None:
        """Hold the reason and the HTTP code."""
        super().__init__(text)
        self.code = code


class CallTimeoutError(CallError):
    """The controller or webhook did not answer in time."""


class UnreachableError(CallError):
    """The service could not be reached, or the connection broke off."""


class ResetError(UnreachableError):
    """The peer reset the connection; a retry may succeed."""


class BadAnswerError(CallError):
    """The service answered, but the response is unusable.

    ``status`` is the Status that Kubernetes' client derives from a failure response; None for any other response.
    """

    def __init__(self, text: str, code: int = 503, status: Status | None = None) -> None:
        """Hold the reason, the HTTP code and the Status."""
        super().__init__(text, code)
        self.status = status


class MismatchError(CallError):
    """A service uses another configuration, cluster or chain than its caller, so its answer does not count.

    The text names the replicas and the difference. It is an outage, never a decision.
    """


class ConversionError(PratiqueError):
    """An object cannot be converted to another API version. The text reveals nothing of the object."""


class RefusalError(PratiqueError):
    """The reviewed object is refused; ``status`` tells the user why."""

    def __init__(self, status: Status) -> None:
        """Hold the Status that the user gets."""
        super().__init__(status.message)
        self.status = status


class InputError(PratiqueError):
    """Something a person wrote is wrong. The text says what, where, and what would be right.

    ``file`` and ``place`` repeat the location for programs, as far as it is known; ``-`` is standard input.
    """

    def __init__(self, text: str, *, file: str = "", place: Position | None = None) -> None:
        """Hold the message and the location."""
        super().__init__(text)
        self.file = file
        self.place = place

    @property
    def problems(self) -> list[str]:
        """The problems that the text tells, each with the indented lines below it, such as where CEL fails."""
        found: list[str] = []
        for line in str(self).split("\n"):
            if found and line.startswith(" "):
                found[-1] += f"\n{line}"
            else:
                found.append(line)
        return found


class ConfigurationError(InputError):
    """A configuration is wrong. The text names file, document and field."""


class ListenError(ConfigurationError):
    """A server cannot listen on the address of its flags."""

    def __init__(self, error: OSError | OverflowError, flags: Mapping[str, str | int]) -> None:
        """Say what the operating system refused, of which flags with which values, and what would be right.

        ``flags`` are those of the address, without their dashes; the one of the port is the last.
        """
        number = getattr(error, "errno", None) or 0
        # Event loops write a reason of their own around that of the system, and resolvers have negative numbers.
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
        named = ", ".join(f"--{flag} {value}" for flag, value in flags.items())
        *hosts, port = (f"--{flag}" for flag in flags)
        advice = f"choose another {port}, or {port} 0, which picks a free one"
        if number != errno.EADDRINUSE and hosts:
            advice = f"choose an address of this machine with {hosts[0]}, and a {port} that you may use"
        super().__init__(f"{named}: cannot listen there: {reason}; {advice}")


class PartlyUsableError(ConfigurationError):
    """Files are wrong, but their previous content must not stay in use either.

    A credential removed from its file must stop working, whatever else is wrong with the file.
    """

    def __init__(self, text: str, usable: object) -> None:
        """Hold the message, and the value to use from now on; at start nothing is used."""
        super().__init__(text)
        self.usable = usable


class ReviewError(InputError):
    """A document is not an answerable AdmissionReview."""
