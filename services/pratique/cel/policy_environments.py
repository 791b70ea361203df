"""Policy environments: what the expressions of one policy may use.

Source: ``k8s.io/apiserver/pkg/admission/plugin/cel/composition.go`` and ``compile.go`` ``mustBuildEnvs``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.cel.compositions import declared_type, mentioned
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import compile_expression

if TYPE_CHECKING:
    from pratique.cel.expressions import Expression


@dataclasses.dataclass(slots=True)
class PolicyCompiler:
    """Compiles the expressions of one policy, one after another."""

    has_params: bool
    """Whether there is a variable ``params``."""
    types: dict[str, str] | None
    """The types of the variables so far, by name; None where there is no variable ``variables`` at all."""

    def compile(
        self,
        source: str,
        *result_types: str,
        has_authorizer: bool = True,
        has_patches: bool = False,
        has_variables: bool = True,
    ) -> Expression:
        """Compile an expression. Raises CompilationError in the API server's words."""
        types = self.types if has_variables else None
        environment = Environment(
            has_params=self.has_params,
            has_authorizer=has_authorizer,
            has_patches=has_patches,
            composited=None if types is None else mentioned(source, types.items()),
        )
        return compile_expression(source, environment, *result_types)

    def add_variable(self, name: str, source: str) -> Expression:
        """Compile a variable, which sees those before it; what is compiled from now on sees it.

        Raises:
            CompilationError: it cannot be compiled; it is then known all the same, as of any type.
        """
        types = self.types = {} if self.types is None else self.types
        try:
            expression = self.compile(source)
        except CompilationError:
            types[name] = "dyn"
            raise
        types[name] = declared_type(expression.result_type)
        return expression
