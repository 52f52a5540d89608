// Python's modules as the page's Python runs them, so that no reader's machine has to compile them.
// Standard input holds {name: [its file there, its text]} in JSON, and standard output {name: bytecode in base64}.
import { text } from "node:stream/consumers";

import { loadPyodide } from "../../node_modules/pyodide/pyodide.mjs";

const COMPILE = `
import base64, importlib.util, json, marshal

def bytecode(file, text):
    code = compile(text, file, "exec", dont_inherit=True, optimize=2)  # without docstrings
    unchecked = (1).to_bytes(4, "little") + bytes(8)
    return base64.b64encode(importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(code)).decode()

json.dumps({name: bytecode(*module) for name, module in json.loads(given).items()})
`;
const python = await loadPyodide();
python.globals.set("given", await text(process.stdin));
process.stdout.write(python.runPython(COMPILE));
