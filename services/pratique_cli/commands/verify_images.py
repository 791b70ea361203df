"""``pratique verify-images``."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, member
from pratique.https.sessions import HttpsSession
from pratique.images.policies import (
    DefaultAction,
    ImageRule,
    ImageVerificationPolicy,
    KeyRequirement,
    load_image_policy,
    read_public_key,
)
from pratique.images.references import RepositoryPattern, normalize_host, parse_reference
from pratique.images.registry_settings import RegistrySettings
from pratique.images.verification import ImageVerdict, ImageVerifier
from pratique_cli.encoding import encode_list
from pratique_cli.exit_codes import ExitCode
from pratique_cli.image_options import registry_flags
from pratique_cli.options import FORMATS, ExistingPath, flag, format_flag, timeout_flag
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.terminal import palette_for, print_problem, printable

EPILOG = """\b
An image is verified by the signatures that cosign made of it with a key, as
its registry has them: docs/image-signatures.md. What cannot be verified is
refused, with the reason.

With --key, every image needs a signature of one of the keys. With --policy,
the policy says which images need which keys.

\b
Examples:
  pratique verify-images registry.example.com/shop/web:1.0 --key cosign.pub
  pratique verify-images -f deploy/ --policy images.yaml
  helm template chart | pratique verify-images -f - --key cosign.pub -o json

\b
Exit codes: 0 every image is verified, 1 at least one is refused, 2 wrong usage
or unreadable input, 3 the program itself failed.
"""

_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def _host(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return normalize_host(value) if value else ""
    except InputError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command("verify-images", epilog=EPILOG)
@click.argument("images", metavar="[IMAGE]...", nargs=-1)
@flag(
    "-f",
    "--filename",
    "files",
    type=ExistingPath(dash=True),
    multiple=True,
    help="Manifests whose images to verify: a file, a folder, or - for standard input. Repeatable.",
)
@flag(
    "--policy",
    type=ExistingPath(folders=False),
    help="An ImageVerificationPolicy: which images need whose signatures.",
)
@flag(
    "--key",
    "keys",
    type=ExistingPath(folders=False),
    multiple=True,
    help="A public key in PEM, such as cosign.pub, instead of a policy. Repeatable: one of them must have signed.",
)
@flag("--all-keys", is_flag=True, help="Every --key must have signed.")
@flag(
    "--annotation",
    "annotations",
    metavar="NAME=VALUE",
    multiple=True,
    help="What a signature must say for it to count, as cosign sign -a writes it. Repeatable.",
)
@flag("--require-digest", is_flag=True, help="Refuse images that are named by a tag, which can move.")
@flag(
    "--default-registry",
    metavar="HOST",
    default="",
    callback=_host,
    help="The registry of images that name none, such as nginx: the one that your nodes pull them from.",
)
@registry_flags
@timeout_flag("each image")
@format_flag(*FORMATS)
def command(
    images: Sequence[str],
    files: Sequence[Path],
    policy: Path | None,
    *,
    registries: RegistrySettings,
    timeout: float,
    output: str,
    **of_keys: Any,
) -> ExitCode:
    """Verify the signatures of images, by name or of manifests, with public keys."""
    if not images and not files:
        raise click.UsageError("name images, or manifests with -f")
    if (policy is None) is not bool(of_keys["keys"]):
        raise click.UsageError("give --policy, or at least one --key, and not both")
    if policy is not None and any(of_keys.values()):
        raise click.UsageError(
            "--all-keys, --annotation, --require-digest and --default-registry go with --key; a policy has its own"
        )
    code, named = ExitCode.ADMITTED, list(images)
    for found in _images_of_files(files):
        if isinstance(found, InputError):
            code = ExitCode.BAD_INPUT
            print_problem(str(found))
        else:
            named.append(found)
    if not named:
        if code is ExitCode.BAD_INPUT:
            return code
        raise InputError("no manifest names an image, so there is nothing to verify")
    chosen = load_image_policy(policy) if policy is not None else _policy_of_keys(named, **of_keys)
    verdicts = asyncio.run(_verify(named, chosen, registries, timeout))
    click.echo(_written(verdicts, output), nl=False)
    refused = not all(verdict.allowed for verdict in verdicts)
    return max(code, ExitCode.DENIED if refused else ExitCode.ADMITTED)


def _policy_of_keys(
    images: Sequence[str],
    *,
    keys: Sequence[Path],
    all_keys: bool,
    annotations: Sequence[str],
    require_digest: bool,
    default_registry: str,
) -> ImageVerificationPolicy:
    """Make the policy by which all images need the signatures of keys."""
    names: dict[str, None] = {}
    for image in images:
        with contextlib.suppress(InputError):  # it is refused when it is verified
            names[parse_reference(image, default_registry).name] = None
    rule = ImageRule(
        images=tuple(map(RepositoryPattern, names)),
        keys=tuple(dict.fromkeys(map(read_public_key, keys))),
        require=KeyRequirement.ALL if all_keys else KeyRequirement.ANY,
        annotations=dict(map(_annotation, annotations)),
        require_digest=require_digest,
    )
    return ImageVerificationPolicy((rule,), DefaultAction.DENY, default_registry)


def _annotation(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--annotation")
    return name, value


async def _verify(
    images: Sequence[str], policy: ImageVerificationPolicy, registries: RegistrySettings, seconds: float
) -> Sequence[ImageVerdict]:
    session: HttpsSession = registries.open_session()
    try:
        client = registries.client(session, policy, registries.read_credentials())
        return await ImageVerifier(policy, client).verify_all(images, seconds)
    finally:
        await session.close()


def _images_of_files(files: Sequence[Path]) -> Iterator[str | InputError]:
    for file in files:
        for document in read_inputs(file):
            if isinstance(document, InputError):
                yield document
            else:
                yield from _images_of(document.data)


def _images_of(manifest: JSON) -> Iterator[str]:
    """Yield the images of containers and volumes of all that looks like the spec of a Pod, wherever it is."""
    waiting = [manifest]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for field in _CONTAINER_FIELDS:
                yield from _texts(value.get(field), "image")
            yield from _texts(value.get("volumes"), "image", "reference")
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)


def _texts(items: JSON, *path: str) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        text = member(item, *path)
        if isinstance(text, str):
            yield text


def _written(verdicts: Sequence[ImageVerdict], output: str) -> str | bytes:
    if output != "text":
        return encode_list([msgspec.structs.asdict(verdict) for verdict in verdicts], output)
    palette = palette_for(sys.stdout, colour=None)
    lines = []
    for verdict in verdicts:
        mark, colour = ("✓", "green") if verdict.allowed else ("✗", "red")
        told = _proof(verdict) if verdict.allowed else verdict.reason
        lines.append(
            f"{palette.paint(palette.mark(mark), colour)} {printable(verdict.image)}: {printable(told)}"
        )
    refused = sum(not verdict.allowed for verdict in verdicts)
    count = f"{len(verdicts)} {'image' if len(verdicts) == 1 else 'images'}"
    return "\n".join([*lines, f"{count}: {refused} refused", ""])


def _proof(verdict: ImageVerdict) -> str:
    if not verdict.keys:
        return "needs no signature"
    return f"{verdict.digest} is signed with {', '.join(verdict.keys)}"
