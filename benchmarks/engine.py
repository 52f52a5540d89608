"""CTranslate2 alone in a process: work comes as a line of JSON on standard input, outputs go to standard output.

Nothing of PyTorch is loaded here. Beside the threads of an engine in the same process those of PyTorch are slow, even
while the engine is idle.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def peak_memory() -> float:
    """The largest resident size of this process so far, in MB, as Linux counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


class Engine:
    """The process, seen from outside: a context whose value translates lists of pieces."""

    def __init__(self, *arguments: object):
        self.command = [sys.executable, "-m", __name__, *map(str, arguments)]

    def __enter__(self) -> Engine:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.child = subprocess.Popen(self.command, text=True, cwd=Path(__file__).parents[1], **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        """An empty line ends it. Closing the pipe would not: processes forked meanwhile hold it open too."""
        print(file=self.child.stdin, flush=True)
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def translate(self, words: list[list[str]], **settings: object) -> tuple[list[list[str]], float]:
        """The best output of each sentence, and the peak memory of the process in MB."""
        print(json.dumps({"words": words, "settings": settings}), file=self.child.stdin, flush=True)
        answer = json.loads(self.child.stdout.readline())
        return answer["outputs"], answer["peak"]


def serve(model: str, precision: str, workers: str, threads: str) -> None:
    import ctranslate2

    threads_of = {"inter_threads": int(workers), "intra_threads": int(threads)}
    engine = ctranslate2.Translator(model, compute_type=precision, **threads_of)
    while line := sys.stdin.readline().strip():
        work = json.loads(line)
        found = engine.translate_batch(work["words"], **work["settings"])
        answer = {"outputs": [result.hypotheses[0] for result in found], "peak": peak_memory()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
