"""CEL: the expressions of ``matchConditions`` and admission policies, with Kubernetes' own functions.

Expressions are parsed and type-checked by Google's C++ implementation, and evaluated here, because its runtime counts
no cost: ``docs/adr/0008-cel-cost.md``. Importing this package costs nothing; compiling the first expression does.
"""

import re

IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
"""Matches the identifiers of CEL, :data:`RESERVED_WORDS` included."""
RESERVED_WORDS = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
"""``celReservedSymbols`` of ``k8s.io/apiserver/pkg/cel/escaping.go``."""
