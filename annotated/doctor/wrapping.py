"""The lines to write where a model could not be made or called: from the file's own names, to be filled in."""

import re
from pathlib import Path
from typing import Any

from torch import nn

from annotated.base.files import InputError
from annotated.doctor.calling import Input, OneText, inputs_of
from annotated.doctor.fitting import Maker
from annotated.doctor.functions import required
from annotated.doctor.opening import Opened

__all__ = ["lines_for", "write_wrapper"]


MASKS = {  # what people hand over most often
    "source": "({ids} != PAD)[:, None, None, :]  # True where words may be read; as {owner} wants it",
    "cross": "({ids} != PAD)[:, None, None, :]",
    "target": "({ids} != PAD)[:, None, None, :] & torch.ones({ids}.shape[1], {ids}.shape[1]).tril().bool()",
}


def lines_for(file: Opened, name: str, values: dict[str, Any], apart: bool, one_text: bool = False) -> str:
    """The lines that make the model `name` and call it; `apart` in a file of their own, which imports the user's."""
    value = file.names[name]
    maker = Maker(file.names, values)
    maker.describing = True
    made = name if isinstance(value, nn.Module) else maker.make(value)
    value = value if isinstance(value, (nn.Module, type)) else None
    inputs = [Input("source", "source"), Input("target", "target")]  # of what a function makes, nothing is known
    try:
        inputs = inputs_of(value) if value else inputs
    except OneText:
        one_text = True
    if one_text:
        names = required(value.forward)[isinstance(value, type) :] if value else []
        inputs = [Input(names[0] if names else "tokens", "tokens"), *(Input(one, "...") for one in names[1:])]
    body, given = [], []
    for one in inputs:
        ids = "source" if one.side in ("source", "cross") else "target"
        if one.what == "mask":
            body.append(f"    {one.name} = {MASKS[one.side].format(ids=ids, owner=name)}")
        known = one.what if one.what in ("source", "target", "tokens") else one.name if one.what == "mask" else "..."
        given.append(f"{one.name}={known}" if one.by_name else known)
    names = sorted(
        {one for one in re.findall(r"[A-Za-z_]\w*(?=\()|\b[a-z_]\w*\b(?=,|\)|$)", made) if one in file.names}
    )
    lines = ["import torch", ""]
    if apart:
        lines += imports(file, names or [name])
    lines += [
        f"PAD = {values['pad']}",
        f"net = {made}",
        "net.eval()",
        "",
        "",
        f"def mine({'tokens' if one_text else 'source, target'}):  # ids (batch, length) in",
    ]
    out = "length" if one_text else "length of the target"
    return "\n".join([*lines, *body, f"    return net({', '.join(given)})  # logits (batch, {out}, words) out"])


def imports(file: Opened, names: list[str]) -> list[str]:
    """How another file gets at what this one defines."""
    if all(part.isidentifier() for part in file.module.split(".")) and file.path.suffix == ".py":
        return [f"from {file.module} import {', '.join(names)}", ""]
    lines = ["from annotated.doctor.running import names_in", "", f"names = names_in({file.path.name!r})"]
    return [*lines, *(f"{name} = names[{name!r}]" for name in names), ""]


def write_wrapper(file: Opened, text: str) -> Path:
    """Write the lines beside the user's file, and say where. Raises InputError rather than writing over something."""
    stem = re.sub(r"\W", "_", file.path.stem)
    path = file.shown.with_name(f"check_{stem}.py")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(f'"""Lines for `annotated check {path.name}:mine`. Fill in each `...`."""\n\n{text}\n')
    except FileExistsError:
        raise InputError(f"{path}: is there already", f"Fill it in, and run `annotated check {path}:mine`.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
