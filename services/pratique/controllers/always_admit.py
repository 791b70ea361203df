"""AlwaysAdmit: admits every request.

Source: ``plugin/pkg/admission/admit/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import BOTH, Controller, Handlers, NoSettings
from pratique.admission.results import Allow, allow
from pratique.admission.reviews import Review


def admit(_: Review) -> Allow:
    """Admit the request."""
    return allow()


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=admit, validate=admit)


CONTROLLER = Controller(
    name="AlwaysAdmit",
    summary="Admits every request.",
    phases=BOTH,
    build=_build,
    deprecated_in="1.13",
    trusted=True,
)
