"""Chapter 34: tokens to vectors, vectors to logits, and one matrix for both (section 3.4 of the paper)."""

import math

import pytest
import torch
import torch.nn.functional as F

from annotated.embeddings import OutputProjection, TokenEmbedding
from annotated.model import Transformer, TransformerConfig

TINY = TransformerConfig(vocab_size=23, d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.0)


def test_embedding_copies_rows_times_the_factor():
    """C-3.4-a, C-3.4-d: each token becomes its row of E, times sqrt(d_model)."""
    embedding = TokenEmbedding(11, 16)
    tokens = torch.tensor([[3, 0, 3], [10, 7, 1]])
    x = embedding(tokens)
    assert x.shape == (2, 3, 16)
    for sentence in range(2):
        for position in range(3):
            row = embedding.weight[tokens[sentence, position]]
            assert torch.allclose(x[sentence, position], 4 * row)


def test_scaled_embeddings_start_with_unit_variance():
    """C-3.4-d and the initialisation that goes with it: entries N(0, 1 / d_model), vectors of variance 1."""
    d_model = 64
    embedding = TokenEmbedding(4000, d_model)
    assert embedding.weight.var().item() * d_model == pytest.approx(1, abs=0.02)
    assert embedding.weight.mean().item() == pytest.approx(0, abs=0.01 / math.sqrt(d_model))
    assert embedding(torch.arange(4000)[None]).var().item() == pytest.approx(1, abs=0.02)


def test_factor_can_be_left_out():
    """`scale=False` is an option beside the paper: the rows as they are."""
    embedding = TokenEmbedding(11, 16, scale=False)
    assert torch.equal(embedding(torch.arange(11)[None])[0], embedding.weight)
    model = Transformer(TransformerConfig(vocab_size=23, d_model=16, d_ff=8, num_heads=2, scale_embeddings=False))
    assert model.source_embedding.scale == model.target_embedding.scale == 1


def test_logits_are_dot_products_with_the_rows():
    """C-3.4-b: logit v is y . E_v, without the factor and without bias; the softmax over the vocabulary sums to 1."""
    embedding, y = TokenEmbedding(7, 16), torch.randn(2, 3, 16)
    project = OutputProjection(embedding.weight)
    logits = project(y)
    assert logits.shape == (2, 3, 7)
    for v in range(7):
        assert torch.allclose(logits[1, 2, v], (y[1, 2] * embedding.weight[v]).sum(), atol=1e-6)
    probabilities = Transformer(TINY)(torch.tensor([[5, 6]]), torch.tensor([[2, 7, 8]])).softmax(dim=-1)
    assert probabilities.shape == (1, 3, 23)
    assert torch.allclose(probabilities.sum(-1), torch.ones(1, 3))
    assert torch.equal(project(y[0, 0]), project(y[:1, :1])[0, 0])  # any leading axes


def test_output_bias_is_an_option():
    """The paper writes no bias: none by default; on request one number for each token, starting at zero."""
    embedding, y = TokenEmbedding(7, 16), torch.randn(3, 16)
    assert [name for name, _ in OutputProjection(embedding.weight).named_parameters()] == ["weight"]
    biased = OutputProjection(embedding.weight, bias=True)
    assert torch.equal(biased(y), OutputProjection(embedding.weight)(y))
    with torch.no_grad():
        biased.bias[4] = 2.5
    assert torch.allclose(biased(y) - OutputProjection(embedding.weight)(y), 2.5 * F.one_hot(torch.tensor(4), 7))


def test_one_matrix_stays_one_after_a_step_and_after_loading():
    """C-3.4-c: tied means the same parameter, not equal values: an optimiser's step and a saved state keep it one."""
    model = Transformer(TINY)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.tensor([[5, 6]]), torch.tensor([[2, 7, 8]])).square().sum().backward()
    optimizer.step()
    other = Transformer(TINY)
    other.load_state_dict(model.state_dict())
    for each in (model, other):
        assert each.source_embedding.weight is each.target_embedding.weight is each.output.weight
    assert torch.equal(other.output.weight, model.source_embedding.weight)


def test_shared_matrix_gets_the_gradient_of_all_three_uses():
    """C-3.4-c: the gradient of the one matrix is the sum over source embedding, target embedding and projection."""
    options = {**vars(TINY), "tie_embeddings": False, "tie_output": False}
    tied, untied = Transformer(TINY), Transformer(TransformerConfig(**options))
    state = tied.state_dict()
    untied.load_state_dict({name: state[name] for name in untied.state_dict()})
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 9, 10]])
    answers = torch.tensor([9, 10, 3])
    for model in (tied, untied):
        F.cross_entropy(model(source, target)[0], answers).backward()
    as_source, as_target, as_output = (
        module.weight.grad for module in (untied.source_embedding, untied.target_embedding, untied.output)
    )
    assert torch.allclose(tied.output.weight.grad, as_source + as_target + as_output, atol=1e-5)
    assert set(as_source.abs().sum(-1).nonzero().flatten().tolist()) == {5, 6, 7}
    assert set(as_target.abs().sum(-1).nonzero().flatten().tolist()) == {2, 9, 10}
    assert as_output.abs().sum(-1).all()
