"""Whether a tag may be released: tools/release.py, and the workflow that asks it."""

import re
import subprocess
import sys

import pytest
import yaml

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
    assert capsys.readouterr().err == f"release: {name}: has version 1.2.2, and the tag says 1.2.3\n"


@pytest.mark.parametrize("name", PLACES)
def test_a_place_without_a_version_is_no_agreement(project, name):
    (project / name).write_text("", encoding="utf-8")
    assert f"{name}: has version none, and the tag says 1.2.3" in problems("v1.2.3", project)


def test_everything_that_is_wrong_is_said_at_once(project):
    assert len(problems("v1.2.4", project)) == len(PLACES) + 1


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3-final", "v1.2.3\n", "version", "v", ""])
def test_a_tag_of_another_form_is_refused(project, tag):
    """Such as the version alone, which everybody types some day, and which would start no workflow."""
    (said,) = problems(tag, project)
    assert "not a tag of a release" in said


def test_a_candidate_is_a_release_too(project):
    for name in FILES:
        (project / name).write_text(FILES[name].replace("1.2.3", "1.2.3rc1"), encoding="utf-8")
    assert problems("v1.2.3rc1", project) == []


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("## 1.2.30 - 2030-01-31", "CHANGELOG.md: no section for it: begin one with `## 1.2.3 - YEAR-MONTH-DAY`"),
        ("## 1x2.3 - 2030-01-31", "CHANGELOG.md: no section for it: begin one with `## 1.2.3 - YEAR-MONTH-DAY`"),
        ("## 1.2.3 - unreleased", "CHANGELOG.md: no section for it: begin one with `## 1.2.3 - YEAR-MONTH-DAY`"),
        ("## 1.2.3 - 2030-02-01", "CITATION.cff: released 2030-01-31, and CHANGELOG.md says 2030-02-01"),
    ],
)
def test_the_changelog_has_a_section_of_that_version_and_day(project, heading, said):
    changed = FILES["CHANGELOG.md"].replace("## 1.2.3 - 2030-01-31", heading)
    (project / "CHANGELOG.md").write_text(changed, encoding="utf-8")
    assert problems("v1.2.3", project) == [said]


def test_a_section_without_a_word_is_none(project):
    (project / "CHANGELOG.md").write_text("## 1.2.3 - 2030-01-31\n\n## 1.2.2 - 2029-01-01\n\nOld.\n", encoding="utf-8")
    (said,) = problems("v1.2.3", project)
    assert said.startswith("CHANGELOG.md: no section for it")


def test_a_citation_without_a_date_is_named(project):
    (project / "CITATION.cff").write_text("version: 1.2.3\n", encoding="utf-8")
    assert problems("v1.2.3", project) == ["CITATION.cff: released on no date, and CHANGELOG.md says 2030-01-31"]


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


def test_the_workflow_asks_before_it_builds_and_builds_before_it_publishes():
    """A job that does not wait for the check would publish what the check refuses."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]

    def before(job):
        needs = jobs[job].get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        return {*needs, *(other for need in needs for other in before(need))}

    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    steps = "\n".join(step.get("run", "") for step in jobs["package"]["steps"])
    assert re.search(r'tools\.release "\$GITHUB_REF_NAME"$[\s\S]*-m build', steps, re.MULTILINE)
    assert before("release") == before("pypi") == {"package", "try", "book"}
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert jobs["pypi"]["environment"]["name"] == "pypi"
    uses = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert [action for action in uses if "@" not in action] == []


def test_what_is_told_of_publishing_names_the_workflow_and_its_environment():
    """The publisher that is registered at PyPI has to have exactly these names."""
    told = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    assert "`release.yml`" in told
    assert "`pypi`" in told
    assert "`annotated-attention`" in told
    for name in PLACES:
        assert f"`{name}`" in told, name
