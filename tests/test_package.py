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
from tests.typed.program import main
from tools import limits
from tools.export import LEVELS, imported_modules

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "annotated"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.parent != PACKAGE or not path.stem.startswith("__")
)


def in_fresh_python(program: str) -> str:
    """What a program prints in an interpreter of its own."""
    options = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": limits.PROCESS}
    done = subprocess.run([sys.executable, "-c", program], **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


FOLDERS = {module for module in MODULES if (PACKAGE / module.replace(".", "/")).is_dir()}


def tree_of(module: str) -> ast.Module:
    place = PACKAGE.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def public_definitions(module: str) -> list[ast.FunctionDef | ast.ClassDef]:
    kinds = ast.FunctionDef | ast.ClassDef
    return [node for node in tree_of(module).body if isinstance(node, kinds) and not node.name.startswith("_")]


def test_importing_the_package_loads_nothing_else():
    """It is quick: no module of its own is loaded, neither torch nor any other package."""
    program = "import sys; before = set(sys.modules); import annotated, json; "
    program += "print(json.dumps(sorted(set(sys.modules) - before)))"
    loaded = json.loads(in_fresh_python(program))
    assert [name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names] == ["annotated"]


@pytest.mark.slow
def test_the_model_needs_no_library_of_data_or_scores():
    program = "import annotated, json, sys; annotated.Transformer; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(in_fresh_python(program))}
    assert "torch" in loaded
    assert not loaded & {"sacrebleu", "safetensors", "sentencepiece"}


def test_names_of_the_top_level_come_from_their_modules():
    assert sorted(annotated._HOME) == annotated.__all__
    assert set(annotated.__all__) <= set(dir(annotated))
    for name, home in annotated._HOME.items():
        module = importlib.import_module(f"annotated.{home}")
        assert getattr(annotated, name) is getattr(module, name), name
        assert getattr(annotated, name).__module__ == f"annotated.{home}", f"{name} is defined elsewhere"


def test_type_checkers_see_the_same_names():
    guarded = next(node for node in tree_of("__init__").body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in guarded.body for alias in node.names}
    assert seen == {name: f"annotated.{home}" for name, home in annotated._HOME.items()}
    assert (PACKAGE / "py.typed").is_file()


@pytest.fixture(scope="module")
def imported() -> list[tuple[str, str, str]]:
    """Which module imports from which other one what."""
    nodes = [(importer, node) for importer in [*MODULES, "__main__"] for node in ast.walk(tree_of(importer))]
    found = [(importer, node) for importer, node in nodes if isinstance(node, ast.ImportFrom)]
    return [(importer, node.module, alias.name) for importer, node in found for alias in node.names]


def apart(one: str, other: str) -> bool:
    """Whether two modules stand in different folders."""
    return one.rpartition(".")[0] != other.rpartition(".")[0] or "." not in one


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted({*MODULES} - FOLDERS))
def test_a_module_lists_what_others_use_of_it(module, imported):
    """Those in its own folder may use more."""
    home = importlib.import_module(f"annotated.{module}")
    listed = getattr(home, "__all__", [])  # a file that people copy has none
    top = {name for name, home in annotated._HOME.items() if home == module}
    assert top <= set(listed)
    used = {
        name for importer, of, name in imported if apart(importer, module) and of == home.__name__ and name[0] != "_"
    }
    own = {name for name in used if getattr(getattr(home, name), "__module__", home.__name__) == home.__name__}
    assert own - {"__version__"} <= set(listed)
    assert not [name for name in listed if name.startswith("_") or not hasattr(home, name)]


def level_of(module: str) -> str:
    """The folder that a module stands in; "" for one of the chapters'."""
    folder = module.partition(".")[0]
    return folder if folder in LEVELS else ""


def test_folders_import_downwards_only_and_contributing_says_what_each_is_for():
    upwards = [
        f"{importer} imports {name}"
        for importer in MODULES
        for name in imported_modules(tree_of(importer), annotated._HOME)
        if LEVELS.index(level_of(name)) > LEVELS.index(level_of(importer))
    ]
    assert upwards == []
    rows = re.findall(
        r"(?m)^\| `annotated/(\w*)(?:/|\*\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert tuple(rows) == LEVELS
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*LEVELS} - {""}


def test_star_import_and_unknown_names():
    names: dict = {}
    exec("from annotated import *", names)
    assert set(annotated.__all__) <= names.keys()
    with pytest.raises(AttributeError, match="no attribute 'Transfomer'"):
        annotated.Transfomer


@pytest.mark.parametrize("module", MODULES)
def test_public_docstrings(module):
    """A summary in one line that ends like a sentence; what a module lists also says where the book defines it."""
    definitions = public_definitions(module)
    listed = getattr(importlib.import_module(f"annotated.{module}"), "__all__", [])
    assert definitions or module in FOLDERS
    for node in definitions:
        lines = ast.get_docstring(node).splitlines()
        place = f"annotated/{module}.py: {node.name}"
        assert lines[0].endswith((".", ".)", '."')) or lines[0].endswith("?"), f"{place}: {lines[0]!r}"
        assert len(lines[0]) <= 120, place
        assert lines[1:2] in ([""], []), f"{place}: the summary is longer than a line"
        if "." in module or node.name not in listed:
            assert not lines[-1].startswith("Defined in"), place
            continue
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


def test_nothing_is_ever_unpickled():
    assert [found for module in MODULES for found in unsafe(tree_of(module))] == []


# The model's modules hold the paper, and nothing that makes it fast


MODEL = (
    "attention", "embeddings", "feed_forward", "masks", "model", "positional_encoding", "regularization", "stacks",
)  # fmt: skip
GIVEN = {"x", "memory", "mask", "self_mask", "cross_mask", "source", "target", "tokens"}
OTHERS = {"sublayer": "Callable[[Tensor], Tensor]", "start": "int"}  # of AddNorm and of positions


def foreign_imports(tree: ast.Module) -> list[str]:
    """What is neither PyTorch, jaxtyping, the standard library nor a module of the model."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = node.level == 0 and node.module != "annotated"
            found += [node.module] if whole else [f"annotated.{alias.name}" for alias in node.names]
    allowed = {f"annotated.{name}" for name in MODEL}
    roots = {"torch", "jaxtyping", *sys.stdlib_module_names}
    return [name for name in found if name not in allowed and name.split(".")[0] not in roots]


def is_tensor(annotation: ast.expr | None) -> bool:
    """A tensor, with or without its shape, or None."""
    text = "" if annotation is None else ast.unparse(annotation)
    return re.fullmatch(r"(Tensor|(Float|Int|Bool)\[Tensor, '[^']*'\])( \| None)?", text) is not None


def more_than_the_paper(tree: ast.Module) -> list[str]:
    """Parameters of forward methods that are no tensors of the paper, and a `memory` that is no tensor anywhere."""
    found = []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        given = function.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        found += [f"{function.name}({p.arg})" for p in parameters if p.arg == "memory" and not is_tensor(p.annotation)]
        if function.name != "forward":
            continue
        for parameter in [p for p in parameters if p.arg != "self"]:
            kind = "" if parameter.annotation is None else ast.unparse(parameter.annotation)
            of_the_paper = parameter.arg in GIVEN and is_tensor(parameter.annotation)
            if not of_the_paper and OTHERS.get(parameter.arg) != kind:
                found.append(f"forward({parameter.arg})")
        found += [f"forward(*{rest.arg})" for rest in (given.vararg, given.kwarg) if rest is not None]
    return found


@pytest.mark.parametrize("module", MODEL)
def test_the_model_stands_alone_and_computes_with_what_the_paper_gives(module):
    assert foreign_imports(tree_of(module)) == []
    assert more_than_the_paper(tree_of(module)) == []


@pytest.mark.slow
def test_a_users_program_that_pyright_reads_runs(tmp_path):
    assert len(main(tmp_path / "model")) == 1
