"""A chapter becomes text and a notebook again without loss: tools/text.py."""

import nbformat
import pytest

from tools import text

CHAPTER = """%% notebook attention {"section": "3.2", "shows": "Gewichte für Wörter"}
%% md title
# Attention

Text with a percent sign: 50 %% of it.

%% code first
#| export
x = 1


y = 2

%% code picture {"mystnb": {"image": {"alt": "ein Bär"}}, "tags": ["hide-input"]}
plot()
"""


def executed() -> nbformat.NotebookNode:
    notebook = text.from_text(CHAPTER)
    notebook.metadata.annotated["executed"] = {"sources": "0123"}
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"output {number}\n")]
    return notebook


def test_round_trip():
    assert text.to_text(text.from_text(CHAPTER)) == CHAPTER
    notebook = executed()
    assert text.to_text(notebook) == CHAPTER, "outputs are no part of the text"
    assert text.from_text(text.to_text(notebook), notebook) == notebook
    nbformat.validate(notebook)
    assert notebook.cells[1].source == "#| export\nx = 1\n\n\ny = 2"


def test_only_unchanged_cells_keep_their_outputs():
    changed = text.from_text(CHAPTER.replace("y = 2", "y = 3").replace("# Attention", "# More"), executed())
    assert changed.cells[1].outputs == []
    assert changed.metadata.annotated.executed.sources == "0123", "what was executed is known until it is again"
    assert changed.cells[2].outputs[0].text == "output 2\n"


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (CHAPTER.replace("%% notebook attention", "# Attention"), 1),
        (CHAPTER.replace('"3.2", "shows"', '"3.2", shows'), 1),
        (CHAPTER.replace('{"mystnb"', '["mystnb"'), 14),
        (CHAPTER.replace("%% md title", "%% raw title"), 2),
        (CHAPTER.replace("%% code picture", "%% code first"), 14),
    ],
)
def test_faults_are_refused_with_their_line(broken, line):
    with pytest.raises(ValueError, match=f"^line {line}:"):
        text.from_text(broken)


def test_command_writes_prints_and_refuses(tmp_path, capsys):
    source, notebook = tmp_path / "chapter.txt", tmp_path / "chapter.ipynb"
    source.write_text(CHAPTER, encoding="utf-8")
    assert text.main([str(source), str(notebook)]) == 0
    assert text.main([str(notebook)]) == 0
    assert capsys.readouterr().out == CHAPTER + "\n"
    before = notebook.read_bytes()
    source.write_text(CHAPTER.replace("%% md", "%% raw"), encoding="utf-8")
    assert text.main([str(source), str(notebook)]) == 1
    assert "line 2" in capsys.readouterr().err
    assert notebook.read_bytes() == before
    assert text.main([str(tmp_path / "absent.ipynb")]) == 1
    assert "absent.ipynb" in capsys.readouterr().err


def test_all_pages_are_searched_without_their_outputs(tmp_path, capsys):
    book = tmp_path / "book"
    book.mkdir()
    notebook = executed()
    notebook.cells[1].outputs[0].text = "Attention in an output"
    nbformat.write(notebook, book / "32_attention.ipynb")
    (book / "ledger.yml").write_text("claim: attention is all\n", encoding="utf-8")
    assert text.main(["--grep", "attention|y = 2"], tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "32_attention#title: # Attention",
        "32_attention#first: y = 2",
        "ledger.yml: claim: attention is all",
    ]
    assert text.main(["--grep", "absent"], tmp_path) == 1
    assert text.main(["--grep", "("], tmp_path) == 1
    with pytest.raises(SystemExit):
        text.main(["--grep", "a", "b.ipynb"], tmp_path)
