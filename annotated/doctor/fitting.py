"""Makes somebody's model: fills in what its constructors ask for, by what public code calls it."""

import ast
import copy
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

__all__ = ["Hole", "Maker", "Settings", "Words", "candidates", "missing", "role", "small_values", "tokens_of"]


SIDE = "(?:n_)?(?:src|source|trg|tgt|target|inp?|input|out|output|enc|encoder|dec|decoder)"
ROLES = [  # what an argument is, by its name in small letters; the first that fits
    ("eps", r"eps(ilon)?"),
    ("nothing", r"load|path|(^|_)(file|dir|folder)(_|$)|ckpt|checkpoint|resume|pretrained"),
    ("pad", r"(^|_)pad(ding)?(_|$)|ignore_index"),
    ("bos", r"(^|_)(sos|bos|start|go|begin)(_|$)"),
    ("eos", r"(^|_)(eos|end|stop)(_|$)"),
    ("batch_first", r"batch_first"),
    ("training", r"batch|epoch|steps|seed|worker|^lr$|(^|_)rate$|warm|clip|every|interval"),
    ("flag", r"^(is|use|with|has|do|share|tie|learn|return|scale|pre|norm_first)(_|$)|shar(e|ing)|tied|tying|bias"),
    ("device", r"^(device|dev|gpu|cuda)"),
    ("dropout", r"drop|^p$|(^|_)(p|prob)$|smooth"),
    ("activation", r"activ|^act(_|$)|nonlin"),
    ("d_k", r"^(d_?[kqv]|[kqv]_?dim|dim_?[kqv]|d_?(key|value|query|head)s?)$|head_?(dim|size)|(dim|size)_?(per_)?head"),
    ("kv_heads", r"(kv?|key|key_value)_?heads|(kv|query)_groups|^n_?kv$"),
    ("heads", r"head|^h$|^nh$"),
    ("expansion", r"expan|(ff|mlp|hidden)\w*_?(mult|ratio|factor)"),
    ("d_model", r"ff\w*_in(put)?s?$"),
    ("d_ff", r"ff|feed_?forward|^pf_|inner|intermediate|filter|mlp|d_hid|position_?wise"),
    ("layers", r"layers?$|^(num|n)_layer|^[nl]$|(^|_)(n|num)_?(enc|dec)(oders?)?$|blocks?$|stacks?$|depth"),
    ("words", r"(to|2)_?(index|idx|id|ix)$|stoi$|^(\w+_)?(tokenizer|field|lang)$"),
    ("vocab", r"voc"),
    ("window", r"(^|_)(sliding|attn|attention|local)_?window|^window(_size|_len)?$"),
    ("max_len", r"max|(^|_)len(gth)?(_|$)|seq|(^|_)pos|context|block_size|window"),
    ("vocab", r"n_?tokens?|num_tokens|tokens$|words?$|dictionary|num_embeddings|(lexicon|alphabet)|classes"),
    ("side", rf"^{SIDE}_?(dim|size|num|n|d|features|words|toks?)$|^{SIDE}$"),
    ("hidden", r"hid"),
    ("d_model", r"norm(ali[sz]ed)?_shape|d_?model|dim|emb|vec|width|^[de]$|model_size|size|channels|units|features"),
]  # fmt: skip
SIZES = {  # of what is small enough to be asked in seconds
    "vocab": 40, "d_model": 32, "heads": 4, "kv_heads": 2, "window": 4, "layers": 2, "d_ff": 48, "d_k": 8,
    "max_len": 64, "expansion": 2, "dropout": 0.1, "activation": "relu", "eps": 1e-6, "nothing": None, "flag": False,
    "batch_first": True, "device": "cpu",
}  # fmt: skip
MADE_SMALL = ("vocab", "d_model", "heads", "kv_heads", "window", "layers", "d_ff", "d_k", "hidden", "side",
    "pad", "bos", "eos")  # fmt: skip
GUESSES = (32, 40, 4, 2, 0.1, None, False, "relu")  # for what nothing is known of
CONFIG = (
    r"^(config\w*|cfg|conf|args?|opts?|hparams?|hps?|params?|parameters|settings|options|hyper\w*|c)$|_(config|cfg)$"
)
ALIKE = {"attn": "attention", "embed": "embedding", "embeddings": "embedding", "emb": "embedding", "ff": "forward",
    "ffn": "forward", "feedforward": "forward", "pos": "positional", "pe": "positional", "positionwise": "forward",
    "multi": "attention", "headed": "attention", "enc": "encoder", "dec": "decoder", "proj": "projection"}  # fmt: skip


def tokens_of(name: str) -> list[str]:
    """The words of a name: `nHeads`, `n_heads` and `NHeads` are n, heads."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().strip("_").split("_")


def kind(name: str) -> str:
    """What an argument is, by its name alone."""
    plain = "_".join(tokens_of(name))
    return next((one for one, form in ROLES if re.search(form, plain)), "")


def role(name: str, beside: Iterable[str] = ()) -> str:
    """What an argument is, by its name and by those that stand beside it; empty where nothing is known."""
    found, others = kind(name), {kind(one) for one in beside if one != name}
    if found == "hidden":
        return "d_ff" if "d_model" in others and "d_ff" not in others else "d_model"
    if found == "side":  # how many words, or how wide
        if "vocab" not in others and others & {"d_model", "hidden"}:
            return "vocab" if len(tokens_of(name)) > 1 else ""
        return "d_model" if re.search("dim|size|feat", name.lower()) else ""
    return found


class Hole(Exception):
    """Nothing is known of an argument: its name, and what asks for it."""

    def __init__(self, name: str, owner: str):
        super().__init__(f"{owner} wants {name!r}")
        self.name, self.owner = name, owner


class Words(int):
    """A vocabulary: a number of words, and what such objects are asked for."""

    special: dict[str, int]

    def __len__(self) -> int:
        return int(self)

    def __getitem__(self, word: Any) -> int:
        if not isinstance(word, str):
            raise TypeError("words are looked up in what was handed over: it takes texts, where ids were given")
        return self.special.get(kind(str(word).strip("<>[]")), 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "special":
            raise AttributeError(name)
        if kind(name) in self.special:
            return self[name]
        return self

    def __call__(self, *_: Any) -> "Words":
        return self


def small_values(pad: int, bos: int, eos: int) -> dict[str, Any]:
    """What is given for each role."""
    words = Words(SIZES["vocab"])
    words.special = {"pad": pad, "bos": bos, "eos": eos}
    return SIZES | words.special | {"words": words}


class Settings(dict):
    """What stands in for settings that are read by name, as attributes or keys; it remembers which."""

    def __init__(self, values: dict[str, Any]):
        super().__init__()
        self.__dict__["values_by_role"] = values

    def __missing__(self, name: str) -> Any:
        if name in ("model", "encoder", "decoder", "transformer", "network", "arch", "train", "training", "data"):
            self[name] = Settings(self.values_by_role)
        elif (known := role(name, self)) in self.values_by_role:
            self[name] = self.values_by_role[known]
        else:
            raise KeyError(name)
        return self[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "values_by_role":
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


def signature(value: Callable) -> list[inspect.Parameter]:
    """The parameters of a function or of a class; none where nothing is known."""
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []


def tree_of(function: Any) -> ast.AST | None:
    """The parsed source of a function or class, if there is one."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


USED_AS = {  # of a layer of PyTorch's, what its arguments are
    "Embedding": ("vocab", "d_model"), "LayerNorm": ("d_model",), "Dropout": ("dropout",), "range": ("layers",),
    "MultiheadAttention": ("d_model", "heads"),
}  # fmt: skip


def used_as(value: Any) -> dict[str, str]:
    """The roles of a class's arguments by what its constructor does with them."""
    found: dict[str, str] = {}
    tree = tree_of(value.__init__ if isinstance(value, type) else value)
    for call in ast.walk(tree) if tree else ():
        if isinstance(call, ast.Call):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            for one, known in zip(call.args, USED_AS.get(name, ()), strict=False):
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, known)
    return found


class Text(str):
    """Code that makes something."""


def text(value: Any) -> str:
    """A value as one writes it; what cannot be known or written is left open."""
    if isinstance(value, (Text, type)):
        return getattr(value, "__name__", value)
    if isinstance(value, Words):
        return str(int(value))
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else "..."


class Maker:
    """Makes models from what a file defines, in one of several ways (`WAYS`); it remembers what it gave."""

    def __init__(self, names: dict[str, Any], values: dict[str, Any], way: str = ""):
        self.names, self.values, self.way = names, values, way
        self.guess: Any = GUESSES[int(way.removeprefix("guess "))] if way.startswith("guess ") else ...
        self.parts = [one for one in names.values() if isinstance(one, type) and issubclass(one, nn.Module)]
        self.describing = False

    def make(self, value: Callable, above: tuple = ()) -> Any:
        """What a class or function makes. Raises Hole, or what it raised."""
        given = self.arguments(value, above)
        if self.describing:
            return Text(f"{value.__name__}({', '.join(f'{name}={text(one)}' for name, one in given.items())})")
        for _ in range(20):  # what is read from **options comes to light one by one
            try:
                return value(**given)
            except KeyError as error:
                name = error.args[0] if error.args else ""
                if name in given or not any(one.kind is one.VAR_KEYWORD for one in signature(value)):
                    raise
                given[name] = self.known(name, list(given), value)
        raise Hole("options", value.__name__)

    def arguments(self, value: Callable, above: tuple = ()) -> dict[str, Any]:
        """The arguments for a class or function, by name."""
        every = [one for one in signature(value) if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        beside, uses = [one.name for one in every], used_as(value)
        given = {}
        for one in every:
            part = self.part_for(one, value, above)
            is_asked = one.default is one.empty
            known = role(one.name, beside)
            is_asked |= known == "kv_heads" and self.way != "defaults"  # else as many as heads, and nothing is shared
            if known in ("", "hidden", "side", "d_model", "max_len") and one.name in uses:
                known = uses[one.name]
            if part is not None and (is_asked or one.default is None) and known not in ("d_k", "dropout"):
                given[one.name] = part if self.way == "classes" else self.make(part, (*above, value))
            elif settings := self.settings_for(one, value, above):
                given[one.name] = settings[0]
            elif is_asked or (self.way != "defaults" and known in MADE_SMALL and is_size(one.default)):
                given[one.name] = self.known(one.name, beside, value, known, one.annotation)
        return given

    def known(self, name: str, beside: list[str], owner: Any, known: str = "", annotation: Any = None) -> Any:
        """A value for an argument, by its role, its annotation, or, in some ways, as a guess."""
        known = known or role(name, beside)
        if known == "vocab" and self.way == "words":
            return self.values["words"]
        if known == "activation" and annotation not in (str, "str", inspect.Parameter.empty):
            return nn.ReLU()
        if known in self.values and not (known == "flag" and annotation is int):
            return self.values[known]
        if annotation in (bool, "bool"):
            return False
        if self.guess is not ... or self.describing:
            return self.guess
        raise Hole(name, getattr(owner, "__name__", str(owner)))

    def part_for(self, one: inspect.Parameter, owner: Any, above: tuple) -> type | None:
        """The class of the file that an argument is to be one of: by its annotation, or by its name."""
        annotation = self.names.get(one.annotation) if isinstance(one.annotation, str) else one.annotation
        free = [part for part in self.parts if part is not owner and part not in above]
        if annotation in free:
            return annotation
        if annotation in (int, float, bool, str) or len(above) > 3:
            return None
        wanted = {ALIKE.get(token, token) for token in tokens_of(one.name)} - {"model", "src", "tgt", "trg", "self"}
        if not wanted or wanted & {"n", "num", "dim", "size", "d", "idx", "max", "len", "dropout", "prob", "vocab"}:
            return None
        about = {ALIKE.get(token, token) for token in tokens_of(getattr(owner, "__name__", ""))}
        words = {part: {ALIKE.get(token, token) for token in tokens_of(part.__name__)} for part in free}
        inner = {"layer", "block", "cell"} - wanted
        fits = [part for part in free if wanted <= words[part] and not inner & words[part]]
        return min(fits, key=lambda part: (-len(words[part] & about), len(words[part])), default=None)

    def settings_for(self, one: inspect.Parameter, owner: Any, above: tuple) -> tuple[Any] | None:
        """Settings for an argument that is called or annotated as such, made small, in a tuple."""
        annotation = self.names.get(one.annotation) if isinstance(one.annotation, str) else one.annotation
        is_class = isinstance(annotation, type) and annotation.__module__ not in ("builtins", "inspect", "typing")
        is_plain = is_class and not issubclass(annotation, nn.Module) and not annotation.__module__.startswith("torch")
        named = re.search(CONFIG, one.name.lower()) and (annotation in (one.empty, dict, Any) or not is_class)
        if not (is_plain or named) or (one.default is not one.empty and one.default is not None):
            return None
        if self.way == "read":
            return (Settings(self.values),)
        if self.describing and not is_plain:
            return (Text(one.name if one.name in self.names else "..."),)
        kinds = [annotation] if is_plain else []
        own = [value for name, value in self.names.items() if re.search(r"config|cfg|args|param|opt$", name.lower())]
        kinds += [value for value in [self.names.get(one.name), *own] if is_settings(value)]
        for kind in kinds:
            try:
                return (
                    self.small(self.make(kind, (*above, owner)) if isinstance(kind, type) else copy.deepcopy(kind)),
                )
            except Exception:  # another one may do
                continue
        return (Settings(self.values),)

    def small(self, settings: Any, depth: int = 2) -> Any:
        """Settings with small sizes in the place of theirs."""
        if isinstance(settings, dict):
            store = settings
        elif isinstance(settings, tuple) and hasattr(settings, "_asdict"):
            return settings._replace(**self.small(settings._asdict(), depth))
        else:
            own = {name: value for name, value in vars(type(settings)).items() if not name.startswith("_")}
            store = {name: value for name, value in own.items() if not callable(value)} | vars(settings)
        for name, value in list(store.items()):
            known = role(str(name), map(str, store))
            if known in MADE_SMALL and (is_size(value) or (value is None and known == "vocab")):
                value = self.values.get(known, value)
            elif known == "device":
                value = "cpu"
            elif depth and (isinstance(value, dict) or dataclasses.is_dataclass(value)):
                value = self.small(value, depth - 1)
            else:
                continue
            if isinstance(settings, dict):
                settings[name] = value
            elif not isinstance(getattr(type(settings), name, None), property):
                object.__setattr__(settings, name, value)
        return settings


def is_size(value: Any) -> bool:
    """Whether a value may be the size of something."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_settings(value: Any) -> bool:
    """Whether a value may hold settings, or is a class of such."""
    if isinstance(value, type):
        return not issubclass(value, nn.Module) and value.__module__ not in ("builtins", "argparse", "typing")
    return isinstance(value, dict) or (
        hasattr(value, "__dict__") and not callable(value) and not inspect.ismodule(value)
    )


LARGE = 20_000_000  # parameters: from there on the same is made small, if it can be
WAYS = ("", "read", "words", "defaults", "classes", "globals", *(f"guess {i}" for i, _ in enumerate(GUESSES)))


def missing(error: BaseException, values: dict[str, Any]) -> bool:
    """Whether what raised a NameError lacked a global that a file did not come to define, and has it now."""
    name, trace = getattr(error, "name", None), error.__traceback__
    if not isinstance(error, NameError) or not name or trace is None:
        return False
    while trace.tb_next:
        trace = trace.tb_next
    known = Settings(values) if re.search(CONFIG, name.lower()) else values.get(kind(name))
    if known is None or name in trace.tb_frame.f_globals:
        return False
    trace.tb_frame.f_globals[name] = known
    return True


def resize(names: dict[str, Any], values: dict[str, Any]) -> None:
    """Give the sizes that a file holds in its globals small values, and its lengths one that is long enough."""
    for name, value in list(names.items()):
        known = role(name, names)
        if is_size(value) and known in (*MADE_SMALL[:-3], "max_len"):
            names[name] = values[known]


def ways(value: Callable, names: dict[str, Any], values: dict[str, Any]) -> Iterator[Any]:
    """What a class or function makes, in all ways that end without an error. Raises the first error if none does."""
    first, made_one = None, False
    for way in WAYS:
        if way.startswith("guess") and not isinstance(first, Hole):
            break
        if way not in ("", "globals") and not signature(value):
            continue
        if way == "globals":
            resize(getattr(value, "__globals__", getattr(value.__init__, "__globals__", {})), values)
        try:
            made = Maker(names, values, way).make(value)
        except (Exception, SystemExit) as error:
            first = first or error
            continue
        made_one = True
        yield made
    if first and not made_one:
        raise first


def candidates(names: dict[str, Any], module: str) -> list[str]:
    """The names of what may be a model, or make one, the likeliest first.

    A module comes first, the largest, unless it is too large to be asked soon; then a function that makes one; then
    classes of the file, those first that no other one uses, and at last what the file imports.
    """
    modules = {name: sum(p.numel() for p in one.parameters()) for name, one in names.items() if is_model(one)}
    found = sorted(modules, key=lambda name: (name != "model", -modules[name]))
    own = {name: one for name, one in names.items() if getattr(one, "__module__", "") == module}
    makes = re.compile(r"^(make|build|get|create|init|load)\w*_(\w*model|transformer|seq2seq|net\w*)$")
    found += [name for name, one in own.items() if inspect.isfunction(one) and makes.search(name.lower())]
    classes = {name: one for name, one in names.items() if isinstance(one, type) and issubclass(one, nn.Module)}
    classes = {name: one for name, one in classes.items() if not one.__module__.startswith("torch")}
    uses = {name: words_in(one) - {name} for name, one in classes.items()}

    def rank(name: str) -> tuple:
        texts = len([one for one in signature(classes[name].forward)[1:] if one.default is one.empty])
        inner = any(name in words for words in uses.values())
        likely = re.search("transformer|seq2seq|model|translat|encoderdecoder|net", name.lower())
        part = re.search("layer|block|attention|embed|encoding|norm|generator|loss", name.lower())
        part = part or re.search("^[a-z]*encoder$|^(?!.*encoder)[a-z]*decoder$", name.lower())
        return (name not in own, inner, bool(part), texts < 2, not likely, list(classes).index(name))

    large = [name for name in found if modules.get(name, 0) > LARGE]
    return [*(name for name in found if name not in large), *sorted(classes, key=rank), *large]


def is_model(value: Any) -> bool:
    """Whether a value is a module that somebody made of others, and no loss."""
    return isinstance(value, nn.Module) and len(list(value.parameters())) > 0


def words_in(value: Any) -> set[str]:
    """The names that a class's code uses."""
    tree = tree_of(value)
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} if tree else set()
