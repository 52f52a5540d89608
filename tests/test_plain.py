"""The plain file of chapter 00 against the package, with the shipped weights: the same model in both."""

import ast
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import annotated.plain as plain
from annotated.model import Transformer
from annotated.regularization import label_smoothed_loss
from annotated.runs.checkpoint import load_model
from annotated.schedule import learning_rate
from annotated.search.beam import greedy_search
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import Tokenizer, tokenize

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "data" / "models" / "embedded"
Both = tuple[plain.Transformer, Transformer, Tokenizer]


@pytest.fixture(scope="module")
def both() -> Both:
    """The plain model and the package's with the shipped weights, and their tokenizer."""
    model, tokenizer, _ = load_model(MODEL)
    config = model.config
    copy = plain.Transformer(config.vocab_size, config.d_model, config.d_ff, config.num_heads, config.num_layers, 0.0)
    copy.load_state_dict(load_file(MODEL / "model.safetensors"))
    return copy.eval(), model.eval(), tokenizer


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [plain.PAD] * (longest - len(row)) for row in rows])


def sides(tokenizer: Tokenizer, split: str, count: int) -> tuple[Tensor, Tensor]:
    """Source and target ids of the first pairs, padded; the target begins with bos."""
    pairs = embedded_split(split)[:count]
    german = tokenize(tokenizer, [pair.target for pair in pairs], target=True)
    source = padded(tokenize(tokenizer, [pair.source for pair in pairs]))
    return source, padded([[plain.BOS, *row] for row in german])


def test_the_file_is_short_and_needs_nothing_but_pytorch():
    text = (ROOT / "annotated" / "plain.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imports} == {"import math", "import torch", "from torch import nn"}


def test_logits_are_the_packages(both: Both):
    """Forty pairs of unequal lengths: a mask that lets padding or the future in would show."""
    copy, model, tokenizer = both
    source, target = sides(tokenizer, "test", 40)
    with torch.no_grad():
        ours, theirs = copy(source, target[:, :-1]), model(source, target[:, :-1])
    real = target[:, :-1] != plain.PAD
    assert real.sum() < real.numel()
    assert (ours - theirs)[real].abs().max() <= 1e-5 * theirs[real].abs().max()


@pytest.mark.slow
def test_greedy_translations_are_the_packages(both: Both):
    copy, model, tokenizer = both
    source, _ = sides(tokenizer, "test", 30)
    ours = [
        [token for token in row if token not in (plain.PAD, plain.EOS)]
        for row in plain.translate(copy, source).tolist()
    ]
    theirs = [hypothesis.tokens for (hypothesis,) in greedy_search(model, source)]
    theirs = [[token for token in row if token not in (plain.PAD, plain.EOS)] for row in theirs]
    assert ours == theirs


def test_gradients_of_a_step_are_the_packages(both: Both):
    copy, model, tokenizer = both
    source, target = sides(tokenizer, "valid", 24)
    copy.zero_grad()
    model.zero_grad()
    plain.loss(copy, source, target).backward()
    count = (target[:, 1:] != plain.PAD).sum()
    (label_smoothed_loss(model(source, target[:, :-1]), target[:, 1:], 0.1) / count).backward()
    theirs = dict(model.named_parameters())
    for name, parameter in copy.named_parameters():
        torch.testing.assert_close(parameter.grad, theirs[name].grad, rtol=1e-4, atol=1e-6)


def test_the_rate_is_the_papers():
    for step in (1, 399, 400, 4000, 4001, 100_000):
        assert plain.learning_rate(step, 512) == pytest.approx(learning_rate(step, 512))
        assert plain.learning_rate(step, 128, 400) == pytest.approx(learning_rate(step, 128, 400))


@pytest.mark.parametrize("training", [True, False])
def test_translation_has_no_dropout_and_puts_the_mode_back(training: bool):
    """Chapter 54: dropout is for training; who translates between two steps need not think of it."""
    torch.manual_seed(0)
    model = plain.Transformer(30, d_model=32, d_ff=64, num_heads=4, num_layers=1, dropout=0.5).train(training)
    source = torch.tensor([[5, 6, 7, plain.EOS]])
    found = [plain.translate(model, source, extra=8).tolist() for _ in range(3)]
    assert {module.training for module in model.modules()} == {training}
    assert found == [plain.translate(model.eval(), source, extra=8).tolist()] * 3


@pytest.mark.slow
def test_training_steps_learn_two_pairs_by_heart():
    torch.manual_seed(0)
    model = plain.Transformer(30, d_model=32, d_ff=64, num_heads=4, num_layers=2, dropout=0.0)
    source = torch.tensor([[5, 6, 7, plain.EOS], [8, 9, plain.EOS, plain.PAD]])
    target = torch.tensor([[plain.BOS, 11, 12, 13, plain.EOS], [plain.BOS, 14, plain.EOS, plain.PAD, plain.PAD]])
    optimizer = plain.make_optimizer(model)
    losses = [plain.train_step(model, optimizer, step, source, target, warmup=100) for step in range(1, 121)]
    assert losses[-1] < losses[0] / 2
    assert plain.translate(model, source).tolist() == [
        [11, 12, 13, plain.EOS],
        [14, plain.EOS, plain.PAD, plain.PAD],
    ]
