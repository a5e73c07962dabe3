"""Exports a language model as ExecuTorch's export_llm does, and asks the stock runtime for its answers.

    pip install torch==2.15.0 torchvision==0.29.2 executorch==1.5.1 transformers safetensors
    python export.py small DIR                    # small.pte and small_int8.pte, a model trained on a short text
    python export.py CHECKPOINT KIND DIR          # model.pte of a Llama of Hugging Face; KIND is int8 or int4
    python export.py answers MODEL.pte FILE.json  # greedy tokens of the stock runtime after the prompts of FILE.json

The attention is ExecuTorch's custom operator, with keys and values that the method keeps, and prompts of any length.
"""

import json
import math
import os
import sys
import tempfile

import torch
from executorch.examples.models.llama.export_llama_lib import export_llama
from executorch.extension.llm.export.config.llm_config import LlmConfig, Pt2eQuantize

SMALL = {"dim": 64, "hidden_dim": 160, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 224,
         "norm_eps": 1e-5, "rope_theta": 10000.0}
PROMPTS = ["the rain in spain", "Once upon a time", "1, 2, 3, 4"]
TEXT = """the rain in spain stays mainly in the plain, and the snow in sweden stays mainly in the north. the wind
in wales blows from the west, and the sun in sicily shines from noon to night. Once upon a time, in the land of the
midnight sun, a fox met a crow with a piece of cheese; the fox sang a song, and the crow sang too. 1, 2, 3, 4, 5, once
i caught a fish alive; 6, 7, 8, 9, 10, then i let it go again. why did you let it go? because it bit my finger so."""


def encoded(texts):
    from tokenizers import Tokenizer

    t = Tokenizer.from_file(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer.json"))
    return [t.encode(text, add_special_tokens=False).ids for text in texts]


def trained_weights(p, steps=300):
    """Weights that continue TEXT: random ones have no likeliest token that another rounding leaves the likeliest."""
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    torch.manual_seed(42)
    torch.set_num_threads(1)
    model = construct_transformer(ModelArgs(generate_full_logits=True, max_seq_len=64, max_context_len=64, **p))
    for name, w in model.named_parameters():
        torch.nn.init.ones_(w) if w.dim() == 1 else torch.nn.init.normal_(w, std=w.shape[-1] ** -0.5)
    ids = torch.tensor(encoded([TEXT.replace("\n", " ")])[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(steps):
        begins = torch.randint(len(ids) - 49, (16,))
        rows = torch.stack([ids[b : b + 49] for b in begins])
        logits = model(rows[:, :-1])
        logits = logits[0] if isinstance(logits, tuple) else logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", float(loss), len(ids), "tokens")
    return {name: w.detach() for name, w in model.state_dict().items() if name.endswith("weight")}


def read_checkpoint(directory):
    """The parameters and weights of a Llama, with the rows of queries and keys in the order of Meta's rotation."""
    from safetensors.torch import load_file

    with open(os.path.join(directory, "config.json")) as f:
        c = json.load(f)
    tensors = load_file(os.path.join(directory, "model.safetensors"))
    dim, heads, groups = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    p = {"dim": dim, "hidden_dim": c["intermediate_size"], "n_layers": c["num_hidden_layers"], "n_heads": heads,
         "n_kv_heads": groups, "vocab_size": c["vocab_size"], "norm_eps": c["rms_norm_eps"],
         "rope_theta": c["rope_parameters"]["rope_theta"]}

    def rotated(w, n):
        return w.view(n, 2, dim // heads // 2, dim).transpose(1, 2).reshape(-1, dim).contiguous()

    embeddings = tensors["model.embed_tokens.weight"]
    state = {"tok_embeddings.weight": embeddings, "output.weight": tensors.get("lm_head.weight", embeddings).clone(),
             "norm.weight": tensors["model.norm.weight"]}
    names = {"attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
             "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj"}
    for i in range(p["n_layers"]):
        for meta, name in names.items():
            state[f"layers.{i}.{meta}.weight"] = tensors[f"model.layers.{i}.{name}.weight"]
        layer = f"model.layers.{i}.self_attn."
        state[f"layers.{i}.attention.wq.weight"] = rotated(tensors[layer + "q_proj.weight"], heads)
        state[f"layers.{i}.attention.wk.weight"] = rotated(tensors[layer + "k_proj.weight"], groups)
    return p, state


def export(params, state, kind, length, path):
    with tempfile.TemporaryDirectory() as work:
        c = LlmConfig()
        c.base.checkpoint = os.path.join(work, "weights.pth")
        c.base.params = os.path.join(work, "params.json")
        torch.save(state, c.base.checkpoint)
        with open(c.base.params, "w") as f:
            json.dump(params, f)
        c.base.metadata = json.dumps({"get_bos_id": 1, "get_eos_ids": [2]})
        c.model.use_kv_cache = c.model.use_sdpa_with_kv_cache = c.model.enable_dynamic_shape = True
        c.export.max_seq_length = c.export.max_context_length = length
        c.export.output_dir, c.export.output_name = work, os.path.abspath(path)
        c.backend.xnnpack.enabled = c.backend.xnnpack.extended_ops = True
        c.quantization.embedding_quantize = "8,0" if kind == "int8" else "4,32"
        if kind == "int8":
            c.quantization.pt2e_quantize = Pt2eQuantize.xnnpack_dynamic
        else:
            c.quantization.qmode, c.quantization.group_size = "8da4w", 32
        export_llama(c)


def answers(path, prompts, tokens=32):
    """Greedy tokens of the stock runtime, the logits of the first one, and the least gap of the two likeliest."""
    from executorch.extension.pybindings import portable_lib
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401, registers its operators
    from executorch.kernels import quantized  # noqa: F401

    found = []
    for prompt in prompts:
        model = portable_lib._load_for_executorch(path)
        position, step, answer, gap = 0, prompt, [], math.inf
        for _ in range(tokens):
            logits = model.forward((torch.tensor([step]), torch.tensor([position])))[0].flatten()
            if not answer:
                first = logits.tolist()
            top = logits.topk(2).values
            gap = min(gap, float(top[0] - top[1]))
            position += len(step)
            step = [int(logits.argmax())]
            answer += step
        found.append({"prompt": prompt, "tokens": answer, "gap": gap, "logits": [round(x, 5) for x in first]})
    return found


def main(arguments):
    if arguments[0] == "small":
        weights = trained_weights(SMALL)
        for name, kind in {"small": "int4", "small_int8": "int8"}.items():
            path = os.path.join(arguments[1], name + ".pte")
            export(SMALL, weights, kind, 64, path)
            with open(os.path.join(arguments[1], name + ".json"), "w") as f:
                json.dump(answers(path, encoded(PROMPTS)), f)
    elif arguments[0] == "answers":
        with open(arguments[2]) as f:
            prompts = [a["prompt"] for a in json.load(f)]
        found = answers(arguments[1], prompts)
        with open(arguments[2], "w") as f:
            json.dump(found, f)
    else:
        os.makedirs(arguments[2], exist_ok=True)
        params, state = read_checkpoint(arguments[0])
        export(params, state, arguments[1], 512, os.path.join(arguments[2], "model.pte"))


if __name__ == "__main__":
    main(sys.argv[1:])
