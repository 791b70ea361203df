"""``pratique export``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.manifest_files import walk
from pratique.configuration.loading import Configurations, load_configurations
from pratique_cli.encoding import dump_yaml, indented_json
from pratique_cli.exit_codes import ExitCode
from pratique_cli.loading import left_out_notes, load_found
from pratique_cli.options import ExistingPath, format_flag
from pratique_cli.policy_exports import NotExported, PolicyExport, export_source
from pratique_cli.terminal import print_problem

EPILOG = """\b
Python files are only read, never run or imported. A policy is exported if all
of it surely means the same in CEL; everything else is one line on standard
error, with its place and why.

\b
Examples:
  pratique export policies.py > policies.yaml
  pratique export policies/ webhooks/ -o json

\b
Exit codes: 0 all was exported, 1 something cannot be, 2 wrong usage or
unreadable input, 3 the program itself failed.
"""


@click.command("export", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(dash=True), nargs=-1, required=True)
@format_flag("yaml", "json", default="yaml")
def command(paths: Sequence[Path], *, output: str) -> ExitCode:
    """Write Python policies as native ones of Kubernetes where they can be said so, and tell what cannot.

    PATH is a Python file with policies, webhook configurations and policies as --config takes them, or a folder of
    both; what else lies there is left out.
    """
    sources, others = _sorted_paths(paths)
    configurations, left_out = load_found(others, required=not sources)
    for note in left_out_notes(left_out):
        print_problem(note)
    found = [export for source in sources for export in export_source(source)]
    exports, problems = _valid(item for item in found if isinstance(item, PolicyExport))
    problems += [item for item in found if isinstance(item, NotExported)]
    problems += _webhooks(configurations)
    documents = [document for export in exports for document in export.documents]
    if output == "json":
        click.echo(indented_json({"apiVersion": "v1", "kind": "List", "items": [*documents]}), nl=False)
    else:
        click.echo("---\n".join(map(dump_yaml, documents)), nl=False)
    for problem in problems:
        print_problem(str(problem))
    for policy in (*configurations.validating_policies, *configurations.mutating_policies):
        print_problem(f"note: {policy.kind.value} {policy.name!r} is native already, and not written again")
    if not found and not problems:
        print_problem("note: there is nothing to export: no policy in Python and no webhook")
    return ExitCode.DENIED if problems else ExitCode.ADMITTED


def _sorted_paths(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The Python files, and the paths of configurations."""
    sources: dict[Path, None] = {}
    others = []
    for path in paths:
        if str(path) != "-" and path.is_dir():
            within = sorted(
                file for file in path.rglob("*.py") if file.is_file() and not _is_hidden(file, path)
            )
            sources.update(dict.fromkeys(within))
            if not within or any(not is_folder for _, is_folder in walk(path)):
                others.append(path)
        elif path.suffix == ".py":
            sources[path] = None
        else:
            others.append(path)
    return list(sources), others


def _is_hidden(file: Path, folder: Path) -> bool:
    """Tell whether a file below a folder is hidden, or below a hidden folder, such as an environment's."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _valid(exports: Iterable[PolicyExport]) -> tuple[list[PolicyExport], list[NotExported]]:
    """The exports that an API server takes, and the others."""
    valid: dict[str, PolicyExport] = {}
    problems = []
    for export in exports:
        if export.object_name in valid:
            text = f"another policy is called {export.object_name} already"
            problems.append(NotExported(export.where, text))
            continue
        text = "---\n".join(map(dump_yaml, export.documents))
        try:
            load_configurations((), read_text(text.encode(), export.object_name))
        except ConfigurationError as error:
            first = str(error).partition("\n")[0]
            problems.append(NotExported(export.where, f"an API server would refuse the policy: {first}"))
        else:
            valid[export.object_name] = export
    return list(valid.values()), problems


def _webhooks(configurations: Configurations) -> list[NotExported]:
    why = "its decision is made by its server, and a configuration does not say how"
    return [
        NotExported(f"webhook {webhook.name!r} of {configuration.kind.value} {configuration.name!r}", why)
        for configuration in (*configurations.mutating, *configurations.validating)
        for webhook in configuration.webhooks
    ]
