"""AlwaysDeny: denies every request.

Source: ``plugin/pkg/admission/deny/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import BOTH, Controller, Handlers, NoSettings
from pratique.admission.results import Deny, deny
from pratique.admission.reviews import Review


def refuse(_: Review) -> Deny:
    """Deny the request."""
    return deny("admission control is denying all modifications")


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=refuse, validate=refuse)


CONTROLLER = Controller(
    name="AlwaysDeny",
    summary="Denies every request.",
    phases=BOTH,
    build=_build,
    deprecated_in="1.13",
    trusted=True,
)
