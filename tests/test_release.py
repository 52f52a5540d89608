"""Whether a tag may be released: tools/release.py, and the workflow that asks it."""

import subprocess
import sys

import pytest

from tools import ROOT
from tools.release import PLACES, main, problems, section_of

FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.3"\ndependencies = ["numpy>=1.26"]\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\ndate-released: 2030-01-31\n",
    "annotated/__init__.py": '__version__ = "1.2.3"\n',
    "CHANGELOG.md": "# News\n\n## 1.2.3 - 2030-01-31\n\nNew.\n\n### Parts\n\nMore.\n\n## 1.2.2 - 2029-01-01\n\nOld.\n",
}


@pytest.fixture
def project(tmp_path):
    """The files of a project that is ready for v1.2.3."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_project_that_is_ready(project, capsys):
    assert main(["v1.2.3"], project) == 0
    assert capsys.readouterr() == ("v1.2.3: all places agree, released 2030-01-31\n", "")


@pytest.mark.parametrize("name", PLACES)
def test_each_place_that_was_forgotten_is_named(project, name, capsys):
    """A place that is left out of the comparison would be released with the version before."""
    (project / name).write_text(FILES[name].replace("1.2.3", "1.2.2"), encoding="utf-8")
    assert main(["v1.2.3"], project) == 1
    assert name in capsys.readouterr().err
    (project / name).write_text("", encoding="utf-8")
    assert any(name in said for said in problems("v1.2.3", project))


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3-final", "v1.2.3\n"])
def test_a_tag_of_another_form_is_refused(project, tag):
    """Such as the version alone, which everybody types some day, and which would start no workflow."""
    assert len(problems(tag, project)) == 1


@pytest.mark.parametrize(
    "heading",
    ["## 1.2.30 - 2030-01-31", "## 1x2.3 - 2030-01-31", "## 1.2.3 - unreleased", "## 1.2.3 - 2030-02-01"],
)
def test_the_changelog_has_a_section_of_that_version_and_day(project, heading):
    changed = FILES["CHANGELOG.md"].replace("## 1.2.3 - 2030-01-31", heading)
    (project / "CHANGELOG.md").write_text(changed, encoding="utf-8")
    assert len(problems("v1.2.3", project)) == 1


def test_the_notes_are_its_section_to_the_end_and_no_other(project, capsys):
    """With headings of its own inside; the section of the version before would be sent to all readers again."""
    assert main(["v1.2.3", "--notes"], project) == 0
    assert capsys.readouterr().out == "New.\n\n### Parts\n\nMore.\n"
    assert section_of(FILES["CHANGELOG.md"], "1.2.2") == ("2029-01-01", "Old.")


def test_it_runs_before_anything_is_installed():
    """The workflow asks it first, with a bare Python: no site-packages here."""
    command = [sys.executable, "-S", "-m", "tools.release", "0.0.1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
