"""The package as an importer meets it: public names, laziness, docstrings, nothing unpickled."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import annotated
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "annotated"
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))
HEAVY = ("numpy", "sacrebleu", "safetensors", "sentencepiece", "torch", "tqdm")


def in_fresh_python(program: str) -> str:
    """What a program prints in an interpreter of its own."""
    options = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": limits.PROCESS}
    done = subprocess.run([sys.executable, "-c", program], **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def public_definitions(module: str) -> list[ast.FunctionDef | ast.ClassDef]:
    kinds = ast.FunctionDef | ast.ClassDef
    return [node for node in tree_of(module).body if isinstance(node, kinds) and not node.name.startswith("_")]


def test_importing_the_package_loads_nothing_heavy():
    loaded = json.loads(in_fresh_python("import annotated, json, sys; print(json.dumps(sorted(sys.modules)))"))
    assert "annotated" in loaded
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)
    assert not [name for name in loaded if name.startswith("annotated.")]


@pytest.mark.slow
def test_the_model_needs_no_library_of_data_or_scores():
    program = "import annotated, json, sys; annotated.Transformer; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(in_fresh_python(program))}
    assert "torch" in loaded
    assert not loaded & {"sacrebleu", "safetensors", "sentencepiece"}


def module_of(home: str) -> str:
    """The module that a name of the top level comes from; one with a dot is not of the package."""
    return home if "." in home else f"annotated.{home}"


def test_names_of_the_top_level_come_from_their_modules():
    for name, home in annotated._HOME.items():
        module = importlib.import_module(module_of(home))
        assert getattr(annotated, name) is getattr(module, name), name
        if "." not in home:
            assert getattr(annotated, name).__module__ == f"annotated.{home}", f"{name} is defined elsewhere"


def test_the_top_level_is_short_and_what_moved_from_it_still_works():
    public, moved = set(annotated.__all__), set(annotated._HOME) - set(annotated.__all__)
    assert public <= set(annotated._HOME)
    assert 20 <= len(public) <= 30
    assert moved >= {"EncoderLayer", "Hypothesis", "LayerNorm", "make_batch", "tune_machine"}
    assert all(hasattr(annotated, name) for name in moved)
    assert public <= set(dir(annotated))
    assert not moved & set(dir(annotated)), "used or not, it is not listed"


def test_type_checkers_see_the_same_names():
    """A name that is not in `__all__` is for others where it is imported as itself."""
    guarded = next(node for node in tree_of("__init__").body if isinstance(node, ast.If))
    seen = {alias.name: (node.module, alias.asname) for node in guarded.body for alias in node.names}
    homes = {name: module_of(home) for name, home in annotated._HOME.items()}
    assert seen == {name: (home, None if name in annotated.__all__ else name) for name, home in homes.items()}
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_lists_what_others_use_of_it(module):
    listed = importlib.import_module(f"annotated.{module}").__all__
    top = {name for name, home in annotated._HOME.items() if home == module}
    assert top <= set(listed)
    imports = [node for other in [*MODULES, "__main__"] for node in ast.walk(tree_of(other)) if other != module]
    imports = [node for node in imports if isinstance(node, ast.ImportFrom) and node.module == f"annotated.{module}"]
    assert set(listed) <= top | {alias.name for node in imports for alias in node.names}


def test_star_import_and_unknown_names():
    names: dict = {}
    exec("from annotated import *", names)
    assert set(annotated.__all__) <= names.keys()
    with pytest.raises(AttributeError, match="no attribute 'Transfomer'"):
        annotated.Transfomer


def test_version_is_the_project_s():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{annotated.__version__}"' in project


def test_what_an_engineer_writes():
    """The lines of the README on the package, with a small model in place of the base one."""
    config = annotated.TransformerConfig.base(300, d_model=16, d_ff=32, num_heads=2, num_layers=1)
    assert annotated.Transformer(config).num_parameters() > 0
    assert annotated.TransformerConfig.base(vocab_size=37_000) == annotated.TransformerConfig(37_000)


@pytest.mark.parametrize("module", MODULES)
def test_public_docstrings(module):
    """A summary in one line that ends like a sentence, and the chapter and cell where the thing is defined."""
    definitions = public_definitions(module)
    assert definitions
    for node in definitions:
        lines = ast.get_docstring(node).splitlines()
        place = f"annotated/{module}.py: {node.name}"
        assert lines[0].endswith((".", ".)", '."')) or lines[0].endswith("?"), f"{place}: {lines[0]!r}"
        assert len(lines[0]) <= 120, place
        assert lines[1:2] == [""], f"{place}: the summary is longer than a line"
        found = re.fullmatch(r"Defined in chapter (\d+): `([a-z0-9-]+)`\.", lines[-1])
        assert found, f"{place}: {lines[-1]!r} does not say where it is defined"
        assert node.name in cell_source(int(found[1]), found[2]), place


def cell_source(chapter: int, cell_id: str) -> str:
    """The source of a chapter's cell."""
    (path,) = (ROOT / "book").glob(f"{chapter}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "".join(next(cell["source"] for cell in cells if cell["id"] == cell_id))


def test_public_functions_say_their_types():
    """Every argument of a public function is annotated: type checkers and jaxtyping have something to check."""
    functions = [value for name in annotated.__all__ if inspect.isfunction(value := getattr(annotated, name))]
    assert len(functions) > 10
    for function in functions:
        signature = inspect.signature(function)
        bare = [name for name, given in signature.parameters.items() if given.annotation is inspect.Parameter.empty]
        assert not bare, f"{function.__name__}({', '.join(bare)})"
        assert signature.return_annotation is not inspect.Signature.empty, function.__name__


def unsafe(tree: ast.Module) -> list[str]:
    """Where code can unpickle: imports of pickle and its like, and torch.load under any name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in UNPICKLERS]
        elif isinstance(node, ast.ImportFrom):
            root = (node.module or "").split(".")[0]
            found += [node.module] * (root in UNPICKLERS)
            found += ["torch.load"] * (root == "torch" and any(alias.name == "load" for alias in node.names))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found += ["torch.load"] * ((node.value.id, node.attr) == ("torch", "load"))
    return found


UNPICKLERS = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_ever_unpickled(module):
    assert unsafe(tree_of(module)) == []


@pytest.mark.parametrize(
    "program", ["import pickle", "import torch\ntorch.load('x')", "from torch import load", "from pickle import loads"]
)
def test_the_search_for_pickles_finds_them(program):
    assert unsafe(ast.parse(program))
