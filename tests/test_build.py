"""Chapters are executed only where something changed, as copies, and gaps in the site are found: tools/build.py."""

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import build
from tools.clean import clean
from tools.execute import ChapterError

CHAPTER = "%% notebook -\n\n%% md title\n# Title\n\n%% code value\n1 + 1\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two chapters, and a list of the chapters that were executed."""
    for name in ("31_first", "32_second"):
        write_notebook(tmp_path, name, CHAPTER)
    (tmp_path / "book" / "index.md").write_text("# Index\n")
    (tmp_path / "book" / "ledger.yml").write_text("claims: []\n")
    (tmp_path / "requirements.lock").write_text("torch==2.13.0\n")
    toc = "format: jb-book\nroot: index\nparts:\n- caption: A\n  chapters:\n  - file: 31_first\n  - file: 32_second\n"
    (tmp_path / "_toc.yml").write_text(toc)
    for folder in ("annotated", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file.py").write_text("x = 1\n")
    ran = []

    def run(path, *_):
        notebook = nbformat.read(path, as_version=4)
        if "fail" in notebook.cells[1].source:
            raise ChapterError(f"chapter {path.stem}, cell value: it fails")
        notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text=f"run {len(ran)}\n")]
        ran.append(path.stem)
        return clean(notebook)

    monkeypatch.setattr(build, "run", run)
    return tmp_path, ran


def execute(root):
    return build.execute(root, build.toc_entries(root))


def test_chapters_are_executed_where_something_changed(repository):
    """As copies: changed prose is shown with old outputs, what all may read runs all, and so does a broken copy."""
    root, ran = repository
    copies = execute(root)
    assert sorted(ran) == ["31_first", "32_second"]
    before = {path: path.read_bytes() for path in (root / "book").rglob("*") if path.is_file()}
    build.stage(root, execute(root))
    assert before == {path: path.read_bytes() for path in (root / "book").rglob("*") if path.is_file()}
    write_notebook(root, "32_second", CHAPTER.replace("# Title", "# Another title"))
    shown = nbformat.read(build.stage(root, execute(root)) / "32_second.ipynb", as_version=4)
    assert len(ran) == 2
    assert shown.cells[0].source == "# Another title"
    assert shown.cells[1].outputs[0].text.startswith("run ")
    write_notebook(root, "32_second", CHAPTER.replace("1 + 1", "1 + 2"))
    execute(root)
    assert ran[2:] == ["32_second"]
    copies[root / "book" / "31_first.ipynb"].with_suffix(".key").unlink()
    execute(root)
    assert ran[3:] == ["31_first"]
    for changed in ("annotated/file.py", "data/file.py", "data/new.txt", "book/ledger.yml", "book/matplotlibrc"):
        del ran[:]
        with (root / changed).open("a") as file:
            file.write("# changed\n")
        execute(root)
        assert len(ran) == 2, changed


def test_a_failed_cell_fails_the_build(repository, capsys):
    root, _ = repository
    write_notebook(root, "31_first", CHAPTER.replace("1 + 1", "fail()"))
    assert build.main(["--execute"], root) == 1
    said = capsys.readouterr()
    assert "chapter 31_first, cell value: it fails" in said.out
    assert "1 of 2 chapters failed" in said.err
    assert not (root / "_build" / "html").exists()


def test_missing_pages_and_pictures_are_found(repository):
    root, _ = repository
    path = root / "book" / "31_first.ipynb"
    notebook = nbformat.read(path, as_version=4)
    drawn = nbformat.v4.new_output("display_data", data={"image/png": "AA=="})
    notebook.cells[1].outputs = 3 * [drawn]
    nbformat.write(notebook, path)
    source, site = build.stage(root, {}), root / "site"
    site.mkdir()
    (site / "index.html").write_text('<img alt="" src="there.png">')
    (site / "there.png").write_bytes(b"")
    (site / "31_first.html").write_text('<img alt="" src="_images/gone.png"><img src="data:image/png;base64,AA">')
    with pytest.raises(ChapterError) as caught:
        build.check_site(site, source, ["index", "31_first", "32_second"])
    assert str(caught.value).splitlines() == [
        "31_first.html shows _images/gone.png, which is missing",
        "31_first.html has 2 pictures, its notebook 3",
        "32_second.html is missing",
    ]


@pytest.mark.browser
def test_the_book_itself_is_built(site):
    """The build is `site` (tests/pages.py); `make test` begins with it, so that no browser has to wait."""
    assert site
