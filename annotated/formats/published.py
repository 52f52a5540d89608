"""Today's models as they are published, read: Llama, Mistral, Qwen2 and Qwen3 without experts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
from torch import Tensor, nn

from annotated import today
from annotated.base.files import COPY_AGAIN, COPY_WHOLE, FETCH, InputError, disk, is_pointer, read_json
from annotated.training import PRECISIONS

__all__ = ["PublishedModel", "built", "decoder_settings", "load_published", "read_config", "read_tokenizer", "texts"]


ARCHITECTURES = {f"{name}ForCausalLM": name.lower() for name in ("Llama", "Mistral", "Qwen2", "Qwen3")}
ALL = {
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": None,
    "head_dim": None, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "tie_word_embeddings": False,
    "attention_bias": False, "mlp_bias": False, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
OLD = ALL | {"vocab_size": 32_000, "bos_token_id": 1, "eos_token_id": 2}
QWEN = ALL | {
    "vocab_size": 151_936, "intermediate_size": 22_016, "num_key_value_heads": 32, "max_position_embeddings": 32_768,
    "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
}  # fmt: skip
DEFAULTS = {  # what holds where `config.json` is silent, as in transformers 5.23; null in the file is not silence
    "llama": OLD | {"intermediate_size": 11_008, "max_position_embeddings": 2048},
    "mistral": OLD | {"intermediate_size": 14_336, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
                      "sliding_window": 4096},
    "qwen2": QWEN,
    "qwen3": QWEN | {"head_dim": 128},
}  # fmt: skip
PLAIN = {  # what other models have, and the values that say that this one does not
    "hidden_act": ("silu", "swish"), "partial_rotary_factor": (None, 1), "num_experts": (None, 0),
    "num_local_experts": (None, 0), "attn_logit_softcapping": (None,), "final_logit_softcapping": (None,),
    "per_layer_config": (None, {}),
}  # fmt: skip
NAMES = {  # ours: theirs; the longer first, since they contain the shorter
    "attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm",
    "attention.query": "self_attn.q_proj", "attention.key": "self_attn.k_proj", "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj", "feed_forward.gate": "mlp.gate_proj", "feed_forward.inner": "mlp.up_proj",
    "feed_forward.outer": "mlp.down_proj", "first_norm": "input_layernorm", "second_norm": "post_attention_layernorm",
    "embedding": "embed_tokens",
}  # fmt: skip
Stored = tuple[Path, list[int], str]
HEAD, LARGEST, KINDS = "lm_head.weight", 2**20, {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
ANOTHER = "Llama, Mistral, Qwen2 and Qwen3 without experts, in 16 or 32 bits, can be read: look for one of these."
CORRECT_IT = "Correct it, or take the `config.json` that belongs to the model."
SAME_MODEL = "Take `config.json` and all weights from the same model."
SAVE_IT = (
    "Look for `model.safetensors` where the model comes from. If you trust the file, `save_pretrained` of transformers "
    "writes one after `from_pretrained`."
)


@dataclass(frozen=True)
class Fields:
    """The settings in a file, one by one. Each method raises InputError, naming the file, the setting and its value."""

    path: Path
    given: Mapping[str, Any]

    def whole(self, name: str, least: int = 1, most: int = LARGEST) -> int:
        """A number of things."""
        if type(value := self.given.get(name)) is not int or not least <= value <= most:
            raise InputError(
                f"{self.path}: {name} is {value!r}, not a whole number from {least} to {most:,}", CORRECT_IT
            )
        return value

    def real(self, name: str) -> float:
        """A number above 0."""
        value = self.given.get(name)
        if type(value) not in (int, float) or not 0 < value < 1e18:
            raise InputError(f"{self.path}: {name} is {value!r}, not a number above 0 and below 1e18", CORRECT_IT)
        return float(value)

    def flag(self, name: str) -> bool:
        """Whether something holds."""
        if type(value := self.given.get(name)) is not bool:
            raise InputError(f"{self.path}: {name} is {value!r}, not true or false", CORRECT_IT)
        return value


def fields_of(path: Path) -> Fields:
    """What a JSON file holds. Raises InputError when that is missing, or has no names."""
    if not isinstance(values := read_json(path), dict):
        raise InputError(f"{path}: holds no settings, but {type(values).__name__}", CORRECT_IT)
    return Fields(path, values)


def read_config(path: Path) -> Fields:
    """A `config.json`, with defaults where it is silent. Raises InputError for every kind of model not known here."""
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder", "Check the path; nothing is downloaded.")
    if not path.exists():
        refuse_pickles(path.parent)  # which say more about such a folder
    given = fields_of(path).given
    named = given.get("architectures") or given.get("model_type")
    name = named[0] if isinstance(named, list) else named
    kind = ARCHITECTURES.get(str(name), name)
    if kind not in [*DEFAULTS] or given.get("model_type", kind) != kind:
        other = name if kind not in [*DEFAULTS] else given["model_type"]
        raise InputError(f"{path}: models of the kind {other!r} cannot be read", ANOTHER)
    if quantised := given.get("quantization_config") or given.get("compression_config"):
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise InputError(f"{path}: the weights are quantised (quantization_config: {method!r})", ANOTHER)
    fields = Fields(path, DEFAULTS[kind] | given | {"model_type": kind})
    for name, plain in PLAIN.items():
        if (value := fields.given.get(name)) not in plain:
            raise InputError(f"{path}: {name} {value!r} is not supported", ANOTHER)
    return fields


def rotary(fields: Fields) -> dict[str, Any]:
    """How fast pairs turn: `rope_theta` and `rope_scaling` of old files, `rope_parameters` of new ones.

    Raises InputError, naming file, setting and value, for kinds that are not known here.
    """
    given, path = fields.given, fields.path
    rope = given.get("rope_scaling") or given.get("rope_parameters") or {}
    if not isinstance(rope, dict) or any(isinstance(value, dict) for value in rope.values()):
        raise InputError(f"{path}: rotary positions {rope!r} are not supported, only one kind for all layers", ANOTHER)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in ("default", "llama3"):
        raise InputError(f"{path}: rotary positions of the kind {kind!r} are not supported", ANOTHER)
    if (share := rope.get("partial_rotary_factor")) not in (None, 1):
        raise InputError(f"{path}: partial_rotary_factor {share!r} is not supported", ANOTHER)
    theta = Fields(path, {"rope_theta": given["rope_theta"]} | rope).real("rope_theta")
    if kind == "default":
        return {"theta": theta, "scaling": None}
    length = "original_max_position_embeddings"
    rope = {length: given["max_position_embeddings"]} | rope | ({length: given[length]} if length in given else {})
    stretch = Fields(path, rope)
    factor, low, high = map(stretch.real, ("factor", "low_freq_factor", "high_freq_factor"))
    if high <= low:
        raise InputError(f"{path}: high_freq_factor {high} is not above low_freq_factor {low}", CORRECT_IT)
    return {"theta": theta, "scaling": (factor, low, high, stretch.whole(length, most=2**31))}


def windows(fields: Fields, layers: int) -> list[int | None]:
    """How many tokens each layer sees, itself included; None where it sees all.

    Mistral slides in all layers unless `sliding_window` is null, Qwen only where it is told to use it, and from layer
    `max_window_layers` on, or where `layer_types` says so. Raises InputError where these do not fit each other.
    """
    given, kind = fields.given, fields.given["model_type"]
    qwen = kind.startswith("qwen")
    slides = fields.flag("use_sliding_window") if qwen else kind == "mistral"
    window = fields.whole("sliding_window", most=2**31) if slides and given["sliding_window"] is not None else None
    first = fields.whole("max_window_layers", least=0) if slides and qwen else 0
    found = [window if layer >= first else None for layer in range(layers)]
    types = given.get("layer_types")
    if types is None:
        return found
    meaning = {"full_attention": None} | ({"sliding_attention": window} if window else {})
    if not isinstance(types, list) or len(types) != layers:
        raise InputError(f"{fields.path}: layer_types are not as many as num_hidden_layers, {layers}", CORRECT_IT)
    if odd := [one for one in types if one not in [*meaning]]:
        raise InputError(f"{fields.path}: layer_types has {odd[0]!r}, not {' or '.join(meaning)}", CORRECT_IT)
    if not qwen and [meaning[one] for one in types] != found:
        raise InputError(f"{fields.path}: layer_types are not those of a {kind} model", ANOTHER)
    return [meaning[one] for one in types]


def decoder_settings(fields: Fields) -> dict[str, Any]:
    """What `Decoder` takes, from what `read_config` has read. Raises InputError, naming file, setting and value."""
    path, kind, layers = fields.path, fields.given["model_type"], fields.whole("num_hidden_layers")
    d_model, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    d_k, kv_heads = (
        otherwise if fields.given[name] is None else fields.whole(name)
        for name, otherwise in (("head_dim", d_model // heads), ("num_key_value_heads", heads))
    )
    if heads % kv_heads:
        raise InputError(f"{path}: num_key_value_heads {kv_heads} does not divide {heads} heads", CORRECT_IT)
    if fields.given["head_dim"] is None and d_model % heads:
        raise InputError(f"{path}: num_attention_heads {heads} does not divide hidden_size {d_model}", CORRECT_IT)
    if d_k % 2:
        raise InputError(f"{path}: head_dim {d_k} is odd, but positions turn pairs", CORRECT_IT)
    return rotary(fields) | {
        "vocab_size": fields.whole("vocab_size"), "d_model": d_model, "d_ff": fields.whole("intermediate_size"),
        "num_heads": heads, "num_layers": layers, "num_kv_heads": kv_heads, "d_k": d_k,
        "windows": windows(fields, layers), "eps": fields.real("rms_norm_eps"),
        "qk_norm": kind == "qwen3", "tied": fields.flag("tie_word_embeddings"),
    }  # fmt: skip


def biased(fields: Fields) -> set[str]:
    """The matrices of a layer that are followed by a bias: Qwen2's always, those of Llama and Qwen3 on demand.

    Raises InputError, naming file, setting and value.
    """
    kind = fields.given["model_type"]
    attention = kind in ("llama", "qwen3") and fields.flag("attention_bias")
    found = {"query", "key", "value"} if attention or kind == "qwen2" else set()
    found |= {"output"} if attention else set()
    return found | ({"gate", "inner", "outer"} if kind == "llama" and fields.flag("mlp_bias") else set())


def built(fields: Fields) -> today.Decoder:
    """The model that `read_config` has read, untrained. Raises InputError, naming file, setting and value."""
    model, names = today.Decoder(**decoder_settings(fields)), biased(fields)
    for part in [*model.layers.modules()]:
        for name in names & dict(part.named_children()).keys():
            bare = getattr(part, name)
            setattr(part, name, nn.Linear(bare.in_features, bare.out_features))
    return model


def published_name(name: str) -> str:
    """The name that one of our tensors has in published files."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return HEAD if name == "output.weight" else f"model.{name}"


def refuse_pickles(folder: Path) -> None:
    """Raise InputError for weights that would have to be unpickled. They are not opened."""
    for pattern in ("*.bin", "*.pth", "*.pt"):
        for path in sorted(folder.glob(pattern)):
            raise InputError(f"{path}: a pickle can run any code when it is read, so it is refused", SAVE_IT)


def shards(folder: Path) -> tuple[Path, dict[Path, set[str]]]:
    """The file to name in errors, and the files of weights, each with the tensors that the index says are in it."""
    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if path.exists() or not index.exists():
        if not path.exists():
            refuse_pickles(folder)
        return path, {path: set()}
    promised, found = fields_of(index).given.get("weight_map"), {}
    if not isinstance(promised, dict) or not promised:
        raise InputError(f"{index}: not an index (no weight_map)", "Take the file that belongs to the weights.")
    for name, file in promised.items():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise InputError(f"{index}: {file!r} is no safetensors file of this folder", SAVE_IT)
        found.setdefault(folder / file, set()).add(name)
    return index, found


def opened(path: Path) -> Any:
    """A safetensors file, of which only what is asked for is read. Raises InputError when it is missing or another."""
    if not path.is_file():
        raise InputError(f"{path}: no such file", COPY_WHOLE)
    with disk.open(path) as file:
        if is_pointer(file.read(64)):
            raise InputError(f"{path}: a pointer of Git LFS, not the file", FETCH)
    try:
        return safetensors.safe_open(path, framework="pt")
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})", COPY_AGAIN) from None


def stored_tensors(files: Mapping[Path, set[str]]) -> dict[str, Stored]:
    """File, shape and kind of each tensor, by headers. Raises InputError where a file lacks what the index says."""
    found = {}
    for path, promised in files.items():
        with opened(path) as file:
            held = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no dictionary
            if missing := sorted(promised - held.keys()):
                raise InputError(f"{path}: the tensor {missing[0]}, which the index says is there, is not", COPY_AGAIN)
            found |= {name: (path, one.get_shape(), one.get_dtype()) for name, one in held.items()}
    return {name: one for name, one in found.items() if not name.endswith("rotary_emb.inv_freq")}  # of old files


def check_stored(stored: Mapping[str, Stored], model: today.Decoder, tied: bool, origin: Path) -> None:
    """Raise InputError, naming file and tensor, unless these are the tensors of the model."""
    wanted = {published_name(name): list(weight.shape) for name, weight in model.named_parameters()}
    if missing := sorted(wanted.keys() - stored.keys()):
        raise InputError(f"{origin}: the tensor {missing[0]} is missing ({len(missing)} in all)", SAME_MODEL)
    wanted |= {HEAD: wanted["model.embed_tokens.weight"]} if tied else {}
    for name, (path, shape, kind) in stored.items():
        if name not in wanted:
            raise InputError(f"{path}: {name} is no tensor of such a model", SAME_MODEL)
        if shape != wanted[name]:
            raise InputError(f"{path}: {name} has the shape {shape} instead of {wanted[name]}", SAME_MODEL)
        if kind not in KINDS:
            raise InputError(f"{path}: {name} holds {kind}, not numbers of 16 or 32 bits", ANOTHER)


def own_precision(fields: Fields, stored: Mapping[str, Stored]) -> torch.dtype:
    """The precision that `config.json` names, else that of the weights. Raises InputError for one that is not known."""
    name = fields.given.get("dtype") or fields.given.get("torch_dtype") or KINDS[next(iter(stored.values()))[2]]
    if name not in PRECISIONS:
        raise InputError(f"{fields.path}: dtype {name!r} is none of {', '.join(PRECISIONS)}", CORRECT_IT)
    return getattr(torch, name)


def read_weight(path: Path, name: str, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """A tensor of a file. Raises InputError when it is not finite in this precision."""
    with opened(path) as file:
        weight = file.get_tensor(name).to(device, dtype, copy=True)  # the file itself is only mapped
    if not all(extreme.isfinite() for extreme in weight.aminmax()):
        precision = str(dtype).removeprefix("torch.")
        raise InputError(
            f"{path}: {name} has values that are not finite in {precision}",
            "Take another precision, such as bfloat16; if that does not help, the file is of no use.",
        )
    return weight


def special_tokens(folder: Path, fields: Fields) -> tuple[int | None, tuple[int, ...]]:
    """The token that begins a text, and those that end one. What `generation_config.json` says comes first.

    Raises InputError for what is no token's id.
    """
    path, found = folder / "generation_config.json", []
    first = fields_of(path) if path.exists() else fields
    for name in ("bos_token_id", "eos_token_id"):
        place = first if name in first.given else fields
        value = place.given[name]
        tokens = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(token) is not int for token in tokens):
            raise InputError(f"{place.path}: {name} {value!r} is no token's id", "Write a whole number, or null.")
        found.append([token for token in tokens if 0 <= token < fields.whole("vocab_size")])  # -1 stands for none
    return found[0][0] if found[0] else None, tuple(found[1])


class PublishedModel(NamedTuple):
    """A model as it is published."""

    model: today.Decoder  # in evaluation mode
    length: int  # the places that it knows
    start: int | None  # the token that begins a text, if there is one
    ends: tuple[int, ...]  # tokens that end a text


@torch.no_grad()
def load_published(
    folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> PublishedModel:
    """The model in a folder with `config.json` and safetensors, tensor by tensor, in its own precision or in `dtype`.

    Raises InputError, naming file and value, for another kind of model, and for files that do not fit each other,
    before anything is allocated. Nothing is unpickled.
    """
    folder = Path(folder)
    path = folder / "config.json"
    fields = read_config(path)
    settings = decoder_settings(fields)
    length = fields.whole("max_position_embeddings", most=2**31)
    special = special_tokens(folder, fields)
    origin, files = shards(folder)
    stored = stored_tensors(files)
    if (layers := settings["num_layers"]) > len(stored):
        raise InputError(f"{path}: num_hidden_layers is {layers}, but there are {len(stored)} tensors", SAME_MODEL)
    with torch.device("meta"):  # shapes only
        model = built(fields)
    check_stored(stored, model, settings["tied"], origin)
    dtype = dtype or own_precision(fields, stored)
    for name, _ in [*model.named_parameters()]:
        weight = read_weight(stored[published_name(name)][0], published_name(name), device, dtype)
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, nn.Parameter(weight))
    if settings["tied"]:
        model.output.weight = model.embedding.weight
        if HEAD in stored and not read_weight(stored[HEAD][0], HEAD, device, dtype).equal(model.embedding.weight):
            raise InputError(
                f"{path}: tie_word_embeddings is true, but {HEAD} is another matrix than the embedding",
                "Write false there, if the model was trained so.",
            )
    return PublishedModel(model.eval(), length, *special)


def read_tokenizer(folder: str | Path) -> Any:
    """The tokenizer in a folder, of the library `tokenizers`, which this needs.

    Raises InputError when that is not installed, or when `tokenizer.json` is missing or something else.
    """
    path = Path(folder) / "tokenizer.json"
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError('the package tokenizers is not installed: pip install "annotated-attention[today]"') from None
    if not path.is_file():
        raise InputError(f"{path}: no such file", "Copy it from where the model is published.")
    if is_pointer(content := disk.read(path)):
        raise InputError(f"{path}: a pointer of Git LFS, not the file", FETCH)
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the library has no class of its own for it
        raise InputError(f"{path}: not a file of the package tokenizers ({error})", COPY_AGAIN) from None
    tokenizer.no_truncation()  # what training wanted, a file may have kept
    tokenizer.no_padding()
    return tokenizer


def texts(tokenizer: Any, before: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
    """What tokens add to the text of those before, as they come. A character that lacks bytes waits for the rest."""
    ids, start, end = [*before], 0, len(before)
    for token in tokens:
        ids.append(token)
        known, whole = (tokenizer.decode(part, skip_special_tokens=True) for part in (ids[start:end], ids[start:]))
        if len(whole) > len(known) and not whole.endswith("\ufffd"):
            yield whole[len(known) :]
            start, end = end, len(ids)
