"""Cells of a chapter in the page: one namespace, what they print and return, and errors at the reader's own line.

`call` is what the page's worker calls, with text in JSON. A cell is a dict: `id`, `source`, whether it is `open` (runs
for all cells below it, not only for those that need it), and whether it `ran`.
"""

import ast
import builtins
import json
import linecache
import symtable
import traceback
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import __main__

MOST = 100_000  # characters that a cell may print
SHOWN = 20_000  # characters of a value
NO_ROOM = "this page's Python has no room for that many numbers"
NAMES = vars(__main__)
passed_over = {}  # name: the cell that makes it and could not run, and why
send = print  # to the page: a kind, and a text


class Printed:
    """A file whose text goes to the page, up to a length."""

    count = 0

    def write(self, text):
        before, self.count = self.count, self.count + len(text)
        if before < MOST:
            send("text", text[: MOST - before])
            if self.count >= MOST:
                send("text", f"\n[after {MOST:,} characters the rest is left out]\n")
        return len(text)

    def flush(self):
        pass


def call(name, given, emit):
    """Call a function of this module, of `payoff` or of `stations_here`: arguments and result are JSON."""
    if name == "translations":
        from payoff import translations as function
    elif name == "look":
        from stations_here import look as function
    else:
        function = {"run": run, "plan": plan, "dependents": dependents}[name]
    return json.dumps(function(*json.loads(given), emit=emit))


def run(cell, emit):
    """Run a cell. Returns None, or its error: `type`, `message`, `lines` (cell, number, text), and `hint`."""
    global send
    send, printed = emit, Printed()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            value = execute(cell["source"], f"<cell {cell['id']}>", NAMES)
            if value is not None:
                NAMES["_"] = value
                show(value)
    except BaseException as error:
        found = told(error)
        passed_over.update(dict.fromkeys(names(cell["source"])[1] - NAMES.keys(), (cell["id"], found["message"])))
        return found
    return None


def execute(source, file, namespace):
    """Execute a cell's text; the value of its last line where that is an expression, as in Jupyter."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if last is None or source.rstrip().endswith(";"):
        exec(compile(tree, file, "exec"), namespace)
        return None
    tree.body.pop()
    exec(compile(tree, file, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), file, "eval"), namespace)


def show(value):
    """Send a value as Jupyter shows it: as HTML where it has that form, else as text."""
    if not isinstance(value, type) and hasattr(value, "_repr_html_") and (text := value._repr_html_()) is not None:
        send("html", text)
        return
    text = repr(value)
    send("text", text[:SHOWN] + (f"\n[{len(text):,} characters]" if len(text) > SHOWN else "") + "\n")


def told(error):
    """An error in the reader's terms: no line of what lies below the cells."""
    kind, message = type(error).__name__, str(error)
    hint = "".join(f"{note}\n" for note in getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and (error.filename or "").startswith("<cell "):
        message = error.msg
        frames.append(SimpleNamespace(filename=error.filename, lineno=error.lineno, line=(error.text or "").strip()))
    if isinstance(error, ModuleNotFoundError) and error.name:
        message = f"this page has no {error.name.partition('.')[0]}; run the chapter in Jupyter"
    elif isinstance(error, MemoryError):
        message = NO_ROOM
    elif kind == "JsException":  # of the small torch's kernels
        kind, message = error.name, error.message
        if kind == "RangeError":
            deep = "call stack" in message
            kind, message = ("RecursionError", "too deep") if deep else ("MemoryError", NO_ROOM)
    elif isinstance(error, NameError) and error.name in passed_over:
        cell, why = passed_over[error.name]
        hint += f"{error.name} is made in the cell {cell}, which does not run in this page: {why}"
    own = [frame for frame in frames if frame.filename.startswith("<cell ")]
    lines = [{"cell": one.filename[6:-1], "number": one.lineno, "text": (one.line or "").strip()} for one in own]
    return {"type": kind, "message": message, "lines": lines[:1] + lines[1:][-2:], "hint": hint.strip()}


def names(source):
    """The names that a cell's text takes from above, and those that it binds."""
    needs, binds = set(), set()
    try:
        found = [
            (statement, symtable.symtable(ast.unparse(statement), "<cell>", "exec"))
            for statement in ast.parse(source).body
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the run says it, at its line
        return needs, binds
    for statement, top in found:
        used, bound = set(), set()
        tables = [top]
        for table in tables:
            tables += table.get_children()
            for symbol in table.get_symbols():
                if table is top or symbol.is_global():
                    if symbol.is_referenced():
                        used.add(symbol.get_name())
                    if symbol.is_assigned() or symbol.is_imported():
                        bound.add(symbol.get_name())
        used |= {
            one.target.id
            for one in ast.walk(statement)
            if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)
        }
        needs |= used - binds - vars(builtins).keys()
        binds |= bound
    return needs, binds


def plan(cells, emit=None):
    """The ids of those cells that have to run so that the last one can: open ones, and folded ones that it needs."""
    wanted, order = set(), []
    for place, cell in reversed(list(enumerate(cells))):
        if cell["ran"] and place < len(cells) - 1:
            continue
        needs, binds = names(cell["source"])
        if cell["open"] or binds & wanted or place == len(cells) - 1:
            order.append(cell["id"])
            wanted |= needs
    due, renewed = set(order), set()
    for cell in cells:  # what ran and takes something from a cell that runs now, runs again
        needs, binds = names(cell["source"])
        if cell["id"] in due or (cell["ran"] and needs & renewed):
            due.add(cell["id"])
            renewed |= binds
        else:
            renewed -= binds
    return [cell["id"] for cell in cells if cell["id"] in due]


def dependents(cells, before, emit=None):
    """The ids of cells that take something, perhaps by way of others, from the first one, or from its text before."""
    tainted, found = names(cells[0]["source"])[1] | names(before)[1], []
    for cell in cells[1:]:
        needs, binds = names(cell["source"])
        if needs & tainted:
            tainted |= binds
            found += [cell["id"]] if cell["ran"] else []
        else:
            tainted -= binds
    return found
