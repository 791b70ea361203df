"""What can go wrong with an expression."""

from __future__ import annotations

from pratique.apimachinery.errors import InputError, PratiqueError


class CompilationError(InputError):
    """An expression does not compile. The text is the API server's, positions and all."""


class EvaluationError(PratiqueError):
    """An expression has no value. The text is cel-go's, for example ``no such key: foo``.

    ``||`` and ``&&`` forgive it where the other side decides.
    """


class NoSuchOverloadError(EvaluationError):
    """A function does not take values of these types."""

    def __init__(self, operator: str = "") -> None:
        """Say so as cel-go does; ``operator`` where a value has no such operation at all."""
        super().__init__(f"no such overload: {operator}" if operator else "no such overload")
        self.is_final = bool(operator)


class EvaluationCancelledError(PratiqueError):
    """An evaluation was ended from outside; nothing in the expression forgives it."""


class CostLimitError(EvaluationCancelledError):
    """The expression cost more than one expression may."""

    def __init__(self) -> None:
        """Say so as cel-go does."""
        super().__init__("operation cancelled: actual cost limit exceeded")


class InterruptedEvaluationError(EvaluationCancelledError):
    """The request's time was up before the expression had a value."""

    def __init__(self) -> None:
        """Say so as cel-go does."""
        super().__init__("operation interrupted")


class SlowEvaluationError(EvaluationCancelledError):
    """The expression costs more than may be spent where it runs; it is to be evaluated in a thread."""


class OutOfBudgetError(PratiqueError):
    """All expressions together cost more than they may."""

    def __init__(self) -> None:
        """Say so as the API server does: ``k8s.io/apiserver/pkg/admission/plugin/cel/activation.go``."""
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )
