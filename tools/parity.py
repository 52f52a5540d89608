"""This package beside Hugging Face's MarianMT and CTranslate2 on the same weights.

For each configuration a Marian folder is made with `transformers` and read by `load_marian`. Then both write the same
outputs, or the difference is explained and counted. `python -m studies.parity` records the full grid.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import json
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import sentencepiece
import torch

from annotated.batching import pad_sequences
from annotated.decoding import Hypothesis, output_limits
from annotated.formats.ctranslate2 import save_ctranslate2
from annotated.formats.engine import FastTranslator
from annotated.formats.marian import load_marian, save_marian, vocabularies
from annotated.search.beam import beam_search, cut_after, greedy_search, length_power, score_outputs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.pairs import in_batches

LENGTHS = 100  # sources have 1 to 100 tokens, all in one batch
NEW_TOKENS = 64
LOGITS = 1e-4  # the largest difference of small models in float32
EXACT = 1e-9  # the largest difference allowed in double precision; in float32 six layers amplify rounding
SHARE = 0.995  # of the sentences must be equal on the way back
TIE = 1e-4  # scores that are closer than this may change places


@dataclass(frozen=True)
class Case:
    """A configuration of the grid."""

    activation: str
    shared: bool
    layers: int
    d_model: int

    @property
    def name(self) -> str:
        vocabularies = "shared" if self.shared else "separate"
        return f"{self.activation}-{vocabularies}-{self.layers}-layers-{self.d_model}"


GRID = [Case(*values) for values in itertools.product(("relu", "swish"), (True, False), (2, 6), (64, 512))]


@dataclass
class Result:
    """What was found for one configuration; the counts are of sources."""

    name: str
    inputs: int
    largest_logit_difference: float = 0.0
    in_double: float = 0.0  # the same, in double precision
    logit_spread: float = 0.0  # standard deviation, for comparison
    distinct_outputs: int = 0  # of greedy search
    mean_output_tokens: float = 0.0
    greedy: dict[str, int] = field(default_factory=dict)
    beam: dict[str, int] = field(default_factory=dict)  # divided by the length to the power of 1, the default there
    beam_without_penalty: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and the advice of transformers."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sentencepiece_model(texts: list[str], size: int) -> bytes:
    """A unigram model, as the Opus-MT models have."""
    model = io.BytesIO()
    options = {"model_type": "unigram", "num_threads": 1, "minloglevel": 3, "character_coverage": 1.0}
    sentencepiece.set_random_generator_seed(0)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, hard_vocab_limit=False, **options
    )
    return model.getvalue()


def write_tokenizer(folder: Path, shared: bool) -> tuple[int, int]:
    """Both SentencePiece models and the vocabularies: eos first, pad last, as in Opus-MT. Returns their sizes."""
    pairs = embedded_split("valid")
    lists = []
    for name, side in (("source", "source"), ("target", "target")):
        model = sentencepiece_model([getattr(pair, side) for pair in pairs], 600)
        (folder / f"{name}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        lists.append([processor.id_to_piece(i) for i in range(3, len(processor))])
    if shared:
        lists = [[*lists[0], *(piece for piece in lists[1] if piece not in set(lists[0]))]]
    size = min(map(len, lists))  # one pad id serves both sides
    for name, known in zip(("vocab.json", "target_vocab.json"), lists):
        vocabulary = ["</s>", "<unk>", *known[:size], "<pad>"]
        (folder / name).write_text(json.dumps({piece: i for i, piece in enumerate(vocabulary)}), encoding="utf-8")
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not shared, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return size + 3, size + 3


def spread(name: str) -> float:
    """How large random weights are, in units that keep a layer's output as large as its input.

    Strong residual connections and a strong cross-attention: so the source still matters after six layers.
    """
    if "embed_tokens" in name or "shared" in name:
        return 2.0
    if name.endswith(("self_attn.out_proj.weight", "fc2.weight")):
        return 0.2
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        return 1.5
    return 2.5 if "encoder_attn" in name else 1.5


def write_folder(case: Case, folder: Path) -> None:
    """A Marian folder as `transformers` writes it, with random weights that make outputs vary."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True, exist_ok=True)
    source_size, target_size = write_tokenizer(folder, case.shared)
    pad = target_size - 1
    config = MarianConfig(
        vocab_size=source_size, decoder_vocab_size=target_size, d_model=case.d_model, max_position_embeddings=256,
        encoder_layers=case.layers, decoder_layers=case.layers, encoder_ffn_dim=4 * case.d_model,
        decoder_ffn_dim=4 * case.d_model, encoder_attention_heads=case.d_model // 32 if case.d_model < 512 else 8,
        decoder_attention_heads=case.d_model // 32 if case.d_model < 512 else 8, activation_function=case.activation,
        share_encoder_decoder_embeddings=case.shared, scale_embedding=True, pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, forced_eos_token_id=None, bos_token_id=None, static_position_embeddings=True,
        normalize_before=False, normalize_embedding=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "embed_positions" in name:
                continue
            if tensor.dim() > 1:
                tensor.normal_(std=spread(name) * tensor.shape[1] ** -0.5)
            elif name.endswith("layer_norm.weight"):
                tensor.uniform_(0.5, 1.5)
            else:
                tensor.normal_(std=0.1)
            if tensor.shape[0] == target_size and tensor.dim() > 1:
                tensor[pad] = 0.0
        model.final_logits_bias.normal_(std=1.0)
        model.final_logits_bias[0, 0] = 3.0  # so that most outputs end
        model.final_logits_bias[0, pad] = 0.0
    ids = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad}
    model.generation_config.update(num_beams=4, bad_words_ids=[[pad]], max_length=None, **ids)
    model.save_pretrained(folder)


def random_sources(translator: Translator, count: int, seed: int = 0) -> list[list[int]]:
    """`count` sources of 1 to 100 tokens, eos included."""
    generator, tokenizer = random.Random(seed), translator.tokenizer
    sources = []
    for i in range(count):
        words = i * LENGTHS // count  # their ids lie between those of <unk> and <pad>; eos follows
        ids = [2 + int(generator.random() * (tokenizer.source_size - 3)) for _ in range(words)]
        sources.append([*ids, tokenizer.eos_id])
    return sources


def generate(model, batch: torch.Tensor, limit: int = NEW_TOKENS, **settings) -> list[list[int]]:
    """The outputs of `generate`, start token and padding left out."""
    mask = (batch != model.config.pad_token_id).long()
    with quiet():
        rows = model.generate(batch, attention_mask=mask, max_new_tokens=limit, do_sample=False, **settings)
    return [cut_after(row, model.config.eos_token_id) for row in rows[:, 1:].tolist()]


def explain(
    translator: Translator,
    source: torch.Tensor,
    ours: list[int],
    theirs: list[int],
    alpha: float,
    exact: Callable[[], tuple[list[int], list[int]]],
) -> str:
    """Why two outputs for one source differ: a tie, or nothing known.

    It is a tie where scores are nearly equal, or where rounding had decided between prefixes on the way. Then `exact`,
    both searches in double precision, has two equal outputs, or their search has our output.
    """
    if ours == theirs:
        return "equal"
    rows = [ours, theirs]
    outputs = pad_sequences(rows, translator.model.config.pad_id)
    totals = score_outputs(translator.model, source[None].expand(2, -1), outputs).tolist()
    own, score = (total / length_power(len(row), alpha) for total, row in zip(totals, rows, strict=True))
    if abs(score - own) < TIE:
        return "tie"
    exact_ours, exact_theirs = exact()
    return "tie" if exact_theirs in (ours, exact_ours) else "unexplained"


def search_exactly(translator: Translator, theirs, source: torch.Tensor, settings: dict) -> tuple[list[int], list[int]]:
    """Our output and that of `generate` for one source, both in double precision."""
    source = source[source != translator.model.config.pad_id][None]
    ours, theirs = (copy.deepcopy(model).double() for model in (translator.model, theirs))
    return own_outputs(ours, translator.search, source, settings)[0], generate(theirs, source, **settings)[0]


def own_outputs(model, search: dict, sources: torch.Tensor, settings: dict) -> list[list[int]]:
    """Our best outputs by the settings of `generate`."""
    if settings["num_beams"] == 1:
        return [hypothesis.tokens for (hypothesis,) in greedy_search(model, sources, limit=NEW_TOKENS)]
    options = search | {"beam_size": settings["num_beams"], "length_penalty": settings["length_penalty"]}
    return [found[0].tokens for found in beam_search(model, sources, **options, limit=NEW_TOKENS)]


@torch.inference_mode()
def compare(case: Case, folder: Path, inputs: int) -> Result:
    """Make the folder, read it, and compare logits, greedy and beam-4 outputs."""
    from transformers import MarianMTModel

    began = time.monotonic()
    with quiet():
        write_folder(case, folder)
        theirs = MarianMTModel.from_pretrained(folder).eval()
    translator = load_marian(folder, "cpu")
    config, result = translator.model.config, Result(case.name, inputs)
    sources = random_sources(translator, inputs)
    batch = pad_sequences(sources, config.pad_id)
    mask = (batch != config.pad_id).long()
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, config.pad_id, (inputs, 30), generator=generator)
    target[:, 0] = config.start_id
    expected = theirs(input_ids=batch, attention_mask=mask, decoder_input_ids=target).logits
    result.largest_logit_difference = (translator.model(batch, target) - expected).abs().max().item()
    result.logit_spread = expected.std(dim=-1).mean().item()
    ours, exact = (copy.deepcopy(model).double() for model in (translator.model, theirs))
    expected = exact(input_ids=batch, attention_mask=mask, decoder_input_ids=target).logits
    result.in_double = (ours(batch, target) - expected).abs().max().item()
    settings = {"greedy": {"num_beams": 1}}
    for name, alpha in (("beam", 1.0), ("beam_without_penalty", 0.0)):
        settings[name] = {"num_beams": 4, "length_penalty": alpha}
    own = {name: own_outputs(translator.model, translator.search, batch, given) for name, given in settings.items()}
    for name, outputs in own.items():
        kinds = Counter()
        for source, ours, other in zip(batch, outputs, generate(theirs, batch, **settings[name]), strict=True):
            exact = partial(search_exactly, translator, theirs, source, settings[name])
            kinds[explain(translator, source, ours, other, settings[name].get("length_penalty", 0.0), exact)] += 1
        setattr(result, name, dict(kinds))
    result.distinct_outputs = len(set(map(tuple, own["greedy"])))
    result.mean_output_tokens = sum(map(len, own["greedy"])) / inputs
    result.seconds = round(time.monotonic() - began, 1)
    return result


@torch.inference_mode()
def way_back(translator: Translator, texts: list[str], folder: Path) -> dict[str, int]:
    """How many greedy outputs `transformers` and CTranslate2 share with this package, from exported models."""
    import ctranslate2
    from transformers import MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    save_marian(translator, folder / "marian")
    save_ctranslate2(translator, folder / "ctranslate2")
    with quiet():
        theirs = MarianMTModel.from_pretrained(folder / "marian").eval()
        tokenizer = MarianTokenizer.from_pretrained(folder / "marian")
    engine = ctranslate2.Translator(str(folder / "ctranslate2"), compute_type="float32", intra_threads=2)
    pieces = {number: piece for piece, number in vocabularies(translator.tokenizer)[1].items()}
    equal = Counter({"sentences": len(texts), "transformers": 0, "ctranslate2": 0})
    sources = sorted(translator.tokenize(texts), key=len)
    for start in range(0, len(sources), 50):
        batch = pad_sequences(sources[start : start + 50], translator.model.config.pad_id)
        limits = output_limits(translator.model, batch).tolist()
        own = [hypothesis.tokens for (hypothesis,) in greedy_search(translator.model, batch)]
        outputs = generate(theirs, batch, max(limits), num_beams=1)
        equal["transformers"] += sum(ours == row[:limit] for ours, row, limit in zip(own, outputs, limits))
        words = [tokenizer.convert_ids_to_tokens(source[:-1]) for source in sources[start : start + 50]]  # it ends them
        found = engine.translate_batch(words, beam_size=1, max_decoding_length=max(limits))
        for ours, result, limit in zip(own, found, limits):
            ended = ours[-1] == translator.model.config.end_id
            equal["ctranslate2"] += [pieces[i] for i in ours[: -1 if ended else limit]] == result.hypotheses[0][:limit]
    return dict(equal)


def beside_engine(ours: Translator, fast: FastTranslator, texts: list[str], alpha: float, width: int = 4) -> Counter:
    """How many outputs of CTranslate2 are those of our search with `power`, and why the others differ."""
    options = {"beam_size": width, "length_penalty": alpha, "penalty": "power", "n_best": 1}
    options |= {"limit": None, "min_length": 0}
    sources = [source for source in ours.tokenize(texts) if len(source) > 1]

    def best(translator: Translator, stop: str) -> list[Hypothesis]:
        search = options | {"stop": stop}
        return [found[0] for found in in_batches(sources, 2048, lambda some: translator.search_all(some, search))]

    kinds, own, found, early = Counter(), best(ours, "bound"), best(fast, "bound"), []
    if [one.tokens for one in own] != [one.tokens for one in found]:
        early = best(ours, "first")
    for one, other, theirs in zip(own, early or own, found, strict=True):
        if theirs.tokens == one.tokens:
            kinds["same"] += 1
        elif alpha and width > 1 and theirs.tokens == other.tokens:
            kinds["early end"] += 1
        else:
            kinds["tie" if abs(theirs.score - one.score) < TIE else "unexplained"] += 1
    return kinds
