"""The errors that Pratique raises, in two families with two destinations.

::

    PratiqueError
    ├── CallError                 calling a controller or a webhook failed: its failure policy decides
    │   ├── CallTimeoutError      no answer in time
    │   ├── UnreachableError      no connection, or a broken one
    │   │   └── ResetError        the other side reset it
    │   ├── BadAnswerError        an answer came, and it cannot be used
    │   └── MismatchError         the service decides by another configuration, cluster or chain
    ├── ConversionError           an object cannot be had in the version that a webhook wants: the request is refused
    ├── RefusalError              the reviewed object did something wrong: the user is told by a Status
    └── InputError                what a person wrote is wrong: a file, a flag, a request's body
        ├── ConfigurationError    a configuration; names file, document and field
        │   └── PartlyUsableError  brings what has to be used of it all the same, because what was before is worse
        └── ReviewError           an AdmissionReview

A controller does not raise to refuse: it returns :func:`pratique.deny`. ``RefusalError`` is for code below a
controller that cannot go on, such as a look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.statuses import Status

if TYPE_CHECKING:
    from pratique.apimachinery.source_documents import Position


class PratiqueError(Exception):
    """Base of every error that Pratique raises on purpose."""


class CallError(PratiqueError):
    """Calling a controller or a webhook failed. The text is the reason as Kubernetes words it.

    ``code`` is the HTTP code as which the API server's metrics count the failure: 503 unless more is known.
    """

    def __init__(self, text: str, code: int = 503) -> None:
        """Fail with a reason."""
        super().__init__(text)
        self.code = code


class CallTimeoutError(CallError):
    """The controller or webhook did not answer in time."""


class UnreachableError(CallError):
    """The service could not be reached, or the connection broke."""


class ResetError(UnreachableError):
    """The other side reset the connection, which may go better another time."""


class BadAnswerError(CallError):
    """The service answered, and the answer cannot be used.

    ``status`` is what Kubernetes' client makes of an answer of failure; None where the answer was none.
    """

    def __init__(self, text: str, code: int = 503, status: Status | None = None) -> None:
        """Fail with a reason."""
        super().__init__(text, code)
        self.status = status


class MismatchError(CallError):
    """A service decides by something else than its caller: it was not asked, or its answer does not count.

    The text names the replicas, and what differs. It is an outage, never a decision.
    """


class ConversionError(PratiqueError):
    """An object cannot be had in another version of its API. The text holds nothing of the object."""


class RefusalError(PratiqueError):
    """The reviewed object cannot be let through; ``status`` tells the user why."""

    def __init__(self, status: Status) -> None:
        """Refuse with ``status``."""
        super().__init__(status.message)
        self.status = status


class InputError(PratiqueError):
    """Something that a person wrote is wrong. The text says what, where, and what would be right.

    ``file`` and ``place`` say once more where, for programs, as far as it is known; ``-`` is standard input.
    """

    def __init__(self, text: str, *, file: str = "", place: Position | None = None) -> None:
        """Say what is wrong."""
        super().__init__(text)
        self.file = file
        self.place = place


class ConfigurationError(InputError):
    """A configuration is wrong. The text names file, document and field."""


class PartlyUsableError(ConfigurationError):
    """What files hold cannot be used as it is, and may not leave what they held before in use, either.

    A secret that is not in its file any more lets nobody in, whatever else is wrong with the file.
    """

    def __init__(self, text: str, usable: object) -> None:
        """Say what is wrong, and what to use of it; at start nothing is used."""
        super().__init__(text)
        self.usable = usable


class ReviewError(InputError):
    """A document is not an AdmissionReview that can be answered."""
