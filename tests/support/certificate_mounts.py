"""Mounts: folders that hold a certificate, its key and authorities, and all the ways in which these change."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import trustme
from trustme import LeafCert

_NUMBERS = itertools.count(1)


def chain_of(issued: LeafCert) -> bytes:
    """The certificate and those between it and its authority, in PEM."""
    return b"".join(pem.bytes() for pem in issued.cert_chain_pems)


def key_of(issued: LeafCert) -> bytes:
    """The private key, in PEM."""
    return issued.private_key_pem.bytes()


def bundle_of(*authorities: trustme.CA) -> bytes:
    """Certificates of authorities, in PEM."""
    return b"".join(authority.cert_pem.bytes() for authority in authorities)


@dataclasses.dataclass(frozen=True)
class Mount:
    """A folder as a Secret would be mounted: names that lead through one link, ``..data``, into a hidden folder."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, issued: LeafCert, *authorities: trustme.CA) -> Mount:
        """Make one that holds a pair and its authorities."""
        folder.mkdir(exist_ok=True)
        mount = cls(folder)
        mount.swap(
            {"tls.crt": chain_of(issued), "tls.key": key_of(issued), "ca.crt": bundle_of(*authorities)}
        )
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(f"..data/{name}")
        return mount

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    @property
    def authorities(self) -> Path:
        return self.folder / "ca.crt"

    def swap(self, contents: dict[str, bytes]) -> None:
        """Change files as a kubelet does: all at once, by moving the link to another folder."""
        link = self.folder / "..data"
        kept = {one.name: one.read_bytes() for one in link.iterdir()} if link.exists() else {}
        version = self.folder / f"..{next(_NUMBERS)}"
        version.mkdir()
        for name, content in (kept | contents).items():
            (version / name).write_bytes(content)
        moving = self.folder / "..data_tmp"
        moving.symlink_to(version.name)
        moving.rename(link)

    def rename_over(self, path: Path, content: bytes) -> None:
        """Change a file as careful programs do: write another one, and give it the name."""
        other = self.folder / f"new-{path.name}"
        other.write_bytes(content)
        other.rename(path)


@dataclasses.dataclass(frozen=True)
class Step:
    """One change of files, and whether what is in them then can be used."""

    change: Callable[[], object]
    usable: bool = True


@dataclasses.dataclass(frozen=True)
class Rotation:
    """A new pair comes into a mount."""

    mount: Mount
    new: LeafCert

    def in_place(self) -> Iterator[Step]:
        yield Step(lambda: (self._write_key(), self._write_certificate()))

    def renamed(self) -> Iterator[Step]:
        def change() -> None:
            self.mount.rename_over(self.mount.key, key_of(self.new))
            self.mount.rename_over(self.mount.certificate, chain_of(self.new))

        yield Step(change)

    def data_link(self) -> Iterator[Step]:
        yield Step(lambda: self.mount.swap({"tls.crt": chain_of(self.new), "tls.key": key_of(self.new)}))

    def key_first(self) -> Iterator[Step]:
        yield Step(self._write_key, usable=False)
        yield Step(self._write_certificate)

    def certificate_first(self) -> Iterator[Step]:
        yield Step(self._write_certificate, usable=False)
        yield Step(self._write_key)

    def truncated(self) -> Iterator[Step]:
        cut = chain_of(self.new)[:200]
        yield Step(lambda: (self._write_key(), self.mount.certificate.write_bytes(cut)), usable=False)
        yield Step(self._write_certificate)

    def mismatched(self) -> Iterator[Step]:
        other = key_of(trustme.CA().issue_cert("other.example.com"))
        yield Step(lambda: (self._write_certificate(), self.mount.key.write_bytes(other)), usable=False)
        yield Step(self._write_key)

    def of_another_authority(self) -> Iterator[Step]:
        """For a ``new`` that another authority has signed: all three files at once."""
        new, parents = self.new, self.mount.authorities.read_bytes()
        yield Step(
            lambda: self.mount.swap({"tls.crt": chain_of(new), "tls.key": key_of(new), "ca.crt": parents})
        )

    def _write_key(self) -> int:
        return self.mount.key.write_bytes(key_of(self.new))

    def _write_certificate(self) -> int:
        return self.mount.certificate.write_bytes(chain_of(self.new))


WAYS: tuple[Callable[[Rotation], Iterator[Step]], ...] = (
    Rotation.in_place,
    Rotation.renamed,
    Rotation.data_link,
    Rotation.key_first,
    Rotation.certificate_first,
    Rotation.truncated,
    Rotation.mismatched,
    Rotation.of_another_authority,
)
"""All ways in which a pair changes."""
