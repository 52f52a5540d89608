"""The decoder of today, its reader and its command: modules today and formats.published, chapter 95."""

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn

from annotated import today
from annotated.base.files import InputError
from annotated.command import cli
from annotated.formats.published import built, decoder_settings, load_published, read_config, read_tokenizer, texts

KINDS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
SIZES = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SHORT = LLAMA3 | {"rope_theta": 500_000.0, "original_max_position_embeddings": 16}


def stranger(kind: str, **options: object) -> nn.Module:
    """A model of transformers with random weights, biases and gains as well."""
    config = getattr(transformers, f"{KINDS[kind]}Config")(**SIZES | options)
    model = getattr(transformers, f"{KINDS[kind]}ForCausalLM")(config).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, *((0.0, 0.3) if weight.dim() > 1 else (1.0, 0.2)))
    return model


# The same numbers as transformers

SHAPES = {
    "llama": [
        {"num_key_value_heads": 4}, {"tie_word_embeddings": True}, {"num_key_value_heads": 1, "head_dim": 20},
        {"rope_parameters": SHORT}, {"attention_bias": True}, {"mlp_bias": True, "rms_norm_eps": 0.3},
        {"num_hidden_layers": 1, "vocab_size": 33, "rope_parameters": {"rope_theta": 50.0}},
        {"num_attention_heads": 6, "num_key_value_heads": 3, "intermediate_size": 20, "num_hidden_layers": 5},
    ],
    "qwen3": [
        {"head_dim": 32}, {"head_dim": 12, "tie_word_embeddings": True}, {"num_key_value_heads": 1, "head_dim": 8},
        {"head_dim": 16, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
        {"head_dim": 16, "attention_bias": True}, {"head_dim": 16, "rms_norm_eps": 0.3, "num_key_value_heads": 4},
        {"head_dim": 16, "rope_parameters": SHORT, "num_hidden_layers": 5},
        {"head_dim": 16, "use_sliding_window": True, "sliding_window": 3,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ],
    "mistral": [{"sliding_window": 5}, {"sliding_window": None, "head_dim": 20}, {"tie_word_embeddings": True}],
    "qwen2": [{}, {"tie_word_embeddings": True},
              {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 2}],
}  # fmt: skip
ALL_SHAPES = [pytest.param(kind, shape, id=f"{kind}-{i}") for kind in SHAPES for i, shape in enumerate(SHAPES[kind])]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), ALL_SHAPES)
@torch.no_grad()
def test_logits_and_fifty_tokens_are_those_of_transformers(tmp_path, kind, options):
    """Of a prompt, of cached steps one by one and in chunks, with padding on the left; half of the folders in parts."""
    theirs = stranger(kind, **options)
    theirs.save_pretrained(tmp_path, max_shard_size="60KB" if len(options) == 1 else "1GB")
    assert (tmp_path / "model.safetensors").exists() == (len(options) != 1)
    ours = load_published(tmp_path).model
    tokens = torch.randint(0, theirs.config.vocab_size, (2, 20))
    expected = theirs(tokens).logits
    for lengths in ([20], [7] + [1] * 13, [1, 6, 4, 9]):
        cache = ours.new_cache()
        found = torch.cat([ours(part, cache=cache) for part in tokens.split(lengths, dim=1)], dim=1)
        assert (found - expected).abs().max() < 1e-4, lengths
    for real in (torch.ones_like(tokens).bool(), torch.arange(20) >= torch.tensor([[0], [6]])):
        padded = theirs(tokens, attention_mask=real.long(), position_ids=(real.cumsum(-1) - 1).clamp(min=0)).logits
        assert (ours(tokens, real) - padded)[real].abs().max() < 1e-4
        options = {"attention_mask": real.long(), "max_new_tokens": 50, "do_sample": False, "pad_token_id": 0}
        written = theirs.generate(tokens, **options)[:, 20:]
        assert torch.stack([*today.write(ours, tokens, 50, real=real)], dim=1).equal(written)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 0.002), (torch.bfloat16, 0.008)])
@torch.no_grad()
def test_sixteen_bits_stay_and_norms_and_angles_have_thirty_two(tmp_path, dtype, bound):
    """Norms in 16 bits would differ by 4.8 and 0.026 in the root mean square, angles by 0.01 and 0.1; it is 0.0003."""
    theirs = stranger("llama", hidden_size=256, num_hidden_layers=1, max_position_embeddings=512)
    theirs.model.embed_tokens.weight *= 1000  # their squares are beyond float16
    theirs.to(dtype).save_pretrained(tmp_path)
    tokens = torch.randint(0, 97, (2, 300))
    for wanted, limit in ((None, bound), (torch.float32, 1e-4)):
        ours = load_published(tmp_path, dtype=wanted).model
        assert {weight.dtype for weight in ours.parameters()} == {wanted or dtype}
        options = {"dtype": wanted or "auto", "attn_implementation": "eager"}
        expected = transformers.LlamaForCausalLM.from_pretrained(tmp_path, **options)(tokens).logits
        assert (ours(tokens) - expected).float().square().mean().sqrt() < limit


@pytest.mark.slow
@torch.no_grad()
def test_drawing_is_repeated_by_its_seed_and_keeps_to_the_likeliest(tmp_path):
    """4,000 draws against the shares that a plain loop gives."""
    stranger("llama").save_pretrained(tmp_path)
    ours, tokens = load_published(tmp_path).model, torch.randint(0, 97, (1, 6)).expand(4000, 6)
    shares, kept, total = (ours(tokens[:1])[0, -1] / 1.5).softmax(-1).tolist(), {}, 0.0
    for token in sorted(range(97), key=lambda token: -shares[token]):
        if total < 0.7:
            kept[token] = shares[token]
            total += shares[token]
    assert 3 < len(kept) < 60

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return next(today.write(ours, tokens, 1, temperature=1.5, top_p=0.7))

    first = drawn(1)
    assert first.equal(drawn(1))
    assert not first.equal(drawn(2))
    counts = first.bincount(minlength=97) / 4000
    assert set(counts.nonzero().flatten().tolist()) == kept.keys()
    assert max(abs(counts[token] - share / total) for token, share in kept.items()) < 0.03
    assert len(set(next(today.write(ours, tokens, 1, temperature=1.5)).tolist())) > len(kept)


@torch.no_grad()
def test_weights_for_neighbouring_pairs_are_renumbered(tmp_path, monkeypatch):
    """Turned as pairs (2i, 2i + 1), as complex numbers, and as halves once their rows are renumbered."""
    stranger("qwen3", head_dim=12, attention_bias=True).save_pretrained(tmp_path)
    ours, tokens = load_published(tmp_path).model, torch.randint(0, 97, (2, 20))

    def neighbours(x: Tensor, angles: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones(()), angles)).flatten(-2)

    with monkeypatch.context() as patched:
        patched.setattr(today, "turn", neighbours)
        expected = ours(tokens)
    assert (ours(tokens) - expected).abs().max() > 1
    for layer in ours.layers:
        one = layer.attention
        for module, heads in ((one.query, 4), (one.key, 2), (one.query_norm, 1), (one.key_norm, 1)):
            for weight in module.parameters():
                weight.copy_(today.from_neighbours(weight, heads))
    assert (ours(tokens) - expected).abs().max() < 1e-4


# What a config.json means

BOTH = {"hidden_act": "silu", "torch_dtype": "bfloat16"}
LLAMA = BOTH | {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 128_000, "eos_token_id": 128_001,
    "vocab_size": 128_256, "max_position_embeddings": 131_072, "num_attention_heads": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "mlp_bias": False, "attention_bias": False,
}  # fmt: skip
QWEN = BOTH | {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151_936, "rope_theta": 1_000_000,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "use_sliding_window": False, "bos_token_id": 151_643,
}  # fmt: skip
MISTRAL = BOTH | {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14_336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
SCALED = LLAMA3 | {"original_max_position_embeddings": 8192}
PUBLISHED = [  # in the hub's style of their day, with the number of weights that their owners state
    (8_030_261_248, LLAMA | {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "rope_scaling": SCALED, "tie_word_embeddings": False}),  # Llama 3.1 8B
    (1_235_814_400, LLAMA | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
        "rope_scaling": SCALED | {"factor": 32.0}, "tie_word_embeddings": True}),  # Llama 3.2 1B
    (596_049_920, QWEN | {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
        "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 40_960, "rope_scaling": None,
        "attention_bias": False, "sliding_window": None, "max_window_layers": 28}),  # Qwen3 0.6B
    (494_032_768, QWEN | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
        "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2, "num_hidden_layers": 24,
        "max_position_embeddings": 32_768, "sliding_window": 32_768, "max_window_layers": 24}),  # Qwen2.5 0.5B
    (7_241_732_096, MISTRAL | {"vocab_size": 32_000, "rope_theta": 10_000.0, "sliding_window": 4096}),  # 7B v0.1
    (7_248_023_552, MISTRAL | {"vocab_size": 32_768, "rope_theta": 1e6, "sliding_window": None}),  # 7B v0.3
]  # fmt: skip
SILENT = [
    *({"model_type": kind} for kind in KINDS), {"model_type": "mistral", "sliding_window": None},
    {"model_type": "llama", "num_key_value_heads": None, "head_dim": None, "rope_theta": 5e5},
    {"model_type": "qwen2", "use_sliding_window": True, "num_attention_heads": 64},
    {"model_type": "qwen3", "sliding_window": 7, "hidden_size": 1024},
    {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3},
    {"model_type": "qwen3", "use_sliding_window": True, "num_hidden_layers": 2, "max_window_layers": 0,
     "layer_types": ["full_attention", "sliding_attention"]},
    {"model_type": "llama", "rope_scaling": {**LLAMA3, "rope_theta": 7.0}, "rope_theta": 8.0},
    {"model_type": "llama", "rope_scaling": {"type": "default"}, "attention_bias": True, "mlp_bias": True},
    {"model_type": "llama", "rope_scaling": LLAMA3, "original_max_position_embeddings": 512},
]  # fmt: skip


@pytest.mark.parametrize(("count", "values"), [*PUBLISHED, *((None, values) for values in SILENT)])
def test_a_config_means_what_it_means_to_transformers(tmp_path, count, values):
    (tmp_path / "config.json").write_text(json.dumps(values))
    fields = read_config(tmp_path / "config.json")
    found = decoder_settings(fields)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    kind, layers, window = config.model_type, config.num_hidden_layers, getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    d_k = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    expected = {
        "vocab_size": config.vocab_size, "d_model": config.hidden_size, "d_ff": config.intermediate_size, "d_k": d_k,
        "num_heads": config.num_attention_heads, "num_kv_heads": config.num_key_value_heads, "num_layers": layers,
        "eps": config.rms_norm_eps, "tied": config.tie_word_embeddings, "qk_norm": kind == "qwen3",
        "windows": [window if one == "sliding_attention" else None for one in types],
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    modules = getattr(getattr(transformers.models, kind), f"modeling_{kind}")
    turned = getattr(modules, f"{KINDS[kind]}RotaryEmbedding")(config).inv_freq
    speeds = today.speeds(d_k, found["theta"])
    speeds = today.stretched(speeds, *found["scaling"]) if found["scaling"] else speeds
    assert torch.allclose(speeds, turned, rtol=1e-5, atol=0)
    if count:
        with torch.device("meta"):
            assert sum(weight.numel() for weight in built(fields).parameters()) == count


# Bad input


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A model in one file, tied, and one in several."""
    folder = tmp_path_factory.mktemp("models")
    stranger("llama", tie_word_embeddings=True).save_pretrained(folder / "one")
    stranger("llama").save_pretrained(folder / "several", max_shard_size="60KB")
    return folder


ONE, LAST = "one/model.safetensors", "several/model-00005-of-00005.safetensors"
INDEX, POINTER = "several/model.safetensors.index.json", b"version https://git-lfs.gith"
CONFIG, MODEL, GATE, HEAD = Path("one/config.json"), Path(ONE), "model.layers.1.mlp.gate_proj.weight", "lm_head.weight"


def stored(change: Callable[[dict[str, Tensor]], object], name: str = ONE) -> Callable[[], None]:
    """Other tensors in a file."""

    def spoil() -> None:
        change(tensors := load_file(name))
        save_file(tensors, name)

    return spoil


BAD = [  # settings of `config.json`, or what is done to the files; and what the line names
    *(({name: value}, f"one/config.json: {name} is {value!r}, not") for name, value in (
        ("vocab_size", 10**12), ("hidden_size", -48), ("num_hidden_layers", 2.5), ("num_attention_heads", "4"),
        ("head_dim", 0), ("rms_norm_eps", 10**400), ("tie_word_embeddings", 1), ("max_position_embeddings", None))),
    ({"vocab_size": 2**20, "hidden_size": 2**20}, "embed_tokens.weight has the shape [97, 48] instead of [1048576, 10"),
    ({"num_hidden_layers": 10**6}, "one/config.json: num_hidden_layers is 1000000, but there are 29 tensors"),
    ({"num_key_value_heads": 3}, "one/config.json: num_key_value_heads 3 does not divide 4"),
    ({"num_attention_heads": 5, "head_dim": None, "num_key_value_heads": 1}, "5 does not divide hidden_size 48"),
    ({"head_dim": 13}, "one/config.json: head_dim 13 is odd"), ({"model_type": "mixtral"}, "'mixtral' cannot be read"),
    ({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}, "'GPT2LMHeadModel' cannot be read"),
    ({"architectures": ["MixtralForCausalLM"]}, "'MixtralForCausalLM' cannot"),
    ({"architectures": None, "model_type": "gemma"}, "'gemma' cannot be read"),
    *(({"rope_parameters": {"rope_type": kind, "factor": 2.0}}, f"the kind '{kind}'")
      for kind in ("yarn", "linear", "dynamic", "longrope")),
    ({"rope_scaling": {"type": "yarn"}}, "kind 'yarn'"), ({"rope_scaling": {"full_attention": {}}}, "'full_attention'"),
    ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5"),
    ({"rope_scaling": LLAMA3 | {"factor": -1}}, "factor is -1, not a number"),
    ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4}}, "high_freq_factor 4.0 is not above"),
    *(({name: value}, f"{name} {value!r} is not supported") for name, value in (
        ("hidden_act", "gelu"), ("partial_rotary_factor", 0.5), ("num_local_experts", 8),
        ("final_logit_softcapping", 30.0))),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised (quantization_config: 'gptq')"),
    ({"layer_types": ["sliding_attention"] * 3}, "'sliding_attention', not full_attention"),
    ({"layer_types": ["full_attention"]}, "not as many as num_hidden_layers, 3"),
    ({"architectures": None, "model_type": "mistral", "layer_types": ["full_attention"] * 3}, "those of a mistral"),
    ({"dtype": "int8"}, "one/config.json: dtype 'int8'"), ({"eos_token_id": "</s>"}, "eos_token_id '</s>'"),
    ({"tie_word_embeddings": False}, f"{ONE}: the tensor {HEAD} is missing"),
    (lambda: CONFIG.write_bytes(b"{"), f"{CONFIG}: not a JSON file"), (CONFIG.unlink, f"{CONFIG}: cannot be read"),
    (lambda: CONFIG.write_bytes(b"[]"), f"{CONFIG}: holds no settings"),
    (lambda: CONFIG.write_bytes(POINTER), f"{CONFIG}: a pointer of Git LFS"),
    (partial(CONFIG.rename, "one/consolidated.00.pth"), "one/consolidated.00.pth: a pickle"),
    (partial(MODEL.rename, "one/pytorch_model.bin"), "one/pytorch_model.bin: a pickle"),
    (MODEL.unlink, f"{ONE}: no such file"), (lambda: MODEL.write_bytes(POINTER), f"{ONE}: a pointer of Git LFS"),
    (lambda: MODEL.write_bytes(MODEL.read_bytes()[:-100]), f"{ONE}: not a readable safetensors file"),
    (stored(lambda tensors: tensors.pop(GATE)), f"{ONE}: the tensor {GATE} is missing (1 in all)"),
    (stored(lambda tensors: tensors.update(extra=torch.ones(2))), f"{ONE}: extra is no tensor"),
    (stored(lambda tensors: tensors.update({GATE: torch.ones(80, 47)})), f"{ONE}: {GATE} has the shape [80, 47]"),
    (stored(lambda tensors: tensors[GATE].fill_(torch.nan)), f"{ONE}: {GATE} has values that are not finite"),
    (stored(lambda tensors: tensors.update({GATE: tensors[GATE].to(torch.int8)})), f"{ONE}: {GATE} holds I8"),
    (stored(lambda tensors: tensors.update({HEAD: torch.ones(97, 48)})), f"{HEAD} is another matrix than"),
    (Path(LAST).unlink, f"{LAST}: no such file"),
    (stored(lambda tensors: tensors.pop(HEAD), LAST), f"{LAST}: the tensor {HEAD}, which the index"),
    *((partial(Path(INDEX).write_text, json.dumps({"weight_map": {HEAD: file}})), f"{INDEX}: {file!r} is no")
      for file in ("../one/model.safetensors", "pytorch_model.bin", 3)),
    (lambda: Path(INDEX).write_text('{"weight_map": []}'), f"{INDEX}: not an index"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "names"), BAD, ids=[names[:60] for _, names in BAD])
def test_bad_input_is_one_line_that_names_file_and_value(home, tmp_path, monkeypatch, spoil, names):
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    if isinstance(spoil, dict):
        CONFIG.write_text(json.dumps(json.loads(CONFIG.read_text()) | spoil))
    else:
        spoil()
    with pytest.raises(InputError) as caught:
        load_published(names.split("/")[0] if names.startswith("several") else "one")
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.todo


def test_what_need_not_be_there_may_be_there(home, tmp_path):
    """The matrix of a tied output, and the angles that files had before version 4.31 of transformers."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    path, tokens = tmp_path / "one" / "model.safetensors", torch.arange(9)[None]
    expected, tensors = load_published(tmp_path / "one").model(tokens), load_file(path)
    angles = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(6) for i in range(3)}
    save_file(tensors | angles | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, path)
    model = load_published(tmp_path / "one").model
    assert model.output.weight is model.embedding.weight
    assert model(tokens).equal(expected)


# The command

LINE = "Wir 漢é🙂 go"


@pytest.fixture(scope="module")
def parrot(tmp_path_factory) -> Path:
    """A model that goes on with LINE, wherever in it a text ends, and then ends; most tokens are single bytes."""
    folder, tokenizer = tmp_path_factory.mktemp("parrot"), Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    how = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "special_tokens": ["<s>", "</s>"]}
    tokenizer.train_from_iterator(["Wir go to go"], trainers.BpeTrainer(vocab_size=262, **how))
    ids = [*tokenizer.encode(LINE).ids, 1]
    assert len(set(ids)) == len(ids) > len(LINE)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.enable_truncation(2)  # as training may have left it
    tokenizer.save(str(folder / "tokenizer.json"))
    model = stranger("llama", vocab_size=262, hidden_size=304, intermediate_size=8, eos_token_id=[1, 5000])
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding = nn.init.orthogonal_(model.model.embed_tokens.weight)
        model.model.norm.weight.fill_(1.0)
        model.lm_head.weight.zero_()[ids] = embedding[[0, *ids[:-1]]]
        model.lm_head.weight[ids[0]] += embedding[1]  # and begins anew where nobody stops it
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def says(parrot, tmp_path, monkeypatch, capsys):
    """What `annotated write` returns, writes and says, of a copy of the parrot where one works, with this input."""
    shutil.copytree(parrot, tmp_path / "parrot")
    monkeypatch.chdir(tmp_path)

    def call(given: str, *options: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return cli.main(["write", "parrot", "--device", "cpu", *map(str, options)]), *capsys.readouterr()

    return call


@pytest.mark.slow
def test_a_text_is_continued_to_its_end(says):
    """A line break that ends it is not part of it, an empty one begins, and a character that lacks bytes stays out."""
    for given in ("Wir", "Wir 漢", "Wir 漢\n", ""):
        assert says(given) == (0, LINE.removeprefix(given.strip()) + "\n", "")
    assert says("Wir", "--temperature", 0.01, "--top-p", 0.9, "--precision", "bfloat16")[1] == " 漢é🙂 go\n"
    assert says("Wir", "--tokens", 3)[1] == " \n"
    warm = [says("Wir", "--temperature", 9, "--seed", seed)[1] for seed in (1, 1, 2)]
    assert warm[0] == warm[1] != warm[2]
    assert len(says("Wir", "--temperature", 9, "--top-p", 0.001)[1]) == len(" 漢é🙂 go\n")
    last = Tokenizer.from_file("parrot/tokenizer.json").token_to_id("Ġgo")
    for end, tokens, written in ((last, 300, " 漢é🙂"), (107, 40, f" 漢é🙂 go{LINE}")):  # config.json has another
        Path("parrot/generation_config.json").write_text(json.dumps({"eos_token_id": end}))
        assert says("Wir", "--tokens", tokens)[1].removesuffix("\n")[:17] == written
    assert says("Wir", "--tokens", 300)[2] == "ends after 125 tokens at most, not 300: the model knows 128 places\n"


def test_a_long_text_is_read_in_pieces(says):
    model = stranger("llama", vocab_size=262, max_position_embeddings=1200)
    model.save_pretrained("parrot")
    tokenizer, given = read_tokenizer(Path("parrot")), " ".join(map(str, range(300)))
    before = tokenizer.encode(given).ids
    assert len(before) > 1024
    after = model.generate(torch.tensor([before]), max_new_tokens=8, do_sample=False)[0, len(before) :].tolist()
    assert says(given, "--tokens", 8)[1] == "".join(texts(tokenizer, before, after)) + "\n"


def test_a_text_comes_while_it_is_written_and_ctrl_c_ends_it(says, parrot, monkeypatch):
    ids, seen, out = read_tokenizer(parrot).encode(LINE).ids[1:], [""], io.BytesIO()

    def write(*_: object, **__: object) -> Iterator[Tensor]:
        for token in ids:
            yield torch.tensor([token])
            seen.append(out.getvalue().decode())
        raise KeyboardInterrupt

    monkeypatch.setattr(today, "write", write)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    assert says("W")[::2] == (130, "annotated write: interrupted\n")
    assert out.getvalue().decode() == f"{LINE}\n"
    pieces = [now.removeprefix(before) for before, now in pairwise(seen)]
    assert pieces == ["Wi", "r", " ", "", "", "漢", "", "é", "", "", "", "🙂", " go"]


def test_pieces_of_characters_wait_in_tokenizers_of_the_other_kind():
    """Those of SentencePiece, whose first blank goes only where a text begins."""
    names = ["<s>", "▁a", "▁b", "<0xE6>", "<0xBC>", "<0xA2>"]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], byte_fallback=True))
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(parts)
    tokenizer.add_special_tokens(["<s>"])
    assert [*texts(tokenizer, [0, 1], [2, 3, 4, 5, 2, 3, 4])] == [" b", "漢", " b"]
    assert [*texts(tokenizer, [0], [2, 0, 2])] == ["b", " b"]


def test_what_cannot_be_continued_is_said_in_one_line(says, monkeypatch):
    def refused(names: str, given: str = "W", *options: str) -> None:
        status, out, err = says(given, *options)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert names in err

    path = Path("parrot/tokenizer.json")
    whole = json.loads(path.read_text())
    refused("standard input: 130 tokens leave no room, as the model knows 128 places", "W" * 129)
    path.write_text(json.dumps(whole | {"post_processor": None}))
    Path("parrot/generation_config.json").unlink()
    config = json.loads(Path("parrot/config.json").read_text())
    for none in (None, -1):
        Path("parrot/config.json").write_text(json.dumps(config | {"bos_token_id": none}))
        refused("standard input: empty, and this model has no token", "")
    Path("parrot/config.json").write_text(json.dumps(config | {"bos_token_id": 0}))
    assert says("") == (0, LINE + "\n", "")
    stored(lambda tensors: tensors["model.norm.weight"].fill_(1e5), "parrot/model.safetensors")()
    refused("model.norm.weight has values that are not finite in float16", "W", "--precision", "float16")
    whole["added_tokens"].append(whole["added_tokens"][0] | {"id": 262, "content": "<new>"})
    path.write_text(json.dumps(whole))
    refused("parrot/tokenizer.json: has a token 262, but the model knows 262", "<new>")
    path.write_bytes(POINTER)
    refused("parrot/tokenizer.json: a pointer of Git LFS")
    path.write_text("{}")
    refused("parrot/tokenizer.json: not a file of the package tokenizers")
    path.unlink()
    refused("parrot/tokenizer.json: no such file")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refused('the package tokenizers is not installed: pip install "annotated-attention[today]"')
    shutil.rmtree("parrot")
    refused("parrot: no such folder")
