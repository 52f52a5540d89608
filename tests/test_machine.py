"""What the machine is, and the precision that follows from it (module machine, chapter 92)."""

import platform
import subprocess
from pathlib import Path

import pytest
import torch

from annotated.base.files import InputError
from annotated.machine import devices as machine
from annotated.machine.devices import (
    PRECISIONS,
    best_device,
    choose_precision,
    code_revision,
    describe_machine,
    matrix_instructions,
    processor,
    processor_name,
)

CPU, CUDA, MPS = (torch.device(name) for name in ("cpu", "cuda", "mps"))
X86 = "processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {name}\ncache size\t: 512 KB\nflags\t\t: fpu {flags} ht\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd {features} sha512\nCPU implementer\t: 0x41\n"
INFO = {
    "Sapphire Rapids": X86.format(
        vendor="GenuineIntel", name="Xeon 8481C", flags="avx2 avx512f avx512_bf16 amx_bf16 amx_tile amx_int8"
    ),
    "Zen 4": X86.format(vendor="AuthenticAMD", name="EPYC 9654", flags="avx2 avx512f avx512_bf16"),
    "Cascade Lake": X86.format(vendor="GenuineIntel", name="Xeon 6248", flags="avx2 avx512f avx512_vnni"),
    "Zen 2": X86.format(vendor="AuthenticAMD", name="EPYC 7B12", flags="avx2"),
    "Neoverse V2": ARM.format(features="sve i8mm bf16"),
    "Cortex A72": ARM.format(features="aes"),
    "nothing": "",
}
NATIVE = {"Sapphire Rapids", "Zen 4", "Neoverse V2"}


@pytest.fixture
def linux(monkeypatch):
    """A function that gives Linux another processor, twice, as if it had two; None is another system."""

    def choose(text: str | None) -> None:
        def read_text(path: Path, *_: object) -> str:
            assert path == Path("/proc/cpuinfo")
            if text is None:
                raise FileNotFoundError
            return f"{text}\n{text.replace('processor', 'second').replace('flags', 'other').replace('model', '')}\n"

        monkeypatch.setattr(Path, "read_text", read_text)

    return choose


def has_gpu(monkeypatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)


# The device


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, CUDA), (True, False, CUDA), (False, True, MPS), (False, False, CPU)]
)
def test_auto_is_a_gpu_when_there_is_one(monkeypatch, cuda: bool, mps: bool, expected: torch.device):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(machine.torch, "empty", lambda *_, device: asked.append(device))
    assert best_device("auto") == expected
    assert asked == [expected]  # a device that is named must also work


@pytest.mark.parametrize("name", ["abacus", "cuda:99", "meta"])  # PyTorch has the last, for sizes alone
def test_the_cpu_always_works_and_another_device_is_named(name: str):
    assert best_device("cpu") == CPU
    assert best_device() == best_device("auto") == torch.empty(0, device=best_device()).device
    with pytest.raises(InputError, match=f"'{name}'"):
        best_device(name)


# The processor


def test_the_first_processor_is_read_and_recorded(linux):
    linux(INFO["Zen 4"])
    about = processor()
    assert (about["vendor_id"], about["model name"], about["cache size"]) == ("AuthenticAMD", "EPYC 9654", "512 KB")
    assert not {"second", "other"} & set(about)
    expected = {
        "Sapphire Rapids": ["avx2", "avx512f", "avx512_bf16", "amx_bf16"],
        "Cascade Lake": ["avx2", "avx512f"],
        "Neoverse V2": ["bf16"],
        "nothing": [],
    }
    for name, instructions in expected.items():
        linux(INFO[name])
        assert matrix_instructions() == instructions
    linux(INFO["Cascade Lake"])
    assert processor_name() == "Xeon 6248 (avx2, avx512f)"
    linux("model name : Some CPU\nflags : fpu\n")
    assert processor_name() == "Some CPU"
    linux(None)
    assert processor() == {}
    assert processor_name() == (platform.processor() or platform.machine())


# The precision


@pytest.mark.usefixtures("no_clock")
def test_precision_on_a_cpu_follows_from_its_instructions(linux):
    """No measurement decides: 16 bits where the processor multiplies such numbers itself, or where they are named."""
    for name, text in INFO.items():
        linux(text)
        assert choose_precision("auto", CPU) == (torch.bfloat16 if name in NATIVE else torch.float32)
        assert [choose_precision(one, CPU) for one in PRECISIONS] == [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", "bf16"])
def test_one_such_instruction_is_enough_and_part_of_its_name_is_not(monkeypatch, flag: str):
    for flags, expected in ((f"fpu {flag}", torch.bfloat16), (f"fpu {flag}x x{flag}", torch.float32)):
        for field in ("flags", "Features"):
            monkeypatch.setattr(machine, "processor", lambda field=field, flags=flags: {field: flags})
            assert choose_precision("auto", CPU) == expected


@pytest.mark.usefixtures("no_clock")
def test_precision_on_a_gpu_follows_from_its_generation_whatever_the_processor(monkeypatch, linux):
    linux(INFO["Neoverse V2"])
    generations = {6.1: torch.float32, 7.0: torch.float16, 7.5: torch.float16, 8.0: torch.bfloat16, 9.0: torch.bfloat16}
    for generation, expected in generations.items():
        has_gpu(monkeypatch, tuple(map(int, str(generation).split("."))))
        assert choose_precision("auto", CUDA) == expected
        assert choose_precision("float32", CUDA) == torch.float32
    assert choose_precision("auto", MPS) == choose_precision("float32", MPS) == torch.float32  # Apple's
    for name in PRECISIONS[1:]:
        with pytest.raises(InputError, match=name):
            choose_precision(name, MPS)
    for device in (CPU, CUDA, MPS):
        with pytest.raises(InputError, match=r"'torch\.float32'"):
            choose_precision("torch.float32", device)


# What a record says


def test_a_record_says_where_it_ran(monkeypatch):
    about = describe_machine(CPU)
    assert about["device"] == f"cpu: {processor_name()}"
    assert (about["threads"], about["python"]) == (torch.get_num_threads(), platform.python_version())
    assert (about["torch"], about["revision"]) == (torch.__version__, code_revision())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA T4")
    assert describe_machine(CUDA)["device"] == "cuda: NVIDIA T4"


def test_a_revision_with_changes_has_a_plus(monkeypatch, tmp_path: Path):
    """Of files of the package, not of others in the repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", tmp_path, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    package = tmp_path / "package"
    (package / "machine").mkdir(parents=True)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(machine, "__file__", str(package / "machine" / "devices.py"))
    assert code_revision() == "unknown"
    git("init")
    (package / "files.py").write_text("1\n")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "other").write_text("2\n")
    assert code_revision() == git("rev-parse", "HEAD")
    (package / "files.py").write_text("2\n")
    assert code_revision() == git("rev-parse", "HEAD") + "+"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_revision() == "unknown"
