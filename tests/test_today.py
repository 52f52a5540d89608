"""The decoder of today, its reader and its command: modules today and formats.published, chapter 95."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from itertools import islice
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
from annotated.formats.published import decoder_settings, load_published, read_config, texts

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
              {"use_sliding_window": True, "sliding_window": 1, "max_window_layers": 2}],
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


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 0.018), (torch.bfloat16, 0.17)])
@torch.no_grad()
def test_sixteen_bits_stay_and_norms_and_angles_have_thirty_two(tmp_path, dtype, bound):
    """A norm in 16 bits differs by 0.024 and 0.24 on average, places in 16 bits by 0.09 and 0.8."""
    stranger("llama", max_position_embeddings=512).to(dtype).save_pretrained(tmp_path)
    tokens = torch.randint(0, 97, (2, 300))
    for wanted, limit in ((None, bound), (torch.float32, 1e-4)):
        ours = load_published(tmp_path, dtype=wanted).model
        assert {weight.dtype for weight in ours.parameters()} == {wanted or dtype}
        options = {"dtype": wanted or "auto", "attn_implementation": "eager"}
        expected = transformers.LlamaForCausalLM.from_pretrained(tmp_path, **options)(tokens).logits
        assert (ours(tokens) - expected).float().square().mean().sqrt() < limit


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
def test_a_row_that_has_ended_waits_for_the_others(tmp_path):
    stranger("llama").save_pretrained(tmp_path)
    ours, tokens = load_published(tmp_path).model, torch.randint(0, 97, (2, 6))
    free = torch.stack([*today.write(ours, tokens, 30)], dim=1)
    ends = (int(free[0, 3]), int(free[1, 8]))
    last = max(next(i for i, token in enumerate(row) if token in ends) for row in free.tolist())
    assert torch.stack([*today.write(ours, tokens, 30, ends)], dim=1).equal(free[:, : last + 1])


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

PUBLISHED = {  # as on the hub, in the style of their day, with the number of weights that their owners state
    "Llama 3.1 8B": (8_030_261_248, """{"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu",
        "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
        "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256}"""),
    "Llama 3.2 1B": (1_235_814_400, """{"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
        "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 128256}"""),
    "Qwen3 0.6B": (596_049_920, """{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
        "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
        "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_sliding_window": false,
        "vocab_size": 151936}"""),
    "Qwen2.5 0.5B": (494_032_768, """{"architectures": ["Qwen2ForCausalLM"], "bos_token_id": 151643,
        "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
        "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_mrope": false,
        "use_sliding_window": false, "vocab_size": 151936}"""),
    "Mistral 7B v0.1": (7_241_732_096, """{"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}"""),
    "Mistral 7B v0.3": (7_248_023_552, """{"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32768}"""),
}  # fmt: skip
SILENT = [
    *({"model_type": kind} for kind in KINDS), {"model_type": "mistral", "sliding_window": None},
    {"model_type": "mistral", "num_key_value_heads": None, "head_dim": None, "rope_theta": 5e5},
    {"model_type": "qwen2", "use_sliding_window": True}, {"model_type": "qwen3", "sliding_window": 7},
    {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3},
    {"model_type": "qwen3", "use_sliding_window": True, "num_hidden_layers": 2, "max_window_layers": 0,
     "layer_types": ["full_attention", "sliding_attention"]},
    {"model_type": "llama", "rope_scaling": {**LLAMA3, "rope_theta": 7.0}, "rope_theta": 8.0},
    {"model_type": "llama", "rope_scaling": {"type": "default"}, "attention_bias": True, "mlp_bias": True},
    {"model_type": "llama", "rope_scaling": LLAMA3, "original_max_position_embeddings": 512},
]  # fmt: skip


@pytest.mark.parametrize("values", [*(json.loads(text) for _, text in PUBLISHED.values()), *SILENT], ids=str)
def test_a_config_means_what_it_means_to_transformers(tmp_path, values):
    (tmp_path / "config.json").write_text(json.dumps(values))
    found = decoder_settings(read_config(tmp_path / "config.json"))
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    layers, window = config.num_hidden_layers, getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    d_k = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    bias = getattr(config, "attention_bias", False)
    expected = (
        config.vocab_size, config.hidden_size, config.intermediate_size, config.num_attention_heads, layers,
        config.num_key_value_heads, d_k, config.rms_norm_eps, config.tie_word_embeddings,
        bias or config.model_type == "qwen2", bias, getattr(config, "mlp_bias", False), config.model_type == "qwen3",
        [window if one == "sliding_attention" else None for one in types],
    )  # fmt: skip
    names = "vocab_size d_model d_ff num_heads num_layers num_kv_heads d_k eps tied qkv_bias output_bias bias qk_norm"
    assert tuple(found[name] for name in [*names.split(), "windows"]) == expected
    rotary = getattr(transformers.models, config.model_type)
    rotary = getattr(rotary, f"modeling_{config.model_type}")
    turned = getattr(rotary, f"{KINDS[config.model_type]}RotaryEmbedding")(config).inv_freq
    assert torch.allclose(today.speeds(d_k, found["theta"], found["scaling"]), turned, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_as_many_weights_as_they_are_said_to_have(tmp_path, name):
    count, text = PUBLISHED[name]
    (tmp_path / "config.json").write_text(text)
    with torch.device("meta"):
        model = today.Decoder(**decoder_settings(read_config(tmp_path / "config.json")))
    assert sum(weight.numel() for weight in model.parameters()) == count
