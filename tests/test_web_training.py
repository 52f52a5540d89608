"""Training in the page: the losses, gradients and weights of PyTorch, for each part that can be taken away."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from annotated import plain
from annotated.doctor.mistakes import planted
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"vocab_size": 14, "d_model": 16, "d_ff": 24, "num_heads": 4, "num_layers": 2}
FIXED = {
    "max_length": 64, "d_k": None, "d_v": None, "activation": "relu", "positions": "sinusoidal", "norm_first": False,
    "norm_eps": 1e-6, "tie_embeddings": True, "tie_output": True, "scale_embeddings": True, "output_bias": False,
    "attention_bias": False, "pad_id": 0, "start_id": 2, "end_id": 3,
}  # fmt: skip
PARTS = {  # what is taken away in the page, and the mistake of chapter 82 that takes the same away
    "": None,
    "mask": "no causal mask",
    "shift": "model reads the answer",
    "root": "scores not scaled",
    "positions": "no positions",
    "warm-up": "no warm-up",
    "heads": None,
}


def asked(**task):
    """What the page's code answers."""
    node = shutil.which("node")
    if not node:
        pytest.skip("no node")
    done = subprocess.run(
        [node, ROOT / "tests" / "web" / "training.mjs"], input=json.dumps(task), capture_output=True, text=True,
        timeout=limits.PROCESS,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def pairs(steps: int, part: str = ""):
    """Batches of digits and the same backwards, of different lengths; of one length where padding would be seen."""
    draw = torch.Generator().manual_seed(3)
    for _ in range(steps):
        lengths = [4] * 4 if part == "mask" else torch.randint(2, 6, (4,), generator=draw).tolist()
        sources = [torch.randint(4, 14, (length,), generator=draw).tolist() for length in lengths]
        yield [[source, [2, *reversed(source), 3]] for source in sources]


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def trained(part: str, batches: list, double: bool):
    """The same with PyTorch: losses, first gradients, weights, and the weights to begin with."""
    module = planted(PARTS[part]) if PARTS[part] else plain
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    try:
        torch.manual_seed(0)
        model = module.Transformer(**SIZES | ({"num_heads": 1} if part == "heads" else {}), dropout=0.0)
        begin = {name: one.detach().clone() for name, one in model.named_parameters()}
        optimizer, losses, first = module.make_optimizer(model), [], {}
        for step, batch in enumerate(batches, 1):
            source, target = (padded(list(rows)) for rows in zip(*batch, strict=True))
            losses.append(module.train_step(model, optimizer, step, source, target, 400))
            first = first or {name: one.grad.clone() for name, one in model.named_parameters()}
        return losses, first, dict(model.named_parameters()), begin
    finally:
        torch.set_default_dtype(before)


def in_the_page(part: str, batches: list, begin: dict, double: bool, steps: int = 1):
    sizes = SIZES | ({"num_heads": 1} if part == "heads" else {})
    model = {"format": "annotated-1", "model": sizes | FIXED}
    tensors = {name: {"values": one.flatten().tolist(), "shape": list(one.shape)} for name, one in begin.items()}
    return asked(config=model, tensors=tensors, batches=batches, parts=[part], warmup=400, double=double, smoothing=0.1,
                 steps=steps)  # fmt: skip


def far(found: list, expected: torch.Tensor) -> float:
    return float((torch.tensor(found, dtype=torch.float64) - expected.detach().double().flatten()).abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_fifty_steps_are_those_of_pytorch(part):
    batches = list(pairs(50, part))
    losses, gradients, weights, begin = trained(part, batches, double=True)
    found = in_the_page(part, batches, begin, double=True)
    assert far(found["losses"], torch.tensor(losses, dtype=torch.float64)) < 1e-8
    for name, one in gradients.items():
        assert far(found["gradients"][name], one) < 1e-10, name
    for name, one in weights.items():
        assert far(found["weights"][name], one) < 1e-8, name


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_single_precision_stays_close(part):
    batches = list(pairs(50, part))
    losses, gradients, _, begin = trained(part, batches, double=False)
    found = in_the_page(part, batches, begin, double=False)
    assert far(found["losses"], torch.tensor(losses, dtype=torch.float64)) < 1e-3
    for name, one in gradients.items():
        assert far(found["gradients"][name], one) < 1e-4 * max(1.0, float(one.abs().max())), name


@pytest.mark.slow
@pytest.mark.parametrize("part", ["", "root", "shift"])
def test_gradients_are_slopes(part):
    """Central differences in double precision, for some numbers of every tensor."""
    batches = list(pairs(1))
    begin = trained(part, [], double=True)[3]
    for one in in_the_page(part, batches, begin, double=True, steps=0):
        assert abs(one["gradient"] - one["difference"]) < 1e-5, one
