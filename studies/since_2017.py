"""Nine edits that came after the paper, each alone and all together (chapter 95): models for `tools.experiments`.

A row of a plan names its `edits` (`since-2017`, and `since-2017-multi30k` for real text). Their parts are those of
`annotated.today`, set into the paper's model. `python -m studies.since_2017 costs` measures what an edit costs in
seconds and bytes, all in turn; time nothing else beside it. `python -m studies.since_2017 parity` compares the file of
today with transformers, and `layout` takes the weights of a trained model for those of the other layout. Their records
lie in `data/runs/since-2017`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from annotated import today
from annotated.attention import MultiHeadAttention
from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError
from annotated.batching import pad_sequences
from annotated.embeddings import OutputProjection, TokenEmbedding
from annotated.formats.published import load_published
from annotated.model import Transformer, TransformerConfig, build_encoder
from annotated.positional_encoding import sinusoidal_encoding
from annotated.runs.state import TrainingState
from annotated.schedule import build_optimizer, learning_rate
from annotated.text.evaluation import antecedent_accuracy, evaluate_translations
from annotated.text.tokenization import Tokenizer, detokenize, tokenize
from annotated.training import TrainingConfig
from annotated.variations import without_positions
from studies import length
from studies.common import begin, keep
from tools import experiments

EDITS = (
    "one-stack", "pre-norm", "rms-norm", "no-biases", "rotary", "swiglu", "grouped-queries", "qk-norm", "adamw-cosine",
)  # fmt: skip
COLD = "cold"  # no edit, but a condition: the rate does not climb
EXTRA = 50  # tokens that a translation may have beyond its source
PAIR = tuple(f"The animal did not cross the street because it was too {word}." for word in ("tired", "wide"))


class EditedAttention(MultiHeadAttention):
    """The paper's attention with shared keys and values, normed queries and keys, or places turned in."""

    def __init__(self, config: TransformerConfig, edits: Sequence[str]):
        super().__init__(config.d_model, config.num_heads)
        if "grouped-queries" in edits:
            self.key, self.value = (nn.Linear(config.d_model, self.d_k, bias=False) for _ in range(2))
        norm = partial(today.RMSNorm, self.d_k) if "qk-norm" in edits else nn.Identity
        self.query_norm, self.key_norm, self.rotary = norm(), norm(), "rotary" in edits

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().project(x, memory)
        query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary and memory is x:  # two texts have no distance
            angles = torch.arange(x.shape[1], device=x.device)[:, None] * today.speeds(self.d_k).to(x)
            query, key = today.turn(query, angles), today.turn(key, angles)
        return query, key.expand(-1, self.num_heads, -1, -1), value.expand(-1, self.num_heads, -1, -1)


def exchange(model: nn.Module, old: type[nn.Module], new: Callable[[Any], nn.Module]) -> None:
    """Put `new(part)` in the place of each part of class `old`."""
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if type(part) is old:
                setattr(parent, name, new(part))


def without_bias(norm: nn.LayerNorm) -> nn.LayerNorm:
    """A normalisation that does not shift."""
    return nn.LayerNorm(norm.normalized_shape, norm.eps, bias=False)


class OneStack(nn.Module):
    """The paper's encoder as a decoder: one stack, which no position sees later ones in."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embedding, self.dropout = TokenEmbedding(config.vocab_size, config.d_model), nn.Dropout(config.dropout)
        self.stack, self.output = build_encoder(config), OutputProjection(self.embedding.weight)

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        waves = sinusoidal_encoding(tokens.shape[1], self.embedding.weight.shape[1]).to(tokens.device)
        x = self.embedding(tokens) + waves[(real.cumsum(-1) - 1).clamp(min=0)]
        return self.output(self.stack(self.dropout(x), today.seen(real)[:, None]))


class OneText(nn.Module):
    """A decoder that is called as a Transformer is: the translation continues its source."""

    def __init__(self, config: TransformerConfig, decoder: nn.Module):
        super().__init__()
        self.config, self.decoder = config, decoder

    @property
    def target_embedding(self) -> nn.Module:
        return self.decoder.embedding

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        text, first = torch.cat([source, target], dim=1), source.shape[1]
        with self.decoder.output.register_forward_pre_hook(lambda _, given: given[0][:, first:]):  # not the source
            return self.decoder(text, text != self.config.pad_id)

    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def edited(config: TransformerConfig, edits: Sequence[str], num_layers: int = 4, d_ff: int = 0) -> nn.Module:
    """The paper's model with these edits. `num_layers` and `d_ff` are those of the one stack.

    Raises InputError for an edit of another name, and for one stack with some edits only.
    """
    edits = [edit for edit in edits if edit not in ("adamw-cosine", COLD)]  # these are of the training
    if unknown := set(edits) - set(EDITS):
        raise InputError(f"no edit is called {', '.join(sorted(unknown))}")
    if "one-stack" in edits:
        return OneText(config, one_stack(replace(config, num_layers=num_layers, d_ff=d_ff or config.d_ff), edits))
    model = Transformer(replace(config, norm_first="pre-norm" in edits), partial(EditedAttention, edits=edits))
    if "rotary" in edits:
        without_positions(model)
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers if "swiglu" in edits else ():
            layer.feed_forward = today.SwiGLU(config.d_model, equal_inner(config))
    if "no-biases" in edits:
        exchange(model, nn.LayerNorm, without_bias)
        exchange(model, nn.Linear, lambda part: nn.Linear(part.in_features, part.out_features, bias=False))
    if "rms-norm" in edits:
        exchange(model, nn.LayerNorm, lambda norm: today.RMSNorm(config.d_model, norm.eps))
    return drawn(model)


def one_stack(config: TransformerConfig, edits: Sequence[str]) -> nn.Module:
    """One stack of the paper's form, or with all edits: today's."""
    if len(edits) == 1:
        return drawn(OneStack(config))
    if len(edits) < len(EDITS) - 1:
        raise InputError("one stack is built alone or with all edits")
    decoder = today.Decoder(
        config.vocab_size, config.d_model, config.d_ff, config.num_heads, config.num_layers,
        num_kv_heads=1, qk_norm=True, tied=True, dropout=config.dropout,
    )  # fmt: skip
    nn.init.normal_(decoder.embedding.weight, std=config.d_model**-0.5)
    return drawn(decoder)


def equal_inner(config: TransformerConfig) -> int:
    """The inner width at which three matrices without biases have as many numbers as the paper's two with theirs."""
    return round((2 * config.d_model * config.d_ff + config.d_model + config.d_ff) / (3 * config.d_model))


def drawn(model: nn.Module) -> nn.Module:
    """Start all matrices as chapter 39 does, also those that were exchanged, but not the table of words."""
    embedded = model.embedding.weight if isinstance(model, today.Decoder) else None
    for part in model.modules():
        if isinstance(part, nn.Linear) and part.weight is not embedded:
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return model


def optimizer_for(
    edits: Sequence[str], config: TrainingConfig, d_model: int
) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    """What makes the optimizer: Adam at the paper's rate, at a rate that does not climb, or AdamW along a cosine.

    All reach the same highest rate. `train` sets the paper's rate before each step; the others set their own over it.
    """
    peak = learning_rate(config.warmup_steps, d_model, config.warmup_steps, config.rate_factor)
    if "adamw-cosine" in edits:
        rates = partial(today.learning_rate, steps=config.max_steps, peak=peak, warmup=config.warmup_steps)
        return lambda parameters: at_rates(today.make_optimizer(parameters, peak), rates)
    if COLD in edits:
        return lambda parameters: at_rates(build_optimizer(parameters), lambda step: learning_rate(
            max(step, config.warmup_steps), d_model, config.warmup_steps, config.rate_factor))  # fmt: skip
    return build_optimizer


def at_rates(optimizer: torch.optim.Optimizer, rates: Callable[[int], float]) -> torch.optim.Optimizer:
    """Let it take its rate from `rates`, by how many steps it has taken."""

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        taken = int(optimizer.state[optimizer.param_groups[-1]["params"][0]].get("step", 0))
        for group in optimizer.param_groups:
            group["lr"] = rates(taken + 1)

    optimizer.register_step_pre_hook(before)
    return optimizer


@torch.no_grad()
def translations(model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Greedy translations by any model that is called as a Transformer is, in order of length, without a cache."""
    sources, found = tokenize(tokenizer, texts), {}
    order = sorted(range(len(texts)), key=lambda number: len(sources[number]))
    start, end, pad = model.config.start_id, model.config.end_id, model.config.pad_id
    for some in (order[i : i + 100] for i in range(0, len(order), 100)):
        source = pad_sequences([sources[number] for number in some], pad)
        target = torch.full((len(some), 1), start)
        while not (over := (target == end).any(1)).all() and target.shape[1] <= source.shape[1] + EXTRA:
            best = model(source, target)[:, -1].argmax(-1).masked_fill(over, pad)
            target = torch.cat([target, best[:, None]], dim=1)
        for number, row in zip(some, target[:, 1:].tolist(), strict=True):
            found[number] = row[: row.index(end)] if end in row else row
    return detokenize(tokenizer, [found[number] for number in range(len(texts))])


class Case(NamedTuple):
    """One of two twins, read up to where its pronoun is due: both pronouns, which is right, and vectors by layer.

    `far` says that the pronoun means the first of the two nouns.
    """

    text: Tensor
    pronouns: list[int]
    right: int
    far: bool
    adjective: list[int]
    source: int  # so many tokens
    vectors: list[Tensor]

    def said(self) -> tuple[list[int], bool, int]:
        """The adjective, whether the first noun is meant, and the right pronoun."""
        return self.text[self.adjective].tolist(), self.far, self.pronouns[self.right]

    def spans(self) -> dict[str, Sequence[int]]:
        """Places by where they stand, from the adjective on: before it both twins are the same."""
        adjective, last = self.adjective, len(self.text) - 1
        return {
            "adjective": adjective, "end of the sentence": range(adjective[-1] + 1, self.source),
            "translation": range(self.source, last), "last token": [last],
        }  # fmt: skip


def lenders(cases: Sequence[Case], number: int) -> dict[str, Case | None]:
    """Cases from other sentences, each different from the case of this number in one thing, the control in none.

    The pronoun is the other of the two that are due, the other noun is meant, or the adjective is that of the twin.
    """
    host, twin = cases[number], cases[number ^ 1]
    adjective, far, pronoun = host.said()
    wanted = {
        "other pronoun": (adjective, far, host.pronouns[1 - host.right]), "other noun": (adjective, not far, pronoun),
        "all the same": (adjective, far, pronoun), "other adjective": (twin.said()[0], far, pronoun),
    }  # fmt: skip
    others = [one for place, one in enumerate(cases) if place // 2 != number // 2]
    return {kind: next((one for one in others if one.said() == said), None) for kind, said in wanted.items()}


@torch.no_grad()
def ways(model: OneText, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """On which way the adjective reaches the pronoun, in twins of equal length that the model gets right.

    `turned` are pronouns that turn where a twin gets vectors of the other, after each layer, by where they stand.
    `lent` are those that turn where the adjective's vectors come from another sentence, in which one thing is
    different, and adjective, noun (the first or the second) and right pronoun are the same otherwise: the pronoun is
    the other of the two, the other noun is meant, or the adjective is the twin's. A control lends from sentences in
    which all three are the same, and should turn nothing.
    """
    layers = (model.decoder.stack if isinstance(model.decoder, OneStack) else model.decoder).layers

    def read(text: Tensor, layer: int = -1, places: Sequence[int] = (), given: Tensor | None = None) -> Any:
        vectors: list[Tensor] = []

        def look(_: nn.Module, __: object, out: Tensor) -> Tensor:
            if len(vectors) == layer:
                out = out.clone()
                out[0, list(places)] = given
            vectors.append(out[0])
            return out

        hooks = [one.register_forward_hook(look) for one in layers]
        logits = model.decoder(text[None], torch.ones_like(text[None]).bool())[0, -1]
        for hook in hooks:
            hook.remove()
        return logits, vectors

    def turns(host: Case, layer: int, places: Sequence[int], given: Tensor) -> bool:
        return int(read(host.text, layer, places, given)[0][host.pronouns].argmax()) != host.right

    cases: list[Case] = []
    for twins in zip(pairs[::2], pairs[1::2], strict=True):
        sources = tokenize(tokenizer, [one.source for one in twins])
        targets = tokenize(tokenizer, [one.target for one in twins], target=True)
        fork = next(i for i, (one, other) in enumerate(zip(*targets, strict=False)) if one != other)
        if len(sources[0]) != len(sources[1]):
            continue
        begun = [[*one, model.config.start_id, *other[:fork]] for one, other in zip(sources, targets, strict=True)]
        texts, pronouns = torch.tensor(begun), [target[fork] for target in targets]
        adjective = (texts[0] != texts[1]).nonzero().flatten().tolist()
        logits, vectors = zip(*map(read, texts), strict=True)
        if [int(one[pronouns].argmax()) for one in logits] == [0, 1]:
            far, size = ["antecedent far" in one.phenomena for one in twins], len(sources[0])
            cases += [Case(texts[i], pronouns, i, far[i], adjective, size, vectors[i]) for i in range(2)]

    turned = {part: [0] * len(layers) for part in (cases[0].spans() if cases else ())}
    lent = {kind: [0] * len(layers) for kind in (lenders(cases, 0) if cases else ())}
    asked = dict.fromkeys(lent, 0)
    for i, host in enumerate(cases):
        for part, places in host.spans().items():
            for layer in range(len(layers)):
                given = cases[i ^ 1].vectors[layer][list(places)]
                turned[part][layer] += turns(host, layer, places, given)
        for kind, donor in lenders(cases, i).items():
            asked[kind] += donor is not None
            for layer in range(len(layers) if donor else 0):
                given = donor.vectors[layer][donor.adjective]
                lent[kind][layer] += turns(host, layer, host.adjective, given)
    shares = {part: [one / len(cases) for one in each] for part, each in turned.items()}
    by_others = {kind: [one / max(asked[kind], 1) for one in each] for kind, each in lent.items()}
    return {"sentences": len(cases), "turned": shares, "asked": asked, "lent": by_others}


def judge(
    plan: Mapping[str, Any], path: Path, state: TrainingState, tokenizer: Tokenizer, corpus: Corpus
) -> dict[str, Any]:
    """Scores of greedy translations by the averaged weights; for rows with `buckets`, by length; none in the cold."""
    if COLD in plan["edits"]:
        return {}
    model = experiments.trained(state).cpu()
    if "buckets" in plan:
        return length.scores_by_length(model, tokenizer, corpus, plan)
    scores: dict[str, Any] = {}
    for split in plan["splits"]:
        pairs = corpus.split(split)
        outputs = translations(model, tokenizer, [pair.source for pair in pairs])
        found = evaluate_translations(outputs, [pair.target for pair in pairs])
        scores[split] = {"sentences": len(pairs), "exact": found.exact_match, "bleu": found.bleu, "chrf": found.chrf}
        if split == "pronoun":
            right = [antecedent_accuracy([text], [pair]) == 1 for text, pair in zip(outputs, pairs, strict=True)]
            both = [one and other for one, other in zip(right[::2], right[1::2], strict=True)]
            scores[split] |= {"pronouns": sum(right) / len(right), "twins": sum(both) / len(both)}
    if "one-stack" in plan["edits"] and corpus.name == "embedded":
        scores["ways"] = ways(model, tokenizer, corpus.split("pronoun"))
    return scores | ({"pair": translations(model, tokenizer, PAIR)} if corpus.name == "embedded" else {})


def step_seconds(rounds: int = 3, steps: int = 20) -> dict[str, list[float]]:
    """Seconds of a training step of the rows that train as base does, in rounds that take all of them in turn."""
    plan = experiments.load_plan("since-2017")
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for row in plan["rows"]:
            if "max_words" not in row and COLD not in row["edits"]:
                changes = row.get("training", {}) | {"max_steps": steps, "validate_every": steps}
                short = plan | {"rows": [row | {"training": changes}], "pairs": 4000}
                state = experiments.train_unit(short, row["id"], seed=1)[0]
                found.setdefault(row["id"], []).append(round(state.seconds / steps, 4))
    return found


SIZES = {"vocab_size": 4096, "d_model": 320, "d_ff": 864, "num_heads": 10, "num_layers": 6}  # some 10 million numbers
SHARING = SIZES | {"num_kv_heads": 2, "d_ff": 1035}  # as many numbers
NAMES = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
LLAMA_SIZES = dict(zip(NAMES, SIZES.values(), strict=True))  # as transformers calls them
PROMPT, WRITTEN = 32, 256


def writing_seconds() -> dict[str, list[float]]:
    """Seconds in which models of `SIZES` write `WRITTEN` tokens, one text at a time, beside transformers' Llama.

    Each in two precisions, ours also with one head of keys for five of queries, at as many numbers; all in turn.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    prompt = torch.randint(1, SIZES["vocab_size"], (1, PROMPT))

    def ours(model: today.Decoder) -> int:
        return len(list(today.write(model, prompt, WRITTEN)))

    def theirs(model: nn.Module) -> int:
        return model.generate(prompt, max_new_tokens=WRITTEN, do_sample=False).shape[1] - PROMPT

    models: dict[str, tuple[Callable[[Any], int], nn.Module]] = {}
    for precision in (torch.float32, torch.bfloat16):
        kind = str(precision).removeprefix("torch.")
        models[f"annotated.today, {kind}"] = ours, today.Decoder(**SIZES)
        models[f"annotated.today, {kind}, five share"] = ours, today.Decoder(**SHARING)
        for attention in ("sdpa", "eager"):
            config = LlamaConfig(**LLAMA_SIZES, eos_token_id=None, pad_token_id=0, attn_implementation=attention)
            models[f"transformers, {kind}, {attention}"] = theirs, LlamaForCausalLM(config)
        for _, model in list(models.values())[-4:]:
            model.to(precision).eval()
    found: dict[str, list[float]] = {}
    for _ in range(5):
        for name, (run, model) in models.items():
            start = time.perf_counter()
            assert run(model) == WRITTEN
            found.setdefault(name, []).append(round(time.perf_counter() - start, 3))
    return found


def cache_bytes(edits: Sequence[str]) -> int:
    """Bytes that a decoder layer's self-attention keeps of a token, in float32."""
    attention = EditedAttention(TransformerConfig(2000, **experiments.load_plan("since-2017")["model"]), edits)
    return 4 * (attention.key.out_features + attention.value.out_features)


@torch.no_grad()
def parity() -> dict[str, dict[str, float]]:
    """How far our logits lie from those of transformers, by models of `SIZES` that it draws and saves and we read.

    Beside it the spread of all logits, and how many of the next 50 tokens are the same.
    """
    import transformers

    torch.manual_seed(1)
    count, found = 50, {}
    for kind in ("Llama", "Mistral", "Qwen2", "Qwen3"):
        config = getattr(transformers, f"{kind}Config")(
            **LLAMA_SIZES, num_key_value_heads=2, head_dim=32, pad_token_id=0, bos_token_id=None, eos_token_id=None
        )
        theirs = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
        for weight in theirs.parameters():
            nn.init.normal_(weight, *((0.0, 0.1) if weight.dim() > 1 else (1.0, 0.2)))
        with TemporaryDirectory() as folder:
            theirs.save_pretrained(folder)
            ours = load_published(Path(folder)).model
        prompt = torch.randint(1, SIZES["vocab_size"], (1, PROMPT))
        text = theirs.generate(prompt, max_new_tokens=count, do_sample=False)
        written = torch.stack(list(today.write(ours, prompt, count)), dim=1)
        logits = theirs(text).logits
        found[kind] = {
            "largest": float((ours(text) - logits).abs().max()), "spread": float(logits.std()),
            "same": int((written == text[:, PROMPT:]).sum()), "of": count,
        }  # fmt: skip
    return found


@torch.no_grad()
def layout() -> dict[str, dict[str, list[Any]]]:
    """What becomes of the finished model of all edits, if the rows of its queries and keys are ordered for neighbours.

    The share of right tokens in test translations, with all earlier ones given, by the tokens of their sources, and
    what it writes. Raises InputError where `tools.experiments` has not left the state of its first seed.
    """
    plan, folder = experiments.load_plan("since-2017"), experiments.WORK / "since-2017" / "all-1"
    if experiments.reached("since-2017", "all", 1) < experiments.train_steps(plan, "all"):
        raise InputError(f"{folder}: not done", "Run `python -m tools.experiments since-2017` first.")
    state, tokenizer, corpus = experiments.train_unit(plan, "all", 1, folder, lambda: True)
    model, found = experiments.trained(state), {}
    shown = [pair.source for pair in corpus.split("test")[:8]]
    sources = tokenize(tokenizer, [pair.source for pair in corpus.split("test")])
    targets = tokenize(tokenizer, [pair.target for pair in corpus.split("test")], target=True)
    for order in ("as trained", "as neighbours"):
        if order == "as neighbours":
            for one in (layer.attention for layer in model.decoder.layers):
                for part in (one.query, one.key, one.query_norm, one.key_norm):
                    pairs = part.weight.unflatten(0, (-1, 2, one.d_k // 2)).transpose(1, 2)
                    part.weight.copy_(pairs.flatten(0, 2))
        right: dict[str, list[bool]] = {"up to 8": [], "9 to 18": [], "more": []}
        for source, target in zip(sources, targets, strict=True):
            logits = model(torch.tensor([source]), torch.tensor([[model.config.start_id, *target[:-1]]]))
            some = right["up to 8" if len(source) <= 8 else "9 to 18" if len(source) <= 18 else "more"]
            some += (logits[0].argmax(-1) == torch.tensor(target)).tolist()
        found[order] = {
            "right": {name: round(sum(one) / len(one), 4) for name, one in right.items()},
            "texts": translations(model, tokenizer, shown),
        }
    return found | {"sources": {"texts": shown}}


def costs() -> dict[str, Any]:
    """What edits cost: seconds of a step and of writing, and bytes of cache."""
    held = {name: cache_bytes([name] if name in EDITS else []) for name in ("base", "grouped-queries")}
    steps = {"seconds_a_step": step_seconds(), "cache_bytes": held}
    return steps | {"sizes": SIZES, "written": WRITTEN, "seconds": writing_seconds()}


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "costs": costs,
    "parity": lambda: {"models": parity(), "transformers": version("transformers")},
    "layout": layout,
}


def main(arguments: list[str]) -> None:
    """Measure costs, compare with transformers, or try the wrong layout, and write the record."""
    if len(arguments) != 1 or arguments[0] not in STUDIES:
        sys.exit(__doc__)
    begin()
    keep(f"since-2017/{arguments[0]}.json", ["since_2017", *arguments], STUDIES[arguments[0]]())


if __name__ == "__main__":
    main(sys.argv[1:])
