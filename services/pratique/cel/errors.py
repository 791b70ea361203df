"""The errors of compiling and evaluating expressions, with the texts of cel-go and the API server."""

from __future__ import annotations

from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.cluster.authorization import UnansweredError


class CompilationError(InputError):
    """An expression does not compile. The text is the API server's, positions included."""


class EvaluationError(PratiqueError):
    """An expression has no value. The text is cel-go's, for example ``no such key: foo``.

    ``||`` and ``&&`` absorb it if the other operand decides the result.
    """


class NoSuchOverloadError(EvaluationError):
    """A function has no overload for the types of its arguments."""

    def __init__(self, operator: str | None = None) -> None:
        """Word the error as cel-go does.

        Args:
            operator: The operator, if the first operand's type lacks it altogether; empty if the type refuses it in
                this case; None if the error names the function with the types of its arguments.
        """
        super().__init__(f"no such overload: {operator}" if operator else "no such overload")
        self.is_final = operator is not None


class EvaluationCancelledError(PratiqueError):
    """An evaluation was cancelled; no operator of the expression absorbs this error."""


class CostLimitError(EvaluationCancelledError):
    """The expression exceeded the cost limit of one expression."""

    def __init__(self) -> None:
        """Word the error as cel-go does."""
        super().__init__("operation cancelled: actual cost limit exceeded")


class InterruptedEvaluationError(EvaluationCancelledError):
    """The request's deadline passed before the evaluation ended."""

    def __init__(self) -> None:
        """Word the error as cel-go does."""
        super().__init__("operation interrupted")


class SlowEvaluationError(EvaluationCancelledError):
    """The expression exceeded the inline budget; evaluate it again in a thread."""


class UnansweredEvaluationError(UnansweredError, SlowEvaluationError):
    """An authorizer has to ask an API server first: await :attr:`answer`, then evaluate again in a thread."""


class OutOfBudgetError(PratiqueError):
    """The expressions exceeded the budget that they share."""

    def __init__(self) -> None:
        """Word the error as the API server does: ``k8s.io/apiserver/pkg/admission/plugin/cel/activation.go``."""
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )
