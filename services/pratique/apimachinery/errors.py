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
        │   └── PartlyUsableError  carries the part to use at once, because the previous value is worse
        └── ReviewError           an AdmissionReview

A controller does not raise to deny a request: it returns :func:`pratique.deny`. ``RefusalError`` is for code below
a controller that cannot continue, such as a look-up.
"""

from __future__ import annotations

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


class ConfigurationError(InputError):
    """A configuration is wrong. The text names file, document and field."""


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
