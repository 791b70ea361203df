"""The extras of the package, and what to install if one is missing."""

from __future__ import annotations

import importlib.util

MODULES_OF_EXTRAS = {
    "certificates": {"cryptography"},
    "services": {
        "aiohttp",
        "grpc",
        "grpc_health",
        "grpc_reflection",
        "httptools",
        "multidict",
        "opentelemetry",
        "prometheus_client",
        "starlette",
        "uvicorn",
        "uvloop",
        "watchfiles",
        "yarl",
    },
    "ledger": {"psycopg", "sqlalchemy"},
    "cluster": {"kubernetes_asyncio"},
    "console": {"jinja2", "rich"},
    "prove": {"hypothesis"},
}
"""The top-level modules of what each extra of ``pyproject.toml`` installs."""


def require(module: str) -> None:
    """Refuse to go on without a top-level module that is imported later.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def missing_extra(error: ModuleNotFoundError) -> str:
    """Say which extra to install for a module that was not found; empty if no extra has it."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in MODULES_OF_EXTRAS.items():
        if package in packages:
            return f"this needs {error.name}, which is not installed: {install_advice(extra)}"
    return ""


def install_advice(extra: str) -> str:
    """Say how to install an extra. In a checkout, its name alone could find a stranger's package on an index."""
    return f"in a checkout, pip install '.[{extra}]'; from an index, pip install 'pratique[{extra}]'"
