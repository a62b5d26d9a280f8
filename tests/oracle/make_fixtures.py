"""Makes tests/oracle/fixtures/: what PyTorch and transformers compute for tiny random models.

  python3 tests/oracle/make_fixtures.py OUT [--sextant build/sextant]

For each family: <family>/ is the model as transformers saves it, <family>.safetensors holds tokens,
targets, logits and gradients of the first batch and the losses of ten AdamW steps; of the families
without experts autocast_<family>.safetensors has the gradients under bf16 autocast, autocast_fp16_<family>.safetensors those under
fp16 autocast. With --sextant,
ours_<family>.safetensors holds the logits that transformers computes for a model that Sextant drew
and exported. versions.json says what made them.
"""
import argparse
import copy
import json
import pathlib
import subprocess
import tempfile

import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file

import models

FP16_SCALE = 1024  # that of tests/oracle_test.cpp
# The model that Sextant draws, by family.
OURS = {
    "gpt2": dict(family="gpt2", layers=2, hidden=32, heads=4),
    "llama": dict(family="llama", layers=2, hidden=32, heads=4, kv_heads=2, ffn=56, tied=False),
    "llama_biased": dict(family="llama", layers=2, hidden=32, heads=4, kv_heads=2, head_dim=12,
                         ffn=56, attention_bias=True, mlp_bias=True, rope_factor=4,
                         rope_type="yarn", rope_original_seq=12, tied=True),
    "mistral": dict(family="mistral", layers=2, hidden=32, heads=4, kv_heads=2, ffn=56,
                    sliding_window=7, tied=False),
    "qwen2": dict(family="qwen2", layers=2, hidden=32, heads=4, kv_heads=1, ffn=48, rope_factor=2,
                  rope_type="linear", tied=True),
    "qwen3": dict(family="qwen3", layers=2, hidden=32, heads=4, kv_heads=1, head_dim=16, ffn=48,
                  tied=True),
    "mixtral": dict(family="mixtral", layers=2, hidden=32, heads=4, kv_heads=2, experts=5,
                    experts_per_token=2, expert_ffn=24, tied=False),
    "qwen3_moe": dict(family="qwen3-moe", layers=2, hidden=32, heads=4, kv_heads=1, head_dim=16,
                      experts=6, experts_per_token=3, expert_ffn=16, router="softmax-before",
                      tied=False),
    "deepseek_v3": dict(family="deepseek-moe", layers=3, hidden=32, heads=4, head_dim=16,
                        q_lora_rank=20, kv_lora_rank=12, qk_rope_head_dim=6, v_head_dim=8,
                        ffn=48, experts=8, experts_per_token=3, expert_ffn=16, shared_experts=2,
                        dense_layers=1, router="sigmoid", router_groups=4, groups_per_token=2,
                        router_scale=2.5, tied=False),
}


def toml_of(family):
    sizes = dict(OURS[family], vocab=256, seq=models.SEQ, init_std=0.2)
    lines = ["[model]"] + [f"{key} = {json.dumps(value)}" for key, value in sizes.items()]
    # A step of rate 0 leaves the weights as they were drawn.
    rates = ["lr = 0", "weight_decay = 0"]
    if sizes.get("router") == "sigmoid":
        rates.append("router_bias_rate = 0")
    return "\n".join(lines + ["[optim]"] + rates + ["[train]", "steps = 1", "seed = 5", "[batch]",
                                                    "global = 1", ""])


def gradients(model):
    """Under the names and in the layout in which the weights are saved."""
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for into, parameter in zip(copied.parameters(), model.parameters()):
            into.copy_(parameter.grad)
    with tempfile.TemporaryDirectory() as folder:
        copied.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def theirs(family, out):
    model = models.make(family)
    model.save_pretrained(out / family)
    (out / family / "generation_config.json").unlink(missing_ok=True)
    tokens, targets = models.batches()
    loss, logits = models.loss_of(model, tokens[0], targets[0])
    loss.backward()
    tensors = {"tokens": tokens.to(torch.int32), "targets": targets.to(torch.int32),
               "logits": logits.detach().contiguous(), "loss": loss.detach().reshape(1)}
    for name, gradient in gradients(model).items():
        tensors["grad." + name] = gradient
    model.zero_grad(set_to_none=True)
    tensors["losses"] = torch.tensor(models.train_losses(model, tokens, targets),
                                     dtype=torch.float64)
    save_file(tensors, out / f"{family}.safetensors")


def autocast(family, out):
    """The gradients of the first batch where PyTorch chooses the ops that compute in bf16 or fp16.

    Those of fp16 are scaled while they are computed, as a gradient scaler does."""
    for prefix, dtype, scale in (("autocast", torch.bfloat16, 1),
                                 ("autocast_fp16", torch.float16, FP16_SCALE)):
        model = models.make(family)
        tokens, targets = models.batches()
        with torch.autocast("cpu", dtype=dtype):
            loss, _ = models.loss_of(model, tokens[0], targets[0])
        (loss * scale).backward()
        save_file({"grad." + name: gradient / scale
                   for name, gradient in gradients(model).items()},
                  out / f"{prefix}_{family}.safetensors")


def ours(family, out, sextant):
    config = out / f"ours_{family}.toml"
    config.write_text(toml_of(family))
    with tempfile.TemporaryDirectory() as folder:
        run, export = pathlib.Path(folder) / "run", pathlib.Path(folder) / "hf"
        subprocess.run([sextant, "train", "-q", str(config), f"--run.out={run}"], check=True)
        subprocess.run([sextant, "export", str(run / "checkpoints"), "--out", str(export)],
                       check=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            export, attn_implementation="eager", dtype=torch.float32).eval()
        tokens = models.batches()[0][0]
        with torch.no_grad():
            logits = model(input_ids=tokens).logits
        save_file({"tokens": tokens.to(torch.int32), "logits": logits.contiguous()},
                  out / f"ours_{family}.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--sextant")
    parser.add_argument("--family", choices=list(models.FAMILIES), help="this one alone")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for family in [args.family] if args.family else models.FAMILIES:
        theirs(family, args.out)
        if family in models.DENSE:
            autocast(family, args.out)
        if args.sextant:
            ours(family, args.out, args.sextant)
    versions = dict(torch=torch.__version__, transformers=transformers.__version__,
                    safetensors=safetensors.__version__)
    (args.out / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
