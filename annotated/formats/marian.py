"""Models of Marian and of Hugging Face's Marian, read and written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from annotated.base.files import InputError, read_json, read_tensors, write_atomically, write_json
from annotated.machine.devices import best_device
from annotated.model import Transformer, TransformerConfig
from annotated.positional_encoding import sinusoidal_encoding
from annotated.runs.checkpoint import build, check_described, check_finite, load_weights, weights_of
from annotated.search.translation import Translator
from annotated.text.tokenization import PairTokenizer, Tokenizer, check_vocabulary, naming, read_model_file

__all__ = ["load_marian", "save_marian", "vocabularies"]


def to_concatenated(name: str, tensor: Tensor, d_model: int) -> Tensor:
    """One of our tensors with its d_model channels in another order: even ones first, then odd ones."""
    if name == "output.bias" or name.endswith(("inner.bias", "query.bias", "key.bias", "value.bias")):
        return tensor  # its channels belong to tokens, to the inner layer or to heads
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    writes = name.endswith(("attention.output.weight", "outer.weight")) or tensor.dim() == 1
    return tensor[order] if writes else tensor[:, order]


ACTIVATION_NAMES = {  # ours: theirs, of which the first is written
    "relu": ("relu",),
    "swish": ("swish", "silu"),
    "gelu": ("gelu",),
}


NORM_EPS = 1e-5  # of every normalisation in a Marian model
ANOTHER_MODEL = "Look for another model."
CORRECT_IT = "Correct it, or take the `config.json` that belongs to the model."
SAME_MODEL = "Take weights, vocabulary and `config.json` from the same model."


SETTINGS = {  # ours: theirs, and what holds when it is absent (None: it must be there)
    "d_model": ("d_model", None),
    "d_ff": ("encoder_ffn_dim", None),
    "num_heads": ("encoder_attention_heads", None),
    "num_layers": ("encoder_layers", None),
    "num_decoder_layers": ("decoder_layers", None),
    "source_vocab_size": ("vocab_size", None),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("activation_dropout", 0.0),
    "max_length": ("max_position_embeddings", 1024),
    "tie_embeddings": ("share_encoder_decoder_embeddings", True),
    "tie_output": ("tie_word_embeddings", True),
    "scale_embeddings": ("scale_embedding", False),
    "pad_id": ("pad_token_id", None),
    "end_id": ("eos_token_id", None),
}


REQUIRED = {  # a value, or the setting that must be equal
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_attention_heads": "encoder_attention_heads",
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}


KINDS = {int: "a whole number", float: "a number", bool: "true or false"}


def marian_settings(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Our settings with Marian's values. Raises InputError, naming `path` and what is missing or of the wrong kind."""
    settings = {}
    for ours, (theirs, default) in SETTINGS.items():
        value = settings[ours] = values.get(theirs, default)
        kind = bool if ours.startswith(("tie", "scale")) else float if ours.endswith("dropout") else int
        if value is None:
            raise InputError(f"{path}: {theirs} is missing", "Take the `config.json` that belongs to the model.")
        if kind is float and type(value) is int and abs(value) < 2**53:
            settings[ours] = float(value)
        elif type(value) is not kind:
            raise InputError(f"{path}: {theirs} is {value!r}, not {KINDS[kind]}", CORRECT_IT)
    return settings


def marian_config(values: Mapping[str, Any], path: Path) -> TransformerConfig:
    """The configuration that a Marian `config.json` describes. Raises InputError, naming `path` and the setting."""
    if values.get("model_type") != "marian":
        raise InputError(
            f"{path}: not a Marian model: model_type is {values.get('model_type')!r}",
            "Only models of the type `marian` can be read, such as those of OPUS-MT.",
        )
    for name, wanted in REQUIRED.items():
        wanted = values.get(wanted) if isinstance(wanted, str) else wanted
        if (found := values.get(name, wanted)) != wanted:
            raise InputError(
                f"{path}: {name} {found!r} is not supported, only {wanted!r}",
                "Look for another model: this one is built otherwise than the paper's.",
            )
    known = {theirs: ours for ours, names in ACTIVATION_NAMES.items() for theirs in names}
    activation = values.get("activation_function")
    if not isinstance(activation, str) or activation not in known:
        raise InputError(f"{path}: activation_function {activation!r} is none of {', '.join(known)}", ANOTHER_MODEL)
    settings, start = marian_settings(values, path), values.get("decoder_start_token_id")
    settings["start_id"] = settings["pad_id"] if start is None else start
    settings["vocab_size"] = values.get("decoder_vocab_size") or values["vocab_size"]
    if type(settings["vocab_size"]) is not int:
        raise InputError(f"{path}: decoder_vocab_size is {settings['vocab_size']!r}, not a whole number", CORRECT_IT)
    for ours, theirs in (
        ("pad_id", "pad_token_id"),
        ("end_id", "eos_token_id"),
        ("start_id", "decoder_start_token_id"),
    ):
        if type(number := settings[ours]) is not int or not 0 <= number < settings["vocab_size"]:
            raise InputError(
                f"{path}: {theirs} {number!r} is no token's id",
                "Correct the number: ids are from 0 to the size of the vocabulary, less one.",
            )
    settings |= {"activation": known[activation], "attention_bias": True, "output_bias": True}
    sizes = [settings.get("source_vocab_size") or settings["vocab_size"], settings["vocab_size"]]
    if settings.get("tie_embeddings") and sizes[0] != sizes[1]:
        raise InputError(
            f"{path}: vocab_size {sizes[0]} and decoder_vocab_size {sizes[1]} differ, but both sides share a matrix",
            CORRECT_IT,
        )
    try:
        return TransformerConfig(**settings, positions="concatenated", norm_eps=NORM_EPS)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None


TENSOR_NAMES = {  # ours: theirs; the longer first, since they contain the shorter
    "around_self_attention.norm": "self_attn_layer_norm",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
}


def marian_names(config: TransformerConfig, name: str) -> list[str]:
    """The names that Marian's format has for one of our tensors: a shared matrix may be stored under any of several."""
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    embedding = ["model.shared.weight", source, target] if config.tie_embeddings else [target]
    ends = {
        "target_embedding.weight": [*embedding, *(["lm_head.weight"] if config.tie_output else [])],
        "source_embedding.weight": [source],
        "output.weight": ["lm_head.weight"],
        "output.bias": ["final_logits_bias"],
    }
    if name in ends:
        return ends[name]
    for ours, theirs in TENSOR_NAMES.items():
        name = name.replace(ours, theirs)
    return ["model." + name]


def read_weights(model: Transformer, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy a Marian model's tensors into `model`. Raises InputError, naming `path` and the tensor."""
    left, weights = dict(tensors), {}
    left.setdefault("final_logits_bias", torch.zeros(1, model.config.vocab_size))
    for name, own in weights_of(model).items():
        known = marian_names(model.config, name)
        found = {stored: left.pop(stored) for stored in known if stored in left}
        if not found:
            raise InputError(f"{path}: the tensor {known[0]} is missing", SAME_MODEL)
        check_finite(found, path)
        first, *copies = found
        for stored, tensor in found.items():
            shape = [1, *own.shape] if name == "output.bias" else [*own.shape]
            if list(tensor.shape) != shape:
                raise InputError(f"{path}: {stored} has the shape {list(tensor.shape)} instead of {shape}", SAME_MODEL)
        for stored in copies:
            if not found[stored].equal(found[first]):
                raise InputError(
                    f"{path}: {stored} is not {first}, but config.json says that they are one matrix",
                    "Set `share_encoder_decoder_embeddings` and `tie_word_embeddings` as the model was trained.",
                )
        weights[name] = found[first].view(own.shape)
    check_positions(left, path)
    load_weights(model, weights, path)


def check_positions(left: Mapping[str, Tensor], path: Path) -> None:
    """Refuse what is left of the tensors, unless it is a table of sinusoids, which need not be stored."""
    for name, tensor in left.items():
        if not name.endswith("embed_positions.weight") or tensor.dim() != 2 or tensor.shape[1] % 2:
            raise InputError(
                f"{path}: {name} is no tensor of this model",
                "The file holds more than a Marian model, an adapter perhaps: save the model without it.",
            )
        length, d_model = tensor.shape
        if not torch.allclose(tensor.float(), sinusoidal_encoding(length, d_model, interleaved=False), atol=1e-3):
            raise InputError(
                f"{path}: {name} holds learned positions, which are not supported, only sinusoids", ANOTHER_MODEL
            )


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a JSON file. Raises InputError, naming the file, when it holds something else."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise InputError(
            f"{path}: settings with names were expected, not {type(settings).__name__}",
            "Take the file that belongs to the model.",
        )
    return settings


def marian_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of `model.safetensors`. Raises InputError when it is missing or something else; reads no pickle."""
    path = folder / "model.safetensors"
    if not path.exists():
        if (folder / "model.safetensors.index.json").exists():
            raise InputError(
                f"{path}: no such file; weights in several files are not supported, save them as one",
                "`save_pretrained` of transformers does so with a large `max_shard_size`.",
            )
        for pickled in sorted(folder.glob("*.bin")):
            raise InputError(
                f"{pickled}: a pickle can run any code when it is read, so it is refused; "
                "save the model as model.safetensors first, with save_pretrained of transformers"
            )
    return read_tensors(path)


def marian_tokenizer(folder: Path, settings: Mapping[str, Any]) -> PairTokenizer:
    """The tokenizer of a Marian folder; `settings` are those of its `tokenizer_config.json`.

    Raises InputError, naming the file, when one is missing or something else.
    """
    models = (read_model_file(folder / "source.spm"), read_model_file(folder / "target.spm"))
    special, lists = [], []
    for name, default in (("pad_token", "<pad>"), ("unk_token", "<unk>"), ("eos_token", "</s>")):
        token = settings.get(name) or default
        special.append(token.get("content") if isinstance(token, dict) else token)
        if not isinstance(special[-1], str):
            raise InputError(
                f"{folder / 'tokenizer_config.json'}: {name} {token!r} is no token",
                'Write the token as text, such as `"<pad>"`.',
            )
    for name in ("vocab.json", "target_vocab.json")[: 2 if settings.get("separate_vocabs") else 1]:
        with naming(folder / name):
            lists.append(json.loads((folder / name).read_bytes()))
            check_vocabulary(lists[-1], special)
    return PairTokenizer(models, *lists, special=tuple(special))


def check_ids(config: TransformerConfig, tokenizer: PairTokenizer, folder: Path) -> None:
    """Raises InputError when the pieces and `config.json` do not belong together."""
    lists = ("vocab.json", "target_vocab.json" if tokenizer.target_vocabulary else "vocab.json")
    sizes = (config.source_vocab_size, config.vocab_size)
    for name, number_of, size in zip(lists, tokenizer.numbers, sizes, strict=True):
        if len(number_of) != size:
            raise InputError(f"{folder / name}: {len(number_of)} pieces, but config.json says {size}", SAME_MODEL)
    pad, _, eos = tokenizer.special
    wanted = {"pad_token_id": (config.pad_id, tokenizer.numbers[0][pad])}
    wanted["eos_token_id"] = (config.end_id, tokenizer.numbers[1][eos])
    for name, (found, number) in wanted.items():
        if found != number:
            raise InputError(
                f"{folder / 'config.json'}: {name} is {found}, but in the vocabulary it is {number}", SAME_MODEL
            )


NEUTRAL = {  # settings of `generate` that change its output, and the values with which they do not
    "do_sample": False, "min_length": 0, "min_new_tokens": 0, "renormalize_logits": False,
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0, "num_beam_groups": 1, "diversity_penalty": 0.0, "guidance_scale": 1.0,
    "forced_bos_token_id": None, "forced_decoder_ids": None, "suppress_tokens": None, "begin_suppress_tokens": None,
    "sequence_bias": None, "exponential_decay_length_penalty": None,
}  # fmt: skip


RULES = {False: "heuristic", True: "first", "never": "bound"}  # `early_stopping` of `generate`: `stop` of chapter 60


def search_settings(folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Notes for a translator: `search`, and `ignored`, the settings that are not followed, if there are any."""
    path, given = folder / "config.json", values
    if (folder / "generation_config.json").exists():
        path = folder / "generation_config.json"
        given = read_settings(path)
    beam_size, alpha = (given.get(name, 1) for name in ("num_beams", "length_penalty"))
    early = given.get("early_stopping") or False
    if type(beam_size) is not int or beam_size < 1:
        raise InputError(f"{path}: num_beams {beam_size!r} is no number", "Write a whole number of at least 1.")
    if type(alpha) not in (int, float):
        raise InputError(f"{path}: length_penalty {alpha!r} is no number", "Write a number, such as 1.0.")
    if type(early) not in (bool, str) or early not in RULES:
        raise InputError(f"{path}: early_stopping {early!r} is none of {', '.join(map(repr, RULES))}")
    ignored = [name for name, value in NEUTRAL.items() if given.get(name) not in (value, None)]
    banned, blocked = given.get("bad_words_ids") or [], [values["pad_token_id"], values.get("decoder_start_token_id")]
    if not isinstance(banned, list) or any(words not in ([token] for token in blocked) for words in banned):
        ignored.append("bad_words_ids")
    search = {"beam_size": beam_size, "length_penalty": float(alpha), "penalty": "power", "stop": RULES[early]}
    return {"search": search} | ({"ignored": ignored} if ignored else {})


def load_marian(folder: str | Path, device: str = "auto") -> Translator:
    """A translator from a folder in Hugging Face's MarianMT format, such as a downloaded OPUS-MT model.

    The folder holds `config.json`, `model.safetensors`, `source.spm`, `target.spm` and `vocab.json`; perhaps also
    `generation_config.json`, `tokenizer_config.json` and `target_vocab.json`.
    Raises InputError, naming the file and what is wrong with it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "Check the path; nothing is downloaded.")
    values = read_settings(folder / "config.json")
    config = marian_config(values, folder / "config.json")
    path = folder / "tokenizer_config.json"
    settings = read_settings(path) if path.exists() else {}
    tokenizer = marian_tokenizer(folder, settings)
    check_ids(config, tokenizer, folder)
    notes = search_settings(folder, values)
    notes |= {side: settings[f"{side}_lang"] for side in ("source", "target") if settings.get(f"{side}_lang")}
    tensors, path = marian_tensors(folder), folder / "model.safetensors"
    model = build(config, tensors, path, absent=config.vocab_size)  # a bias of zeros need not be stored
    read_weights(model, tensors, path)
    return Translator(model.to(best_device(device)), tokenizer, notes)


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """The model's weights under Marian's names. Biases that the model does not have are zero."""
    config, tensors = model.config, {}
    for name, tensor in weights_of(model).items():
        if config.positions == "sinusoidal":
            tensor = to_concatenated(name, tensor, config.d_model)
        names = marian_names(config, name)
        # without tie_word_embeddings transformers ties nothing
        for stored in names[:1] if config.tie_output else names:
            tensors[stored] = tensor.float().cpu().contiguous().clone()
        if names[0].endswith("out_proj.weight") and not config.attention_bias:
            layer = names[0].removesuffix("out_proj.weight")
            tensors |= {f"{layer}{part}_proj.bias": torch.zeros(config.d_model) for part in ("q", "k", "v", "out")}
    bias = tensors.pop("final_logits_bias", torch.zeros(config.vocab_size))
    return tensors | {"final_logits_bias": bias[None]}


def marian_values(config: TransformerConfig) -> dict[str, Any]:
    """What `config.json` says of this model in Marian's format."""
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in SETTINGS.items()}
    values["decoder_layers"] = config.num_decoder_layers or config.num_layers
    values |= {"vocab_size": config.source_vocab_size or config.vocab_size, "decoder_vocab_size": config.vocab_size}
    same = {name: values[wanted] if isinstance(wanted, str) else wanted for name, wanted in REQUIRED.items()}
    names = {"architectures": ["MarianMTModel"], "model_type": "marian"}
    names["activation_function"] = ACTIVATION_NAMES[config.activation][0]
    rest = {"decoder_start_token_id": config.start_id, "bos_token_id": None, "forced_eos_token_id": None}
    return names | values | same | rest | {"is_encoder_decoder": True, "num_hidden_layers": config.num_layers}


def vocabularies(tokenizer: Tokenizer) -> Sequence[dict[str, int]]:
    """The ids of the source's pieces and of the target's."""
    if isinstance(tokenizer, PairTokenizer):
        return tokenizer.numbers
    number_of = {tokenizer.processor.id_to_piece(i): i for i in range(len(tokenizer))}
    return number_of, number_of


def tokenizer_files(translator: Translator) -> dict[str, bytes]:
    """SentencePiece models, vocabularies and settings of the tokenizer, by file name."""
    tokenizer, notes = translator.tokenizer, translator.notes
    source, target = vocabularies(tokenizer)
    models = tokenizer.models if isinstance(tokenizer, PairTokenizer) else (tokenizer.model, tokenizer.model)
    names = {number: piece for piece, number in source.items()}
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": target is not source}
    settings |= {f"{name}_token": names[getattr(tokenizer, f"{name}_id")] for name in ("pad", "unk", "eos")}
    settings |= {f"{side}_lang": notes[side] for side in ("source", "target") if side in notes}
    settings["model_max_length"] = translator.model.config.max_length
    contents = {"tokenizer_config.json": settings, "vocab.json": source}
    contents |= {"target_vocab.json": target} if target is not source else {}
    files = {name: json.dumps(content, ensure_ascii=False, indent=1).encode() for name, content in contents.items()}
    return {"source.spm": models[0], "target.spm": models[1]} | files


FREE = dict.fromkeys((  # options of which every format takes any value, or which matter in training alone
    "d_model", "d_ff", "num_layers", "num_decoder_layers", "attention_bias", "output_bias", "max_length", "start_id",
    "dropout", "attention_dropout", "activation_dropout", "tie_embeddings", "tie_output", "scale_embeddings",
))  # fmt: skip


MARIAN = FREE | {"activation": ACTIVATION_NAMES, "positions": ("sinusoidal", "concatenated"), "norm_first": (False,)}


def option_limits(translator: Translator, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of our options that a format with this table can express, None for any value.

    An epsilon below Marian's passes for Marian's. Sizes and ids are those of the vocabularies.
    """
    config, tokenizer = translator.model.config, translator.tokenizer
    (source, target), width = vocabularies(tokenizer), config.d_model // config.num_heads
    end = next(piece for piece, number in source.items() if number == tokenizer.eos_id)
    return {
        "num_heads": [heads for heads in range(1, config.d_model + 1) if config.d_model % heads == 0],
        "d_k": (None, width), "d_v": (None, width), "norm_eps": (min(config.norm_eps, NORM_EPS),),
        "vocab_size": (len(target),), "source_vocab_size": (len(source), *[None] * (len(source) == len(target))),
        "pad_id": (tokenizer.pad_id,), "end_id": (target[end],),
    } | dict(table)  # fmt: skip


def check_options(translator: Translator, system: str, table: Mapping[str, Any]) -> None:
    """Raises InputError for what a format cannot express: the option, its value and those that fit.

    Likewise for weights that are not finite, and for parts that the configuration does not describe.
    """
    config, limits = translator.model.config, option_limits(translator, table)
    for field in fields(config):
        value, known = getattr(config, field.name), limits.get(field.name, (field.default,))
        if known is not None and value not in known:
            fit = ", ".join(str(other) for other in known if other is not None)
            raise InputError(
                f"{system} cannot express {field.name} {value!r} (only {fit})",
                "Export in another format, or train with one of the values that are named.",
            )
    check_described(translator.model)
    check_finite(weights_of(translator.model), system)


def save_marian(translator: Translator, folder: str | Path) -> None:
    """Write a translator in Hugging Face's MarianMT format, for `MarianMTModel` and `MarianTokenizer`.

    Of the length penalties it has a place for |Y|^alpha alone; with another its readers use their own, |Y|^1.
    Raises InputError when the model has something that the format cannot express; then nothing is written.
    """
    folder, config = Path(folder), translator.model.config
    check_options(translator, "Marian's format", MARIAN)
    banned = [[token] for token in sorted({config.pad_id, config.start_id} - {config.end_id})]
    search, generation = translator.search, {"num_beams": translator.search["beam_size"]}
    generation |= {"length_penalty": search["length_penalty"]} if search["penalty"] == "power" else {}
    generation["early_stopping"] = next(theirs for theirs, ours in RULES.items() if ours == search["stop"])
    generation |= {"pad_token_id": config.pad_id, "eos_token_id": config.end_id, "bad_words_ids": banned}
    generation |= {"decoder_start_token_id": config.start_id, "max_length": config.max_length}
    for name, content in tokenizer_files(translator).items():
        write_atomically(folder / name, content)
    write_json(folder / "generation_config.json", generation)
    write_json(folder / "config.json", marian_values(config))
    write_atomically(folder / "model.safetensors", save(marian_weights(translator.model), {"format": "pt"}))
