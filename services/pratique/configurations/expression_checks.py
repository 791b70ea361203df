"""Expression checks: what the API server says of the CEL expressions in a configuration.

CEL is imported when the first expression is read, so that configurations without any do not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_match_condition(expression: str) -> Sequence[str]:
    """Say what is wrong with an expression of ``matchConditions``; nothing where it is right."""
    from pratique.cel.environments import MATCH_CONDITIONS  # noqa: PLC0415 - see the module
    from pratique.cel.errors import CompilationError  # noqa: PLC0415 - likewise
    from pratique.cel.expressions import compile_expression  # noqa: PLC0415 - likewise

    try:
        compile_expression(expression, MATCH_CONDITIONS, "bool")
    except CompilationError as error:
        return [str(error)]
    return []
