"""The guard: stands before all endpoints but the open ones, and lets in who may call."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.responses import status_reply

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from frontdoor.authentication.callers import Callers
    from frontdoor.metrics import Metrics

OPEN = frozenset({"/livez", "/readyz", "/healthz", "/version"})
"""What everybody may see, as with kube-apiserver (``system:public-info-viewer``): a kubelet that probes shows nothing
by which it could be known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application before another one."""

    app: ASGIApp
    callers: Callers
    metrics: Metrics
    known_paths: frozenset[str]
    """Those that may be named in metrics."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        path, let_in = scope["path"], scope["state"].pop("let_in", None)
        if path in OPEN:
            await self.app(scope, receive, send)
            return
        caller = self.callers.identify(scope)
        if isinstance(caller, str):
            scope["state"]["caller"] = caller
            if (
                let_in is not None
            ):  # which it is with the first request alone, and with none after a certificate
                let_in()
            await self.app(scope, receive, send)
            return
        await status_reply(caller).send(send)
        self.metrics.count_request(path if path in self.known_paths else "other", caller.code)
