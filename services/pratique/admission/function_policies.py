"""Policies of one callable: decorators that make a controller of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, overload

import msgspec

from pratique.admission.controllers import (
    MAX_TIMEOUT_SECONDS,
    MUTATE,
    VALIDATE,
    Controller,
    FailurePolicy,
    Handlers,
    NoSettings,
    Phase,
)
from pratique.admission.results import Answer
from pratique.admission.reviews import Review
from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import LabelSelector, validate_selector
from pratique.apimachinery.statuses import aggregate

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

R_co = TypeVar("R_co", bound=Answer | Awaitable[Answer], covariant=True)


class PolicyOptions(TypedDict, total=False):
    """What :func:`validator` and :func:`mutator` take besides name and rules."""

    summary: str
    """What the policy does, in one sentence. Empty means the first line of the callable's docstring."""
    default: bool
    """Whether it is enabled by default."""
    timeout_seconds: float | None
    """Its time limit, more than 0 and at most 30; None means that of the review."""
    namespace_selector: Mapping[str, JSON]
    """Labels of the namespaces whose requests it gets, as ``{"matchLabels": {"tier": "prod"}}``."""
    object_selector: Mapping[str, JSON]
    """Labels of the objects, new or old, that it gets."""
    match_conditions: Mapping[str, str]
    """Expressions in CEL that must all be true of the request, by their names."""
    failure_policy: Literal["Fail", "Ignore"]
    """Whether a request is denied, or continues, where the policy fails or takes too long."""
    before: Sequence[str]
    """Names of controllers that run after it."""
    after: Sequence[str]
    """Names of controllers that run before it."""
    asked_once: bool
    """Whether asking it twice about one review does more than asking it once; see :class:`Controller`."""
    settings: type[msgspec.Struct]
    """The type of its parameters, which the callable gets as its second argument; see :class:`Controller`."""
    collectors: Sequence[Collector]
    """Metrics of its own, which the service that runs it shows. Label values must not come from reviewed objects, and
    names must not begin like Pratique's own."""


class CallableController(Controller, Generic[R_co], frozen=True, kw_only=True):
    """A controller that :func:`validator` or :func:`mutator` made from a callable, and that can be called as that."""

    __wrapped__: Callable[..., R_co]
    """The callable, by the name under which :mod:`inspect` looks for it."""

    def __call__(self, review: Review, *settings: msgspec.Struct) -> R_co:
        """Return the callable's own answer to a review, whatever the rules select; without the engine around it.

        ``settings`` are its parameters, if it has any.
        """
        return self.__wrapped__(review, *settings)


class ReviewCallable(Protocol[R_co]):
    """An object that can be called with a review."""

    def __call__(self, review: Review, /) -> R_co:
        """Return the answer."""


class ControllerDecorator(Protocol):
    """Makes a controller from a callable, or from a class whose instances are callable."""

    @overload
    def __call__(self, policy: type[ReviewCallable[R_co]], /) -> CallableController[R_co]: ...

    @overload
    def __call__(self, policy: Callable[[Review], R_co], /) -> CallableController[R_co]: ...

    @overload
    def __call__(self, policy: Callable[[Review, Any], R_co], /) -> CallableController[R_co]: ...


def validator(name: str, *rules: Rule, **options: Unpack[PolicyOptions]) -> ControllerDecorator:
    """Create a validating controller from a callable, which can be ``async``.

    The controller can be called as the callable itself. A class is instantiated without arguments.

    Args:
        name: The name in ``--enable-admission-plugins``.
        rules: Select its requests; a request matches if any rule does. Without rules it gets every request.
        options: See :class:`PolicyOptions`.

    Raises:
        ValueError: the name cannot be used in a flag, a rule is not a Rule, or an option has a wrong value.
        TypeError: an option has a wrong type.
    """
    return _controller_decorator(name, rules, Phase.VALIDATE, options)


def mutator(name: str, *rules: Rule, **options: Unpack[PolicyOptions]) -> ControllerDecorator:
    """Create a mutating controller from a callable, which can be ``async`` and can also deny.

    The controller can be called as the callable itself. A class is instantiated without arguments.
    The controller is called again if a later webhook or policy changed the object, so it must answer ``allow()`` to
    its own result.

    Args:
        name: The name in ``--enable-admission-plugins``.
        rules: Select its requests; a request matches if any rule does. Without rules it gets every request.
        options: See :class:`PolicyOptions`.

    Raises:
        ValueError: the name cannot be used in a flag, a rule is not a Rule, or an option has a wrong value.
        TypeError: an option has a wrong type.
    """
    return _controller_decorator(name, rules, Phase.MUTATE, options)


_NAME = pattern(r"[A-Za-z][A-Za-z0-9._-]*")


def _controller_decorator(
    name: str, rules: tuple[Rule, ...], phase: Phase, options: PolicyOptions
) -> ControllerDecorator:
    # str() because of ``@validator`` without parentheses, which passes the callable as the name.
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f'a controller needs a name of letters and digits, such as "RequireTeam": {name!r}')
    if not all(isinstance(rule, Rule) for rule in rules):
        raise ValueError(f'{name}: rules are written as rule("pods")')
    fields = _checked(name, options)
    settings = options.get("settings", NoSettings)
    collectors = tuple(options.get("collectors", ()))

    def make(policy: Any) -> CallableController[Any]:
        handler = policy() if isinstance(policy, type) else policy
        if not callable(handler) or isinstance(handler, Controller):
            kind = type(handler).__name__
            raise TypeError(f"{name}: a policy is a callable that takes a review, not an instance of {kind}")

        def build(given: msgspec.Struct) -> Handlers:
            bound = handler if settings is NoSettings else _with_settings(handler, given)
            if phase is Phase.MUTATE:
                return Handlers(mutate=bound, collectors=collectors)
            return Handlers(validate=bound, collectors=collectors)

        return CallableController(
            __wrapped__=handler,
            name=name,
            summary=options.get("summary") or (inspect.getdoc(policy) or name).partition("\n")[0],
            phases=MUTATE if phase is Phase.MUTATE else VALIDATE,
            rules=rules or (EVERYTHING,),
            build=build,
            settings=settings,
            default=options.get("default", False),
            **fields,
        )

    return make


def _with_settings(handler: Callable[..., Any], settings: msgspec.Struct) -> Callable[[Review], Any]:
    """Bind the parameters; what results is ``async`` where the callable is."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):

        @functools.wraps(handler)
        async def ask(review: Review) -> Any:
            return await handler(review, settings)

        return ask
    return functools.partial(_call, handler, settings)


def _call(handler: Callable[..., Any], settings: msgspec.Struct, review: Review) -> Any:
    return handler(review, settings)


def _checked(name: str, options: PolicyOptions) -> dict[str, Any]:
    """The fields of a controller that options give.

    Raises:
        ValueError: one has a wrong value.
        TypeError: one has a wrong type.
    """
    unknown = sorted(options.keys() - PolicyOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(PolicyOptions.__annotations__)
        raise ValueError(f"{name}: there is no option {unknown[0]!r}; there are {known}")
    seconds = options.get("timeout_seconds")
    if seconds is not None and not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise ValueError(f"{name}: timeout_seconds must be more than 0 and at most {MAX_TIMEOUT_SECONDS:g}")
    try:
        policy = FailurePolicy(options.get("failure_policy", FailurePolicy.FAIL))
    except ValueError:
        raise ValueError(f"{name}: failure_policy must be 'Fail' or 'Ignore'") from None
    for field in ("before", "after"):
        if isinstance(options.get(field), str):
            raise TypeError(f"{name}: {field} takes a list of names of controllers")
    if not isinstance(asked_once := options.get("asked_once", False), bool):
        raise TypeError(f"{name}: asked_once must be True or False")
    return {
        "timeout_seconds": seconds,
        "asked_once": asked_once,
        "namespace_selector": _selector(name, "namespace_selector", options.get("namespace_selector")),
        "object_selector": _selector(name, "object_selector", options.get("object_selector")),
        "match_conditions": dict(options.get("match_conditions", {})),
        "failure_policy": policy,
        "before": tuple(options.get("before", ())),
        "after": tuple(options.get("after", ())),
    }


def _selector(name: str, field: str, written: Mapping[str, JSON] | None) -> LabelSelector | None:
    if written is None:
        return None
    try:
        selector = decode_strictly(dict(written), LabelSelector)
    except StrictDecodingError as error:
        raise ValueError(f"{name}: {field}: {error}") from None
    if errors := validate_selector(selector, ROOT / field):
        raise ValueError(f"{name}: {aggregate(list(map(str, errors)))}")
    return selector
