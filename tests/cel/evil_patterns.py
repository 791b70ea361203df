"""Patterns that take backtracking engines for ever, and texts that make them do so.

Run as a program, it tries each of them as CEL does, and writes each result.
"""

from __future__ import annotations

import json
import sys

A, LONG = "a" * 50_000 + "!", 1_000
PATTERNS: list[tuple[str, str]] = [
    *(
        (pattern, A)
        for pattern in ("(a+)+$", "(a*)*$", "(a|a)*$", "(a|aa)+$", "(a|a?)+$", "(.*a){20}$", "^(a+)+$")
    ),
    *(
        (pattern, A)
        for pattern in ("(a+){10}$", "((a+)+)+$", "(a?){40}a{40}$", "(?:a+)+b", "^(([a-z])+.)+[A-Z]$")
    ),
    *(
        (pattern, A)
        for pattern in ("a*a*a*a*a*a*a*a*b", ".*.*.*.*.*.*=", "(?i)(A+)+$", "(?s)(.+)+\\n$", "([a-z]+)*\\d")
    ),
    *(
        (pattern, A)
        for pattern in ("(a+|b+|c+)*d", "(\\w+\\s?)*$", "(\\w*)*\\W\\W", "^(a|b|ab)*c$", "(aa|aab?)*$")
    ),
    ("^([a-zA-Z0-9_.+-])+@(([a-zA-Z0-9-])+.)+([a-zA-Z0-9]{2,4})+$", "a" * 50_000 + "@" + "a" * 50_000),
    ("^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])\\.)*$", "a-" * 30_000),
    ("^(https?://)?([\\da-z.-]+)\\.([a-z.]{2,6})([/\\w .-]*)*/?$", "http://" + "a." * 30_000 + "!"),
    ("^(\\d+\\.)+\\d+$", "1." * 30_000),
    ("(x+x+)+y", "x" * 50_000),
    ("(\\s*,\\s*)*$", " ," * 30_000 + "!"),
    ("\\s+$", " " * 100_000 + "!"),
    ("^\\s+|\\s+$", "a" + " " * 100_000 + "a"),
    ("(<!--.*-->)*$", "<!--" * 20_000),
    ('"(\\\\.|[^"])*"$', '"' + "\\" * 50_000),
    ("(?:(?:a{1,10}){1,10}){1,9}b", A),
    ("a{1000}", "a" * 999),
    ("(a{1,100}){1,10}$", A),
    ("(?:.|\\n)*end", "\n" * 50_000),
    ("([^/]+/)*[^/]+!$", "a/" * 30_000),
    ("\\b(\\w+\\b\\W*)+\\z", "a " * 30_000 + "!"),
    ("[[:alpha:]]+[[:alpha:]]+[[:alpha:]]+\\d", "a" * 50_000),
    ("\\pL+\\pL+\\pL+\\d", "é" * 30_000),
    ("(é|e\\x{301})+$", "é" * 30_000 + "!"),
    ("(?P<n>a+)+$", A),
    # RE2 and Go refuse these: they need backtracking, which makes other engines slow
    *((pattern, A) for pattern in ("(a+)\\1", "(?=a+)+$", "(?!a)b", "(?<=a)b", "(?>a+)b", "a++b", "a{1001}")),
    *((pattern, A) for pattern in ("((((a{30}){30}){30}){30})", "(", "[z-a]", "\\8", "*a")),
    ("(" * LONG + "a" + ")*" * LONG, A),
    ("|".join("a" * length for length in range(1, 200)), A),
    ("a?" * LONG + "a" * LONG, "a" * LONG),
]
WORDS = {True: "matches", False: "does not match"}


def main() -> None:
    """Try all patterns, and write the results as JSON."""
    from pratique.cel import costs
    from pratique.cel.costs import Budget
    from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT
    from pratique.cel.errors import CompilationError, EvaluationError, OutOfBudgetError
    from pratique.cel.expressions import compile_expression

    expression = compile_expression(
        "object.text.matches(object.pattern)", MATCH_CONDITION_ENVIRONMENT, "bool"
    )
    found = []
    for pattern, text in PATTERNS:
        try:
            # as a literal, which is usual in policies, and as a computed value
            compile_expression(f"object.matches({json.dumps(pattern)})", MATCH_CONDITION_ENVIRONMENT, "bool")
            variables = {"object": {"text": text, "pattern": pattern}}
            found.append(
                WORDS[
                    bool(expression.evaluate(variables, Budget(costs.RUNTIME_COST_BUDGET_MATCH_CONDITIONS)))
                ]
            )
        except (CompilationError, EvaluationError, OutOfBudgetError) as error:
            found.append(type(error).__name__)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
