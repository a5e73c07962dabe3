"""A host of ExecuTorch's runner for language models, for make bench-llm; answers.h tells how it is started.

CACHE is the tokenizer, as JSON. The runner is a module of Python that needs torch. So the host prints one more empty
line when both are imported, and the clock starts there.
"""

import json
import os
import sys

# The runner prints to the standard output too, which belongs to the program that started this one.
marks = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
os.environ["OMP_NUM_THREADS"] = sys.argv[3]  # torch's threads, which attention runs on

from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner  # noqa: E402
from executorch.extension.llm.custom_ops import custom_ops  # noqa: E402, F401: registers llama::custom_sdpa
from executorch.extension.pybindings import portable_lib  # noqa: E402
import executorch.kernels.quantized  # noqa: E402, F401: registers the kernels of embeddings


def mark():
    print(file=marks, flush=True)


def answer(runner, prompt, tokens):
    """Returns the tokens of the prompt, and the texts of the answer's tokens."""
    texts, counts = [], []

    def add(text):
        if not texts:
            mark()
        texts.append(text)

    config = GenerationConfig(echo=False, max_new_tokens=tokens, temperature=0.0)
    runner.reset()
    runner.generate(prompt, config, add, lambda stats: counts.append(stats.num_prompt_tokens))
    return counts[-1], texts


def main(model, tokenizer, threads, tokens, prompt, long_prompt):
    mark()
    portable_lib._unsafe_reset_threadpool(int(threads))
    runner = TextLLMRunner(model, tokenizer)
    answer(runner, prompt, int(tokens))
    mark()
    count, texts = answer(runner, long_prompt, int(tokens))
    mark()
    figures = {"prompt_tokens": count, "answer_tokens": len(texts)}
    print(json.dumps({"figures": figures, "answer": "".join(texts).encode().hex()}), file=marks, flush=True)
    sys.stdin.read()


main(*sys.argv[1:])
