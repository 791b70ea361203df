"""The image verifier: a server that answers ImageReviews, as the backend of ImagePolicyWebhook.

It is a service of its own, beside the chain, because it asks registries, and what decides in the chain asks nobody
(``docs/adr/0037-images-are-verified-by-a-backend.md``).

Source: ``k8s.io/api/imagepolicy/v1alpha1/types.go``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pratique.apimachinery import statuses
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.images.policies import ImageVerificationPolicy, load_image_policy
from pratique.images.registry_credentials import RegistryCredentials
from pratique.images.registry_settings import RegistrySettings
from pratique.images.verification import ImageVerdict, ImageVerifier
from pratique.telemetry.logs import configure_logging, log_loop_error
from pratique.telemetry.metrics import CallbackMetric, CertificateCollector, LabeledCounter
from pratique.telemetry.registry import CONTENT_TYPE, create_registry, render_metrics
from pratique.telemetry.reloading_files import Reloaded, keep_reloading
from pratique_frontdoor.http.authentication import AuthenticationMiddleware
from pratique_frontdoor.http.connections import UnauthenticatedConnections
from pratique_frontdoor.http.listener import ListenerSecurity
from pratique_frontdoor.http.messages import (
    ClientGoneError,
    RequestError,
    check_head,
    failure_status,
    read_body,
    status_reply,
)
from pratique_frontdoor.http.servers import FrontDoorServer, raise_open_file_limit
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from pratique.https.sessions import HttpsSession

PATH = "/review"
"""Where ImageReviews are answered."""

_API_VERSION, _KIND = "imagepolicy.k8s.io/v1alpha1", "ImageReview"
_MAX_BODY_BYTES = 7 * 1024 * 1024
"""The largest ImageReview. 7 MiB, as of AdmissionReviews: what an API server accepts must get an answer, since without
one ``defaultAllow`` would admit it."""
_MAX_IMAGES = 100
"""The most different images of an ImageReview."""
_MAX_HELD_BYTES = 64 * 1024 * 1024
"""The most bytes of all ImageReviews at a time, as of AdmissionReviews: 256 of the largest would take 1.8 GiB."""
_MAX_REVIEWS = 256
"""The most ImageReviews at a time; kube-apiserver has 200 mutating requests in flight by default."""
_MAX_REASON = 4096
"""Characters of a reason: ImagePolicyWebhook caches no more than 16 KiB of an answer."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImageVerifierSettings:
    """Where the image verifier listens, by which policy it decides, and how it reaches registries."""

    listener: FrontDoorSettings
    """Only what concerns the listener and its callers is used."""
    policy: Path
    """An ImageVerificationPolicy. It is read again when it, or a key that it names, changes."""
    registries: RegistrySettings = dataclasses.field(default_factory=RegistrySettings)
    timeout_seconds: float = 10.0
    """How long an ImageReview may take; images that are not verified by then are refused. 10: a third of what
    ImagePolicyWebhook waits, so that its answer still reaches the user."""
    cache_seconds: float = 300.0
    """How long an image that was verified is not verified again, by its digest. 300: as ImagePolicyWebhook caches."""


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _ImageReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    spec: _Spec = _Spec()


_review_decoder = msgspec.json.Decoder(prepared(_ImageReview))


def _read_review(body: bytes) -> list[str]:
    """Read the images of an ImageReview, each once.

    Raises:
        RequestError: it is none.
    """
    try:
        review = _review_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RequestError(statuses.bad_request(f"the body is not an {_KIND} of {_API_VERSION}")) from None
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        raise RequestError(statuses.bad_request(f"expected an {_KIND} of {_API_VERSION}"))
    return list(dict.fromkeys(container.image for container in review.spec.containers))


def _answer(verdicts: Sequence[ImageVerdict]) -> bytes:
    reasons = [f"{go_quoted(verdict.image)}: {verdict.reason}" for verdict in verdicts if not verdict.allowed]
    status: dict[str, object] = {"allowed": not reasons}
    if reasons:
        status["reason"] = "; ".join(reasons)[:_MAX_REASON]
    digests = sorted({verdict.digest for verdict in verdicts if verdict.allowed and verdict.keys})
    if digests:
        status["auditAnnotations"] = {"verified": ",".join(digests)}
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": _KIND, "status": status})


class VerifierMetrics:
    """The metrics of an image verifier, in their own registry."""

    def __init__(self) -> None:
        """Start at zero."""
        self._registry = create_registry()
        self._requests = LabeledCounter(
            "pratique_image_verifier_requests_total", "HTTP requests answered.", ("path", "code")
        )
        self._images = LabeledCounter(
            "pratique_image_verifier_images_total", "Images that were verified or refused.", ("result",)
        )
        self._registry.register(self._requests)
        self._registry.register(self._images)

    def count_request(self, path: str, code: int) -> None:
        """Count an HTTP request. ``path`` is from a fixed set, never from the client."""
        self._requests.add(path, str(code))

    def count_verdicts(self, verdicts: Sequence[ImageVerdict]) -> None:
        """Count images by what became of them."""
        for verdict in verdicts:
            self._images.add("verified" if verdict.allowed else "refused")

    def show_state(self, listener: ListenerSecurity, in_flight: Callable[[], int]) -> None:
        """Show the certificates' ends and the reviews in flight, read on every scrape."""
        self._registry.register(CertificateCollector(listener.reloaded_credentials))
        self._registry.register(
            CallbackMetric(
                "pratique_image_verifier_in_flight_reviews",
                "ImageReviews that are being answered.",
                in_flight,
            )
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return render_metrics(self._registry)


class VerifierInputs(msgspec.Struct, frozen=True):
    """What an image verifier reads from files."""

    policy: ImageVerificationPolicy
    credentials: RegistryCredentials


class CurrentVerifier:
    """The verifier by the files as they are now. A new policy starts with nothing cached."""

    def __init__(self, settings: ImageVerifierSettings, session: HttpsSession) -> None:
        """Read the files.

        Raises:
            ConfigurationError: a file is invalid.
        """
        self._settings = settings
        self._session = session
        self._key_files: Sequence[Path] = ()
        self.reloaded = Reloaded("image policy", self._load, self._files)
        """The files, and the state of their last reload."""
        self.reloaded.add_listener(self._use)
        self._use(self.reloaded.value)

    def _files(self) -> Sequence[Path]:
        """The files of the last attempt to load, as another policy may name other keys."""
        config = self._settings.registries.registry_config
        return (self._settings.policy, *self._key_files, *((config,) if config is not None else ()))

    def _load(self) -> VerifierInputs:
        key_files: list[Path] = []
        try:
            policy = load_image_policy(self._settings.policy, key_files=key_files)
        finally:
            self._key_files = key_files
        self._settings.registries.registries(policy)
        return VerifierInputs(policy, self._settings.registries.read_credentials())

    def _use(self, inputs: VerifierInputs) -> None:
        client = self._settings.registries.client(self._session, inputs.policy, inputs.credentials)
        self.verifier = ImageVerifier(inputs.policy, client, cache_seconds=self._settings.cache_seconds)


class ReviewEndpoint:
    """``POST /review``."""

    def __init__(
        self, current: CurrentVerifier, settings: ImageVerifierSettings, metrics: VerifierMetrics
    ) -> None:
        """Decide by ``current``."""
        self._current = current
        self._seconds = settings.timeout_seconds
        self._metrics = metrics
        self.in_flight = 0
        """How many ImageReviews are being answered."""
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.in_flight += 1
        try:
            response = await self._respond(scope, receive)
        except ClientGoneError:
            return
        finally:
            self.in_flight -= 1
        self._metrics.count_request(PATH, response.status_code)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        if self.in_flight > _MAX_REVIEWS:
            return _status_response(statuses.service_unavailable("too many image reviews are in flight"))
        try:
            check_head(scope["headers"], _MAX_BODY_BYTES)
            verdicts = await self._verify(await self._read_images(receive))
        except RequestError as error:
            return _status_response(error.status)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - an error is never a permission
            return _status_response(failure_status(error, PATH))
        self._metrics.count_verdicts(verdicts)
        return Response(_answer(verdicts), media_type="application/json")

    async def _read_images(self, receive: Receive) -> list[str]:
        """Read the body of a request within the bytes of all, and the images that it names."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            held += size
            self._held_bytes += size
            if self._held_bytes > _MAX_HELD_BYTES:
                raise RequestError(statuses.service_unavailable("too many image reviews are in flight"))

        try:
            return _read_review(b"".join(await read_body(receive, _MAX_BODY_BYTES, hold)))
        finally:
            self._held_bytes -= held

    async def _verify(self, images: Sequence[str]) -> Sequence[ImageVerdict]:
        if len(images) > _MAX_IMAGES:
            return _refuse(
                images[:1], f"more than {_MAX_IMAGES} different images of one Pod are not verified"
            )
        try:
            async with asyncio.timeout(self._seconds):
                return await self._current.verifier.verify_all(images, self._seconds)
        except TimeoutError:
            return _refuse(images, "it was not verified in time")
        except Exception as error:  # noqa: BLE001 - an error would be no answer, which `defaultAllow` admits
            return _refuse(images, failure_status(error, PATH).message)


def _refuse(images: Sequence[str], reason: str) -> Sequence[ImageVerdict]:
    return [ImageVerdict(image, allowed=False, reason=reason) for image in images]


def _status_response(status: Status) -> Response:
    return Response(status_reply(status).body, status.code, media_type="application/json")


def build_image_verifier(settings: ImageVerifierSettings, current: CurrentVerifier) -> Starlette:
    """Build the ASGI application.

    Raises:
        ConfigurationError: a file of the listener is invalid.
    """
    listener, metrics = ListenerSecurity(settings.listener), VerifierMetrics()
    endpoint = ReviewEndpoint(current, settings, metrics)
    metrics.show_state(listener, lambda: endpoint.in_flight)

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def ready(request: Request) -> Response:
        reasons = [*(("draining",) if request.app.state.draining else ()), *listener.unavailable_reasons()]
        text = "\n".join(reasons) or current.reloaded.warning() or "ok"
        return PlainTextResponse(text, 503 if reasons else 200)

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    paths = {"/livez": alive, "/healthz": alive, "/readyz": ready, "/metrics": show_metrics}
    known = frozenset({PATH, *paths})
    guard = []
    if (callers := listener.callers) is not None:
        guard.append(
            Middleware(AuthenticationMiddleware, callers=callers, metrics=metrics, known_paths=known)
        )
    app = Starlette(
        routes=[
            Route(PATH, endpoint, methods=["POST"]),
            *(Route(path, handler) for path, handler in paths.items()),
        ],
        middleware=guard,
    )
    app.router.redirect_slashes = False
    app.state.draining = False
    app.state.listener_security = listener
    app.state.connections = UnauthenticatedConnections(settings.listener)
    return app


async def serve(settings: ImageVerifierSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, and finish reviews in flight. ``announce`` gets the URL once it listens.

    Raises:
        ConfigurationError: a file is invalid, or the address cannot be listened on.
    """
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    session = settings.registries.open_session()
    try:
        current = CurrentVerifier(settings, session)
        server = FrontDoorServer(build_image_verifier(settings, current), settings.listener, announce)
        reloading = asyncio.ensure_future(keep_reloading([current.reloaded]))
        try:
            await server.serve()
        finally:
            reloading.cancel()
            await asyncio.wait([reloading])
    finally:
        await session.close()


def run(settings: ImageVerifierSettings) -> None:
    """Configure logging, and serve in an event loop of its own.

    Raises:
        ConfigurationError: as ``serve``.
    """
    configure_logging("image-verifier")
    raise_open_file_limit()

    def announce(url: str) -> None:
        print(f"pratique: image-verifier ready on {url}", flush=True)  # noqa: T201 - whoever starts it waits for this

    uvloop.run(serve(settings, announce))
