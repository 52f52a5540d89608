"""The package as one installs it: a source archive, the wheel built from it, and that wheel at work in an empty place.

The backend is the setuptools that torch needs; nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import limits

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "data" / "models" / "embedded"
TIRED = b"The animal did not cross the street because it was too tired.\n"


def run(*command: object, cwd: Path, path: str = "", stdin: bytes = b"") -> subprocess.CompletedProcess:
    """A command of Python, run in a folder with a search path of its own."""
    options = {"capture_output": True, "timeout": limits.PROCESS, "env": {**os.environ, "PYTHONPATH": path}}
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, input=stdin, **options)


def build(kind: str, source: Path, output: Path) -> Path:
    """The archive that the backend of pyproject.toml makes of a folder: `sdist` or `wheel`."""
    backend = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["build-backend"]
    done = run("-c", f"import {backend} as backend; backend.build_{kind}({str(output)!r})", cwd=source)
    assert done.returncode == 0, done.stderr.decode()
    (archive,) = output.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return archive


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """What is built, in a folder of its own, where building leaves its files; with a new table of the grammar."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT"):
        shutil.copy(ROOT / name, clone)
    for name in ("annotated", "data/models"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "annotated" / "text" / "grammar" / "data" / "one more.tsv").touch()
    return clone


@pytest.fixture(scope="module")
def installed(clone, tmp_path_factory) -> Path:
    """A folder with nothing but a wheel's content. The wheel was built from a source archive."""
    unpacked, site = tmp_path_factory.mktemp("unpacked"), tmp_path_factory.mktemp("site")
    shutil.unpack_archive(build("sdist", clone, tmp_path_factory.mktemp("sdist")), unpacked)
    (source,) = unpacked.iterdir()
    shutil.unpack_archive(build("wheel", source, tmp_path_factory.mktemp("wheel")), site, "zip")  # as pip would
    return site


def files(folder: Path, place: Path = Path()) -> dict[str, Path]:
    """Every file below a folder, by its name there or at a place elsewhere, but what Python leaves when it runs."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(place / name): path for name, path in found.items() if "__pycache__" not in name.parts}


def test_the_wheel_holds_what_the_package_holds(clone, installed):
    """Modules, the mark for type checkers, data and the model, each as it is here; no second model, no tests."""
    wanted = files(clone / "annotated") | files(MODEL, Path("models", "embedded"))
    assert {"py.typed", "models/embedded/model.safetensors"} <= wanted.keys()
    held = files(installed / "annotated")
    assert sorted(held) == sorted(wanted)
    assert [name for name in held if held[name].read_bytes() != wanted[name].read_bytes()] == []
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"annotated", "annotated_attention"}


def test_the_installed_package_translates_with_the_model_that_it_carries(installed, tmp_path):
    command = ["-m", "annotated", "translate", "embedded", "--device", "cpu"]
    done = run(*command, cwd=tmp_path, path=str(installed), stdin=TIRED)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"es" in done.stdout.split(), "the animal, das Tier, is tired"


def test_a_folder_of_that_name_wins_and_an_unknown_name_gets_one_line(installed, tmp_path):
    (tmp_path / "embedded").mkdir()
    program = (
        "from annotated.command.cli import main; print([main(['translate', name]) for name in ('embedded', 'parser')])"
    )
    done = run("-c", program, cwd=tmp_path, path=str(installed), stdin=TIRED)
    assert done.stdout.decode() == "[1, 1]\n"
    folder, unknown = done.stderr.decode().splitlines()
    assert folder.startswith(f"annotated translate: {Path('embedded', 'config.json')}: ")
    assert unknown.startswith("annotated translate: parser: no such model folder here")
    assert "embedded" in unknown
