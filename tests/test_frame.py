"""The frame: pins, lock, version, configuration."""

import json
import re
import tomllib
from datetime import date
from importlib.metadata import distributions
from pathlib import Path

import nbformat
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import annotated
from tools.release import problems

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(*extras: str) -> list[str]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return [plain(re.match(r"[\w.-]+", line)[0]) for line in lines]


def test_lock_holds_names_and_versions_only():
    assert [line for line in LOCK if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []
    names = [plain(line.split("==")[0]) for line in LOCK]
    assert len(names) == len(set(names))
    assert not {plain(PROJECT["name"]), "pip", "setuptools"} & set(names)


def test_lock_covers_what_book_and_tests_need_and_keeps_to_the_ranges():
    """The lock is installed without asking for them."""
    assert set(required("book", "test")) <= {plain(line.split("==")[0]) for line in LOCK}
    locked = dict(line.split("==") for line in LOCK)
    locked = {plain(name): version for name, version in locked.items()}
    extras = PROJECT["optional-dependencies"]
    wanted = [Requirement(line) for line in [*PROJECT["dependencies"], *extras["book"], *extras["test"]]]
    outside = [str(one) for one in wanted if locked[plain(one.name)] not in one.specifier]
    assert outside == []


def test_npm_packages_are_pinned_and_nobody_needs_another_system_to_read_the_book():
    npm = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    versions = [*npm["dependencies"].values(), *npm["devDependencies"].values()]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions), "npm keeps no lock here"
    assert not {"transformers", "ctranslate2"} & set(required("book"))


def test_locked_packages_take_the_oldest_python():
    """That of `requires-python`: a distribution's own 3.11 is not the newest."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    asked = {package.name: package.metadata["Requires-Python"] or "" for package in distributions()}
    assert {name: needs for name, needs in asked.items() if oldest not in SpecifierSet(needs)} == {}


def test_the_citation_names_what_the_book_names():
    citation, book = (
        yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in ("CITATION.cff", "_config.yml")
    )
    assert (citation["title"], citation["authors"]) == (book["title"], [{"name": book["author"]}])
    assert citation["authors"] == PROJECT["authors"]
    assert isinstance(citation["date-released"], date), "written without quotes"


def test_versions_agree():
    """In all files that name it, in the changelog, and in the package that is imported here."""
    assert problems(f"v{PROJECT['version']}") == []
    assert annotated.__version__ == PROJECT["version"]


def test_what_is_said_of_installing_extras_names_this_distribution():
    """In messages, chapters and README.md; `.` is a clone."""
    paths = [ROOT / "README.md", *NOTEBOOKS, *(ROOT / "annotated").rglob("*.py")]
    texts = "".join(path.read_text(encoding="utf-8") for path in paths)
    said = set(re.findall(r'pip install \\*"([\w.-]+)\[(\w+)\]', texts))
    assert ("annotated-attention", "fast") in said
    assert {name for name, _ in said} <= {PROJECT["name"], "."}
    assert {extra for _, extra in said} <= PROJECT["optional-dependencies"].keys()


def test_book_configuration_executes_nothing_and_asks_no_other_host():
    text = (ROOT / "_config.yml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    assert config["execute"]["execute_notebooks"] == "off"
    assert "http" not in text
    for path in (ROOT / "book" / "web").glob("*.[cj]ss*"):
        assert not re.search(r"https?://|@import", path.read_text(encoding="utf-8")), path.name


def test_notebooks_are_valid():
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(path, as_version=4))
