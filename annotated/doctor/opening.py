"""Somebody's file, run where it lies: what it imports is found, and what fails in it does not lose the rest."""

import __future__

import ast
import importlib
import importlib.util
import inspect
import io
import json
import linecache
import os
import sys
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from annotated.base.files import InputError
from annotated.doctor.subject import MINE, STANDARD, StillRunning, raised

__all__ = ["Absent", "Opened", "opened"]


OURS = {"annotated", "torch", "numpy"}  # not to be loaded twice, whatever lies beside the file
MARKS = (".git", "setup.py", "setup.cfg", "pyproject.toml", "requirements.txt")  # what lies in a repository's root
NOT_THEIRS = (*MINE, *STANDARD)
HARMLESS = {
    "device", "is_available", "len", "int", "float", "dict", "list", "tuple", "set", "range", "getLogger", "to", "cuda",
    "SimpleNamespace", "Namespace",
}  # fmt: skip


class Absent(BaseException):
    """The model calls what is not installed: nothing that a check catches."""


class Inert:
    """Stands in for something of a package that is not installed: whatever is done with it, nothing comes of it."""

    _name = ""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> "Inert":
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert(f"{self._name}.{name}")

    def __call__(self, *given: Any, **options: Any) -> Any:
        if any(isinstance(one, Tensor) for one in (*given, *options.values())):
            raise Absent(self._name)
        if len(given) == 1 and not options and (inspect.isclass(given[0]) or inspect.isfunction(given[0])):
            return given[0]  # a decorator
        name = self._name.rpartition(".")[2]
        return StandIn(self._name) if name[:1].isupper() and not name.isupper() else self

    def __mro_entries__(self, bases: tuple) -> tuple[type, ...]:
        return (StandIn,) if self._name.endswith(("Module", "Model")) else ()

    def __getitem__(self, key: Any) -> "Inert":
        return self

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def __iter__(self) -> Iterator:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> "Inert":
        return self

    def __exit__(self, *_: object) -> None: ...

    def nothing(self, *_: Any) -> "Inert":
        return self

    __or__ = __ror__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = nothing
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __and__ = nothing

    def __instancecheck__(self, one: Any) -> bool:
        return False


class StandIn(nn.Module):
    """Stands in for another library's module: a base such as LightningModule, a part, or anything with a capital."""

    def __init__(self, *name: Any, **_: Any):
        super().__init__()
        self._name = str(name[0]) if name else type(self).__name__

    def forward(self, *_: Any, **__: Any) -> Any:
        raise Absent(self._name)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or type(self) is not StandIn:
                raise
            return Inert(f"{self._name}.{name}")

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Inert:
        return Inert(self._name)

    def __iter__(self) -> Iterator:
        return iter(())

    def save_hyperparameters(self, *_: Any, **__: Any) -> None: ...

    def log(self, *_: Any, **__: Any) -> None: ...


class InertModule(ModuleType):
    """Stands in for a module that cannot be imported."""

    __all__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Inert:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert(f"{self.__name__}.{name}")


class OnProcessor(TorchFunctionMode):
    """Within it, what asks for a device that is not there gets the processor."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "cuda" and args:
            return args[0]
        if name == "to":
            args = tuple(map(here, args))
        if not kwargs:
            return func(*args)
        return func(*args, **{one: here(v) if one in ("device", "map_location") else v for one, v in kwargs.items()})


def here(device: Any) -> Any:
    """The processor for a device that is not there; anything else as it is."""
    if isinstance(device, (str, torch.device)) and str(device).partition(":")[0] in ("cuda", "mps", "xpu"):
        kind = str(device).partition(":")[0]
        return device if getattr(torch, kind).is_available() else torch.device("cpu")
    return device


def parts_of(path: Path) -> list[tuple[str, str]]:
    """A file's code as it is to be run: a name for messages, and the text; of a notebook, cell by cell."""
    path = path.resolve()
    if path.suffix != ".ipynb":
        with tokenize.open(path) as file:  # which reads a coding line, and a BOM
            return [(str(path), file.read())]
    cells = json.loads(path.read_text(encoding="utf-8-sig")).get("cells", [])
    texts = ["".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code"]
    return [(f"{path} cell {i + 1}", without_magic(text)) for i, text in enumerate(texts)]


def without_magic(text: str) -> str:
    """A notebook cell with `pass` in the place of what is not Python."""
    first = text.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and first.split()[0] not in ("%%time", "%%timeit", "%%capture"):
        return ""
    lines = []
    for line in text.splitlines():
        begin = line.lstrip()
        magic = begin.startswith(("%", "!", "?")) or (begin.endswith("?") and "#" not in begin)
        lines.append(f"{line[: len(line) - len(begin)]}pass" if magic else line)
    return "\n".join(lines) + "\n"


def parsed(path: Path) -> tuple[list[tuple[str, ast.Module]], list[str]]:
    """The trees of a file's parts, and what cannot be parsed of a notebook. Raises InputError for other files."""
    trees, failed = [], []
    try:
        parts = parts_of(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: line {getattr(error, 'lineno', '?')}: {getattr(error, 'msg', error)}") from None
    for name, text in parts:
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        try:
            trees.append((name, ast.parse(text, name)))
        except (SyntaxError, ValueError) as error:
            says = f"line {getattr(error, 'lineno', '?')}: {getattr(error, 'msg', error)}"
            if path.suffix != ".ipynb":
                raise InputError(f"{path}: {says}") from None
            failed.append(f"{Path(name).name}: {says}")
    return trees, failed


def defines(statement: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a statement only imports, defines, or gives a name to a plain value or to one of the file's modules."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)):
        return True
    if isinstance(statement, (ast.If, ast.Try)):
        inner = [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.stmt)]
        return all(defines(one, names) or isinstance(one, ast.Pass) for one in inner)
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) and statement.value:
        calls = [one.func for one in ast.walk(statement.value) if isinstance(one, ast.Call)]
        called = [getattr(one, "attr", getattr(one, "id", "")) for one in calls]
        if isinstance(statement, ast.Expr):
            return called == ["eval"]
        makes = [name for name in called if inspect.isclass(names.get(name)) and issubclass(names[name], nn.Module)]
        return all(name in (*HARMLESS, *makes) or name.lower().endswith(("config", "args")) for name in called)
    return False


class Opened:
    """A file that was run: its `names`, and what there is to say of that."""

    def __init__(self, path: Path, strict: bool = False):
        self.shown, self.path, self.strict = path, path.resolve(), strict
        self.names: dict[str, Any] = {}
        self.trees, self.failures = parsed(path)
        self.absent: list[str] = []
        self.guarded: dict[str, set[int]] = {}  # lines of imports that may fail, by file
        self.package, self.roots = self.places()
        self.module = ".".join([*self.package, *([] if self.path.stem == "__init__" else [self.path.stem])])
        spec = None if self.package else PathFinder.find_spec(self.module, self.search_path())
        if spec and (spec.origin is None or Path(spec.origin).resolve() != self.path):  # a package beside it
            self.module = f"{self.module} (as run)"

    @property
    def notes(self) -> list[str]:
        """What is to be said of it, a line each."""
        lines = []
        for name in dict.fromkeys(self.absent):
            if name.rpartition(".")[0] not in self.absent:
                lines.append(f"{name} cannot be imported here: something inert stands in for it")
        if self.failures:
            more = f" ({len(self.failures) - 1} more failed)" if len(self.failures) > 1 else ""
            lines.append(
                f"left out: {self.failures[0]}{more}; of what follows only definitions and plain values were taken"
            )
        return lines

    # where its imports lie

    def places(self) -> tuple[list[str], list[Path]]:
        """The package that the file is in, and the folders from which something may be imported, the first first."""
        imports = [node for _, tree in self.trees for node in ast.walk(tree)]
        climb = max([one.level for one in imports if isinstance(one, ast.ImportFrom)], default=0)
        package, top = [], self.path.parent
        while ((top / "__init__.py").is_file() or len(package) < climb) and "." not in top.name and top.name:
            package.insert(0, top.name)
            top = top.parent
        named = {alias.name for one in imports if isinstance(one, ast.Import) for alias in one.names}
        named |= {one.module for one in imports if isinstance(one, ast.ImportFrom) and one.module and not one.level}
        above = list(self.path.parents)[:6]
        marked = [one for one in above if any((one / mark).exists() for mark in MARKS)][:2]
        roots = [Path.cwd(), *marked, *(one / "src" for one in marked if (one / "src").is_dir())]
        own = [top, self.path.parent]
        orders = [[self.path.parent, top, *roots], [top, *roots, self.path.parent]]
        orders = [list(dict.fromkeys(one)) for one in (orders[::-1] if package else orders)]
        found = [{name for name in named if is_there(name, search_path(order))} for order in orders]
        best = max(range(len(orders)), key=lambda i: len(found[i]))
        left = named - found[best]
        more = [one for one in above if one not in own and any(is_there(name, [str(one)]) for name in left)]
        return package, list(dict.fromkeys([*orders[best], *more]))

    def search_path(self) -> list[str]:
        return search_path(self.roots)

    def theirs(self, filename: str | None) -> bool:
        """Whether a file is one of the user's."""
        if not filename or "site-packages" in filename or filename.startswith(NOT_THEIRS):
            return False
        return any(filename.startswith(f"{root}{os.sep}") for root in self.roots)

    # what importlib asks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The user's modules are run as the file is; what is nowhere is stood in for, where they import it."""
        spec = PathFinder.find_spec(name, path)
        if spec is not None:
            if isinstance(spec.loader, SourceFileLoader) and self.theirs(spec.origin):
                spec.loader = Loader(self, name, spec.origin)
            return spec
        frame, begun = sys._getframe(), False
        while frame and not (begun and "importlib" not in frame.f_code.co_filename):
            begun |= "importlib" in frame.f_code.co_filename
            frame = frame.f_back
        if self.strict or frame is None or not self.theirs(frame.f_code.co_filename):
            return None
        if frame.f_lineno in self.guarded.get(frame.f_code.co_filename, ()) or others(name, path, self):
            return None
        self.absent.append(name)
        return ModuleSpec(name, Loader(self, name, ""), is_package=True)

    def run(self, names: dict[str, Any], trees: list[tuple[str, ast.Module]]) -> None:
        """Run code; where something in it fails, take what the rest defines."""
        for filename, tree in trees:
            handled = [one for one in ast.walk(tree) if isinstance(one, ast.Try) and one.handlers]
            inside = [line for one in handled for at in one.body for line in range(at.lineno, at.end_lineno + 1)]
            self.guarded[filename] = set(inside)
            try:
                exec(compile(tree, filename, "exec", dont_inherit=True), names)
            except (Exception, SystemExit, StillRunning) as error:
                self.failures.append(raised(error))
                if self.strict:
                    raise
                self.rest(names, filename, tree, error)

    def rest(self, names: dict[str, Any], filename: str, tree: ast.Module, error: BaseException) -> None:
        """Take what is defined after the statement in which something failed."""
        trace, line = error.__traceback__, 0
        while trace:
            if trace.tb_frame.f_code.co_filename == filename:
                line = trace.tb_lineno
                break
            trace = trace.tb_next
        futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
        flags = sum(getattr(__future__, alias.name).compiler_flag for one in futures for alias in one.names)
        for one in tree.body:
            if one.lineno > line and defines(one, names):
                try:
                    code = compile(ast.Module([one], []), filename, "exec", flags, dont_inherit=True)
                    exec(code, names)
                except (Exception, StillRunning) as later:
                    self.failures.append(raised(later))


class Loader(SourceFileLoader):
    """Runs a module of the user's; without a path, makes one that is inert."""

    def __init__(self, opened: Opened, name: str, path: str):
        super().__init__(name, path)
        self.opened = opened

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None if self.path else InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if self.path:
            self.opened.run(vars(module), parsed(Path(self.path))[0])


def others(name: str, path: Any, opened: Opened) -> bool:
    """Whether another finder knows a module."""
    finders = [one for one in sys.meta_path if one is not opened and one is not PathFinder]
    return any(one.find_spec(name, path) for one in finders if hasattr(one, "find_spec"))


def search_path(roots: list[Path]) -> list[str]:
    """Python's own library, then the user's folders, then what is installed."""
    mine = [str(root) for root in roots]
    rest = [one for one in sys.path if one and os.path.abspath(one) not in mine]
    first = [one for one in rest if one.startswith(STANDARD) and "site-packages" not in one]
    return [*first, *mine, *(one for one in rest if one not in first)]


def is_there(name: str, path: list[str]) -> bool:
    """Whether a module, with its dots, lies somewhere on a path; nothing is run."""
    where: Any = path
    if name.partition(".")[0] in sys.builtin_module_names:
        return True
    parts = name.split(".")
    for i, _ in enumerate(parts):
        spec = PathFinder.find_spec(".".join(parts[: i + 1]), where) if where is not None else None
        if spec is None:
            return False
        where = spec.submodule_search_locations
    return True


@contextmanager
def opened(path: Path, strict: bool = False) -> Iterator[Opened]:
    """Run a file; within the block, what it imports later is found as well. Afterwards all is as before.

    A file that is `strict` may not fail: what it raises is raised. Raises InputError where it cannot be read.
    """
    one = Opened(path, strict)
    before = sys.path[:], sys.argv, sys.stdin, sys.dont_write_bytecode, torch.get_default_dtype()
    modules, shown = dict(sys.modules), os.environ.get("MPLBACKEND")
    tops = {name.partition(".")[0] for name in modules} - OURS - sys.stdlib_module_names
    files = {top: [root / file for root in one.roots for file in (f"{top}.py", f"{top}/__init__.py")] for top in tops}
    shadowed = {top for top in tops if any(file.is_file() for file in files[top])}
    for name in modules:
        if name.partition(".")[0] in shadowed and not one.theirs(getattr(modules[name], "__file__", None)):
            del sys.modules[name]
    sys.path[:] = one.search_path()
    sys.argv, sys.stdin, sys.dont_write_bytecode = [str(path)], io.StringIO(), True
    os.environ["MPLBACKEND"] = "agg"
    importlib.invalidate_caches()
    sys.meta_path.insert(sys.meta_path.index(PathFinder), one)
    try:
        with OnProcessor():
            begin(one)
            yield one
    finally:
        sys.meta_path.remove(one)
        sys.path[:], sys.argv, sys.stdin, sys.dont_write_bytecode, dtype = before
        torch.set_default_dtype(dtype)
        os.environ.pop("MPLBACKEND")
        os.environ |= {} if shown is None else {"MPLBACKEND": shown}
        for name, module in list(sys.modules.items()):
            inert = isinstance(module, InertModule)
            if modules.get(name) is not module and (inert or one.theirs(getattr(module, "__file__", None))):
                del sys.modules[name]
        sys.modules.update({name: module for name, module in modules.items() if name not in sys.modules})


def begin(one: Opened) -> None:
    """Run the file itself, under the name that it has in its package."""
    for i, _ in enumerate(one.package):
        name = ".".join(one.package[: i + 1])
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # without it, what lies in the folder can still be imported
            one.failures.append(raised(error))
            bare = sys.modules[name] = ModuleType(name)
            bare.__path__ = [str(one.path.parents[len(one.package) - 1 - i])]
    if one.module in sys.modules and one.package:  # its package has run it
        one.names = vars(sys.modules[one.module])
        return
    module = ModuleType(one.module)
    module.__file__, module.__package__ = str(one.path), ".".join(one.package)
    sys.modules[one.module] = module  # dataclasses and pickles look for it there
    one.names = vars(module)
    one.run(one.names, one.trees)
