"""The console's application, its security headers, and its server on loopback."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import jinja2
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pratique.admission.controllers import QuotaAmount
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.processes.review_threads import work_beside_loop
from pratique_frontdoor.console.live import LiveDecisions, read_service_state
from pratique_frontdoor.console.playground import (
    Playground,
    PlaygroundCase,
    PlaygroundResult,
    example_names,
    read_example,
)
from pratique_frontdoor.console.presentation import show
from pratique_frontdoor.console.recording import Recording
from pratique_frontdoor.console.replay import Replayer

T = TypeVar("T")

ReadQuotaUsage: TypeAlias = Callable[[], Awaitable[Mapping[tuple[str, ...], QuotaAmount]]]
"""Returns how much of each quota is used: by namespace, name of the ResourceQuota, and resource."""

_PAGE_NUMBER = pattern(r"[0-9]{1,9}")

HERE = Path(__file__).parent
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
"""The names under which the console answers. Others would be names that somebody made to resolve to loopback."""
MAX_CASE_BYTES = 512 * 1024
"""The longest case."""

LIVE_ROOT = "/console"
"""Where a front door has its console."""
_LOOPBACK_NAMES = Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_HOSTS), www_redirect=False)

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class SecurityMiddleware:
    """Adds the security headers, and refuses to be asked by pages of other origins."""

    def __init__(self, app: ASGIApp) -> None:
        """Guard ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        request = Request(scope)
        if request.method not in {"GET", "HEAD"} and not _is_same_origin(request):
            refusal = PlainTextResponse("refused: only the console's own pages may send this", 403)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _is_same_origin(request: Request) -> bool:
    """Whether a page of the console sent this; a browser always says where a POST comes from."""
    return request.headers.get("origin") == f"{request.url.scheme}://{request.headers.get('host')}"


class ConsolePages:
    """The handlers of the pages."""

    def __init__(
        self, playground: Playground, recording: Recording | None, replayer: Replayer | None
    ) -> None:
        """Show what ``playground`` decides, the decisions of a recording if there is one, and replays of it."""
        self._playground = playground
        self._recording = recording
        self._replayer = replayer
        # One at a time: a page that sends cases faster than they are decided must not fill the memory.
        self._turn = asyncio.Lock()
        titles = {"/playground": "Playground"}
        titles |= {"/recording": "Recording"} if recording else {}
        titles |= {"/replay": "Replay"} if replayer else {}
        self._templates = _templates("", titles, _RECORDING_NOTICE)

    async def index(self, request: Request) -> Response:
        """Lead to the playground."""
        del request
        return RedirectResponse("/playground")

    async def playground(self, request: Request) -> Response:
        """Show the playground."""
        del request
        webhooks = self._playground.may_call_webhooks
        return HTMLResponse(self._render("playground.html", examples=example_names(), webhooks=webhooks))

    async def example(self, request: Request) -> Response:
        """Return an example as JSON."""
        case = read_example(request.path_params["name"])
        if case is None:
            return PlainTextResponse("there is no such example", 404)
        return _json_response(case)

    async def decide(self, request: Request) -> Response:
        """Decide a case; return the marks of the editors, and the result as HTML."""
        case = await self._read_case(request)
        if isinstance(case, Response):
            return case
        async with self._turn:
            result = await self._playground.decide(case)
        shown = [show(decided) for decided in result.decided]
        return _json_response(
            {"html": self._render("decision.html", result=result, shown=shown), "marks": list(result.marks)}
        )

    async def save(self, request: Request) -> Response:
        """Return a case as a suite of ``pratique test``."""
        case = await self._read_case(request)
        if isinstance(case, Response):
            return case
        try:
            async with self._turn:
                archive = await self._playground.save(case)
        except InputError as error:
            return PlainTextResponse(str(error), 400)
        return Response(archive, media_type="application/zip")

    async def _read_case(self, request: Request) -> PlaygroundCase | Response:
        """Read a case, which may call webhooks only where the console was started so."""
        case = await _read_case(request)
        if isinstance(case, Response) or not case.call_webhooks or self._playground.may_call_webhooks:
            return case
        return PlainTextResponse("this console calls no webhooks: start it with --call-webhooks", 403)

    async def recording(self, request: Request) -> Response:
        """Show what a recording adds up to, and a page of its decisions."""
        number = request.query_params.get("page", "1")
        if not _PAGE_NUMBER.fullmatch(number):
            return PlainTextResponse("page: give a whole number", 400)
        try:
            page = await self._read(lambda recording: recording.page(int(number)))
        except OSError as error:
            return _unreadable(error)
        return HTMLResponse(self._render("recording.html", page=page))

    async def recorded_decision(self, request: Request) -> Response:
        """Show a decision of a recording."""
        number = request.path_params["number"]
        try:
            decided = await self._read(lambda recording: recording.decision(number))
        except OSError as error:
            return _unreadable(error)
        except InputError as error:
            return PlainTextResponse(str(error), 422)
        if decided is None:
            return PlainTextResponse("there is no such decision in the recording", 404)
        result = PlaygroundResult([decided])
        return HTMLResponse(self._render("recorded_decision.html", result=result, shown=[show(decided)]))

    async def replay(self, request: Request) -> Response:
        """Show a replay of the recording."""
        del request
        return HTMLResponse(self._render("replay.html", state=self._replay.state))

    async def replay_state(self, request: Request) -> Response:
        """Return the part of that page that changes."""
        del request
        return self._replay_fragment()

    async def start_replay(self, request: Request) -> Response:
        """Begin a replay, unless one is running."""
        del request
        self._replay.start()
        return self._replay_fragment()

    def _replay_fragment(self) -> Response:
        state = self._replay.state
        html = self._render("replay_state.html", state=state)
        return HTMLResponse(html, headers={"Replay-Status": state.status})

    @property
    def _replay(self) -> Replayer:
        assert self._replayer is not None  # noqa: S101 - its pages have routes only then
        return self._replayer

    async def _read(self, read: Callable[[Recording], T]) -> T:
        assert self._recording is not None  # noqa: S101 - its pages have routes only then
        async with self._turn:
            return await asyncio.to_thread(read, self._recording)

    def _render(self, name: str, **values: object) -> str:
        return self._templates.get_template(name).render(values)


_RECORDING_NOTICE = (
    "Read from the recording, whose secrets were replaced when it was written. Nothing leaves this machine."
)
_STATE_SECONDS = 0.9
"""How old the state of the live page may be. 0.9: less than the second after which a page asks again."""
_PAGE_SECONDS = 10
"""The longest that a page of a decision may take to be made; a decision of 3 MiB takes half of it."""
_PAGE_VALUES = 1_000_000
"""Pages of a front door are made in the threads of large reviews, so that small ones never wait for them."""
_LIVE_NOTICE = "Secrets in objects are replaced before they are kept, in memory, until this front door ends."


def _templates(root: str, pages: Mapping[str, str], notice: str) -> jinja2.Environment:
    """Return the templates of a console below ``root``, with the titles of its ``pages`` by address."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"root": root, "pages": list(pages.items()), "notice": notice}
    return templates


class LivePages:
    """The handlers of the console of a front door."""

    def __init__(
        self, live: LiveDecisions, metrics: Callable[[], str], quota_usage: ReadQuotaUsage | None
    ) -> None:
        """Show the kept decisions, and what the ``metrics`` and the validators tell of all else."""
        self._live = live
        self._metrics = metrics
        self._quota_usage = quota_usage
        # One at a time, in a thread: reviews go before those who look at them.
        self._turn = asyncio.Lock()
        self._templates = _templates(LIVE_ROOT, {"/": "Live"}, _LIVE_NOTICE)
        self._last_state = ""
        self._last_state_at = float("-inf")

    async def live(self, request: Request) -> Response:
        """Show the page."""
        del request
        return HTMLResponse(self._templates.get_template("live.html").render(state=await self._state()))

    async def state(self, request: Request) -> Response:
        """Return the part of the page that changes."""
        del request
        return HTMLResponse(await self._state())

    async def decision(self, request: Request) -> Response:
        """Show a decision."""
        number = request.path_params["number"]
        try:
            async with self._turn, asyncio.timeout(_PAGE_SECONDS):
                page = await work_beside_loop(_PAGE_VALUES, self._render_decision, number)
        except InputError as error:
            return PlainTextResponse(str(error), 404)
        except TimeoutError:
            return PlainTextResponse(f"the page takes longer than {_PAGE_SECONDS} s", 504)
        return HTMLResponse(page)

    def _render_decision(self, number: int) -> str:
        decided = self._live.decision(number)
        template = self._templates.get_template("recorded_decision.html")
        return template.render(result=PlaygroundResult([decided]), shown=[show(decided)])

    async def _state(self) -> str:
        """Return the part that changes, at most a second old, so that many who look cost no more than one."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if now - self._last_state_at >= _STATE_SECONDS:
                usage = {} if self._quota_usage is None else await self._quota_usage()
                self._last_state = await work_beside_loop(
                    _PAGE_VALUES, self._render_state, self._metrics(), usage
                )
                self._last_state_at = now
            return self._last_state

    def _render_state(self, metrics: str, quota_usage: Mapping[tuple[str, ...], QuotaAmount]) -> str:
        now = dt.datetime.now(dt.UTC)
        page, state = self._live.page(now), read_service_state(metrics, now.timestamp(), quota_usage)
        return self._templates.get_template("live_state.html").render(page=page, state=state)


def build_live_console(
    live: LiveDecisions,
    metrics: Callable[[], str],
    quota_usage: ReadQuotaUsage | None = None,
    *,
    loopback_only: bool,
) -> Starlette:
    """Build the console of a front door, to be mounted at :data:`LIVE_ROOT` behind its authentication.

    Args:
        live: The decisions that it shows.
        metrics: Returns the front door's metrics, in Prometheus' text format.
        quota_usage: Asks the validators how much of each quota is used; None where the metrics tell.
        loopback_only: Answer under the names of loopback alone, because nobody has to authenticate.
    """
    pages = LivePages(live, metrics, quota_usage)
    middleware = [Middleware(SecurityMiddleware)]
    if loopback_only:
        middleware.append(_LOOPBACK_NAMES)
    return Starlette(
        routes=[
            Route("/", pages.live),
            Route("/state", pages.state),
            Route("/decisions/{number:int}", pages.decision),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=middleware,
    )


def _unreadable(error: OSError) -> Response:
    return PlainTextResponse(f"the recording cannot be read: {error.strerror}", 503)


def _json_response(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


async def _read_case(request: Request) -> PlaygroundCase | Response:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_CASE_BYTES:
            return PlainTextResponse(f"a case may have {MAX_CASE_BYTES // 1024} KiB", 413)
    try:
        return msgspec.json.decode(bytes(body), type=prepared(PlaygroundCase))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return PlainTextResponse(f"this is no case: {error}", 400)


def build_console(
    playground: Playground, recording: Recording | None = None, replayer: Replayer | None = None
) -> Starlette:
    """Build the application of the console on loopback; without a recording, it has no pages of one."""
    pages = ConsolePages(playground, recording, replayer)
    recorded = [
        Route("/recording", pages.recording),
        Route("/recording/{number:int}", pages.recorded_decision),
    ]
    replayed = [
        Route("/replay", pages.replay),
        Route("/replay", pages.start_replay, methods=["POST"]),
        Route("/replay/state", pages.replay_state),
    ]
    return Starlette(
        routes=[
            Route("/", pages.index),
            Route("/playground", pages.playground),
            Route("/playground/decide", pages.decide, methods=["POST"]),
            Route("/playground/save", pages.save, methods=["POST"]),
            Route("/playground/examples/{name}", pages.example),
            *(recorded if recording else ()),
            *(replayed if replayer else ()),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[
            Middleware(SecurityMiddleware),
            _LOOPBACK_NAMES,
        ],
    )


def serve_console(
    playground: Playground,
    recording: Recording | None,
    replayer: Replayer | None,
    port: int,
    announce: Callable[[str], None],
) -> None:
    """Serve the console on loopback until a signal stops it; ``announce`` gets its URL once it listens.

    Raises:
        OSError: the port cannot be used.
    """
    listener = socket.create_server((LOOPBACK_HOSTS[0], port))
    config = uvicorn.Config(
        build_console(playground, recording, replayer),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    announce(f"http://{LOOPBACK_HOSTS[0]}:{listener.getsockname()[1]}")
    uvicorn.Server(config).run([listener])
