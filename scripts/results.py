#!/usr/bin/env python3
"""Whether a program trains to the same bits as another did.

  scripts/results.py record --out tests/results/baseline.json    runs all cases, writes what they gave
  scripts/results.py compare tests/results/baseline.json         runs them again, prints what differs

Of each case these are kept: loss and gradient norm of every step, losses of evaluations, and digests
of weights and optimizer state after the last step. Bits depend on the compiler and on the vector
instructions that the kernels use, so compare on a machine of the same kind.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Configurations run for 20 steps, but for these: long ones take fewer, and a warm-up must not be
# longer than the run.
LIMITED = {
    "tiny": "train.steps=20 batch.global=16 optim.lr=3e-3 optim.warmup=20 optim.min_lr=3e-4 optim.beta2=0.95",
    "gpt2-s": "train.steps=5 optim.warmup=2",
    "gpt2-124m": "train.steps=1 optim.warmup=0 batch.global=8 data.format=nanogpt",
}

# Besides the configurations: a preset and settings. All have sequences of 32 tokens, 20 steps, 8
# samples a step and lr 3e-3 unless they say otherwise.
BASE = "model.seq=32 train.steps=20 batch.global=8 optim.lr=3e-3"
PP4 = "parallel.pp=4 batch.micro=1"
LAYOUTS = {
    # One rank: families, losses, optimizers, data.
    "gpt2": "tiny",
    "gpt2-untied": "tiny model.tied=false model.gelu_exact=true",
    "gpt2-dropout": "tiny model.dropout=0.1",
    "gpt2-chunked-z-loss": "tiny memory.logits=chunked train.z_loss=1e-3",
    "gpt2-sgd-momentum-linear": "tiny optim.name=sgd optim.lr=0.1 optim.momentum=0.9 optim.schedule=linear optim.min_lr=0.01",
    "llama": "tiny-llama",
    "llama-untied": "tiny-llama model.tied=false",
    "llama-accumulation": "tiny-llama batch.micro=2 batch.accumulation=4",
    "llama-dropout-z-loss": "tiny-llama model.dropout=0.1 train.z_loss=1e-3",
    "llama-sgd-constant-no-clip": "tiny-llama optim.name=sgd optim.lr=0.05 optim.schedule=constant optim.clip=0",
    "llama-wsd-eval": "tiny-llama optim.schedule=wsd optim.warmup=5 optim.wsd_decay=0.5 train.eval_every=6 train.eval_batches=3",
    "llama-rope-scaled": "tiny-llama model.rope_factor=8 model.rope_original_seq=16 data.document_mask=false train.seed=7",
    "qwen3": "tiny-qwen3",
    "qwen3-untied-synthetic": "tiny-qwen3 model.tied=false data.kind=synthetic",
    # Experts: qwen3-moe over a bidirectional and an interleaved pipeline, mixtral with hybrid sharding.
    "pp2-ep2-shard4-dualpipe": "tiny-qwen3-moe model.seq=64 batch.global=16 batch.micro=1 optim.warmup=10 parallel.pp=2 parallel.schedule=dualpipe parallel.shard=4 parallel.zero=1 parallel.ep=2 train.balance_loss=1e-4",
    "pp2-ep4-shard4-interleaved": "tiny-qwen3-moe model.seq=64 batch.global=16 batch.micro=1 optim.warmup=10 parallel.pp=2 parallel.schedule=interleaved parallel.chunks=2 parallel.shard=4 parallel.zero=1 parallel.ep=4 train.balance_loss=1e-3",
    "mixtral-hsdp-zero3": "tiny-mixtral model.seq=64 batch.global=16 batch.micro=2 optim.warmup=10 parallel.dp=2 parallel.shard=4 parallel.zero=3 train.balance_loss=0.01",
    # Data ranks.
    "dp2-dropout": "tiny parallel.dp=2 model.dropout=0.1",
    "dp3-uneven-batch": "tiny-llama parallel.dp=3 batch.accumulation=2",
    "shard2-zero1": "tiny parallel.shard=2 parallel.zero=1 train.eval_every=10",
    "shard2-zero2": "tiny-llama parallel.shard=2 parallel.zero=2 batch.micro=1",
    "shard3-zero3": "tiny-llama parallel.shard=3 parallel.zero=3 model.tied=false batch.global=9 batch.micro=1",
    "shard4-zero3-sgd": "tiny parallel.shard=4 parallel.zero=3 optim.name=sgd optim.momentum=0.9",
    "hsdp-zero1": "tiny parallel.dp=2 parallel.shard=2 parallel.zero=1 batch.micro=1",
    "hsdp-zero2-dropout": "tiny-llama parallel.dp=2 parallel.shard=2 parallel.zero=2 batch.micro=1 model.dropout=0.1",
    "hsdp-zero3": "tiny-qwen3 parallel.dp=2 parallel.shard=2 parallel.zero=3 batch.micro=1",
    # Tensor ranks.
    "tp2": "tiny parallel.tp=2 model.dropout=0.1 train.eval_every=10",
    "tp4-all-tokens": "tiny-llama parallel.tp=4 parallel.sequence=false",
    "tp2-overlap": "tiny-llama parallel.tp=2 parallel.tp_overlap=true",
    "tp4-overlap-chunked": "tiny-qwen3 parallel.tp=4 parallel.tp_overlap=true memory.logits=chunked",
    "tp8-above-kv-heads": "tiny-llama parallel.tp=8 model.tied=false",
    "tp8-above-kv-heads-all-tokens": "tiny-qwen3 parallel.tp=8 parallel.sequence=false train.z_loss=1e-3",
    "tp4-odd-vocab": "tiny model.vocab=300 parallel.tp=4 model.tied=false",
    "tp2-shard2-zero3": "tiny-qwen3 parallel.tp=2 parallel.shard=2 parallel.zero=3",
    # Context ranks.
    "cp2-ring": "tiny-llama parallel.cp=2 train.eval_every=10",
    "cp4-ring-dropout": "tiny parallel.cp=4 model.dropout=0.1",
    "cp4-ring-one-document": "tiny-qwen3 parallel.cp=4 data.document_mask=false",
    "cp4-ulysses": "tiny parallel.cp=4 parallel.cp_kind=ulysses",
    "cp8-ulysses-above-kv-heads": "tiny-llama parallel.cp=8 parallel.cp_kind=ulysses",
    "cp4-allgather": "tiny-llama parallel.cp=4 parallel.cp_kind=allgather model.tied=false",
    "cp4-ring-of-ulysses": "tiny-qwen3 parallel.cp=4 parallel.cp_kind=ring+ulysses parallel.ulysses=2",
    "cp2-tp2-overlap": "tiny-llama parallel.cp=2 parallel.tp=2 parallel.tp_overlap=true",
    "cp2-shard2-zero2": "tiny-llama parallel.cp=2 parallel.shard=2 parallel.zero=2 batch.micro=2",
    # Pipelines: every schedule, then splits and late verdicts.
    "pp4-gpipe": f"tiny-llama {PP4} parallel.schedule=gpipe",
    "pp4-1f1b": f"tiny {PP4} parallel.schedule=1f1b model.dropout=0.1",
    "pp4-interleaved": f"tiny-llama {PP4} parallel.schedule=interleaved parallel.chunks=2",
    "pp4-looped-bfs": f"tiny-qwen3 {PP4} parallel.schedule=looped-bfs parallel.chunks=2",
    "pp4-zb-h1": f"tiny-llama {PP4} parallel.schedule=zb-h1 model.tied=false",
    "pp4-zb-h2": f"tiny-qwen3 {PP4} parallel.schedule=zb-h2",
    "pp4-interleaved-zb": f"tiny-llama {PP4} parallel.schedule=interleaved-zb parallel.chunks=2 train.eval_every=10",
    "pp4-zb-auto": f"tiny {PP4} parallel.schedule=zb-auto",
    "pp4-zb-v": f"tiny-llama {PP4} parallel.schedule=zb-v",
    "pp4-v-half": f"tiny-llama {PP4} parallel.schedule=v-half model.dropout=0.1",
    "pp4-v-min": f"tiny-qwen3 {PP4} parallel.schedule=v-min model.tied=false",
    "pp4-dualpipe": f"tiny-llama {PP4} parallel.schedule=dualpipe",
    "pp4-dualpipe-v": f"tiny-llama {PP4} parallel.schedule=dualpipe-v memory.logits=chunked",
    "pp3-balanced": "tiny-llama parallel.pp=3 parallel.split=balanced batch.micro=1",
    "pp4-listed-split": f"tiny-llama {PP4} parallel.split=3,2,2,1 model.tied=false train.z_loss=1e-3",
    "pp4-post-validation": f"tiny-llama {PP4} parallel.schedule=zb-h1 optim.post_validation=true optim.clip=1.6",
    "pp4-post-validation-never-clipped": f"tiny {PP4} optim.post_validation=true optim.clip=1e6 optim.schedule=linear",
    "pp2-shard2-post-validation": "tiny-llama parallel.pp=2 parallel.schedule=zb-v parallel.shard=2 parallel.zero=3 batch.micro=1 optim.post_validation=true optim.clip=1.6 train.eval_every=8",
    # Products.
    "pp2-dp2-dualpipe": "tiny-llama parallel.pp=2 parallel.dp=2 parallel.schedule=dualpipe batch.micro=1 model.tied=false",
    "pp2-tp2-cp2": "tiny-llama parallel.pp=2 parallel.tp=2 parallel.cp=2 batch.micro=2",
    "pp2-tp2-shard2-zero3": "tiny-qwen3 parallel.pp=2 parallel.schedule=zb-h1 parallel.tp=2 parallel.shard=2 parallel.zero=3 batch.micro=1",
    "dp2-shard2-tp2": "tiny parallel.dp=2 parallel.shard=2 parallel.zero=2 parallel.tp=2 parallel.sequence=false model.dropout=0.1",
    "dp2-cp2-pp2-post-validation": "tiny-llama parallel.dp=2 parallel.cp=2 parallel.cp_kind=allgather parallel.pp=2 batch.micro=1 optim.post_validation=true optim.clip=1.6",
    "pp2-shard2-tp2-cp2-interleaved-zb": "tiny-llama parallel.pp=2 parallel.schedule=interleaved-zb parallel.chunks=2 parallel.shard=2 parallel.zero=2 parallel.tp=2 parallel.tp_overlap=true parallel.cp=2 parallel.cp_kind=ulysses batch.micro=1 memory.logits=chunked",
    "pp2-cp4-shard2-interleaved": "tiny-llama model.seq=64 batch.global=16 batch.micro=2 optim.warmup=20 optim.min_lr=3e-4 parallel.pp=2 parallel.schedule=interleaved parallel.chunks=2 parallel.shard=2 parallel.zero=2 parallel.cp=4",
    "all-five-axes": "tiny-llama parallel.pp=2 parallel.dp=2 parallel.shard=2 parallel.zero=3 parallel.tp=2 parallel.cp=2 batch.micro=1 model.dropout=0.1",
}


def all_cases():
    """Name, configuration file or None, overrides."""
    for path in sorted((ROOT / "configs").glob("*.toml")):
        yield f"configs/{path.stem}", path, LIMITED.get(path.stem, "train.steps=20").split()
    for name, settings in LAYOUTS.items():
        own = ["model.preset=" + settings.split()[0], *settings.split()[1:]]
        set_here = {setting.split("=")[0] for setting in own}
        yield name, None, own + [s for s in BASE.split() if s.split("=")[0] not in set_here]


def write_tokens(path):
    """Tokens for configurations that name a file: 16-bit ids of GPT-2, no head (nanoGPT)."""
    path.parent.mkdir()
    ids, state = [], 1
    for _ in range(100_000):
        state = (state * 1103515245 + 12345) % 2**31
        ids.append((state >> 8) % 50257)
    path.write_bytes(struct.pack(f"<{len(ids)}H", *ids))


def read_safetensors(path):
    """The bytes of each tensor."""
    data = memoryview(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(bytes(data[8 : 8 + length]))
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}


def assembled(shape, slices, files):
    """The bytes of a global tensor, in row-major order, from slices cut in any way."""
    parts = [(s["start"], s["size"], files[s["file"]][s["tensor"]]) for s in slices]
    if len(parts) == 1:
        return parts[0][2]
    width = sum(len(data) for _, _, data in parts) // math.prod(shape)
    whole = bytearray(width * math.prod(shape))
    for start, size, data in parts:
        run = size[-1] * width
        for k, index in enumerate(itertools.product(*map(range, size[:-1]))):
            at = 0
            for begin, i, extent in zip(start, [*index, 0], shape):
                at = at * extent + begin + i
            whole[at * width : at * width + run] = data[k * run : (k + 1) * run]
    return whole


def digests(checkpoints):
    """SHA-256 over names, shapes and bytes of all tensors, and 4 digits of each one's own."""
    directory = checkpoints / (checkpoints / "latest").read_text().strip()
    manifest = json.loads((directory / "manifest.json").read_text())
    files = {f["name"]: read_safetensors(directory / f["name"]) for f in manifest["files"]}
    tensors = sorted(manifest["tensors"], key=lambda tensor: tensor["name"])
    total, marks = hashlib.sha256(), []
    for tensor in tensors:
        data = assembled(tensor["shape"], tensor["slices"], files)
        total.update(f"{tensor['name']} {tensor['dtype']} {tensor['shape']}\n".encode())
        total.update(data)
        marks.append(hashlib.sha256(data).hexdigest()[:4])
    return total.hexdigest(), " ".join(marks), [tensor["name"] for tensor in tensors]


def run(program, case, extra):
    """What a case gave, and the names of its tensors."""
    name, config, overrides = case
    result = {"name": name, "overrides": " ".join(overrides)}
    with tempfile.TemporaryDirectory(prefix="results-") as place:
        out = pathlib.Path(place)
        if config:
            write_tokens(out / "data" / "train.tokens")
        options = [*overrides, "run.out=run", "run.tensorboard=false", "run.peak_flops=1e9", *extra]
        command = [program, "train", *([config] if config else []), "-q", *("--" + o for o in options)]
        done = subprocess.run(command, cwd=out, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [""]
            return {**result, "exit": done.returncode, "error": lines[-1]}, []
        lines = (out / "run/metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines]
        sha, marks, names = digests(out / "run/checkpoints")
    result["loss"] = [step["loss"] for step in steps]
    result["grad_norm"] = [step["grad_norm"] for step in steps]
    evals = {str(step["step"]): step["eval_loss"] for step in steps if "eval_loss" in step}
    if evals:
        result["eval_loss"] = evals
    return {**result, "sha256": sha, "tensors": marks}, names


def run_all(args, report):
    program = pathlib.Path(args.program).resolve()
    if not program.is_file():
        sys.exit(f"error: no program {args.program}: scripts/build.sh makes build/sextant")
    cases = [case for case in all_cases() if args.only in case[0]]
    if not cases:
        sys.exit(f"error: no case has '{args.only}' in its name")
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = pool.map(lambda case: run(program, case, args.set), cases)
        for result, names in jobs:
            report(result, names)
    return len(cases), time.monotonic() - begin


def vectors():
    """The vector instructions that the kernels choose here."""
    try:
        return "avx512" if "avx512dq" in pathlib.Path("/proc/cpuinfo").read_text() else "avx2"
    except OSError:
        return "unknown"


def record(args):
    lines = []

    def report(result, _):
        lines.append(json.dumps(result, separators=(",", ":")))
        if "exit" in result:
            print(f"{result['name']}: exit code {result['exit']}: {result['error']}")

    count, seconds = run_all(args, report)
    note = "; ".join(f"{name}: {what}" for name, what in LIMITED.items())
    head = f'"vectors":{json.dumps(vectors())},"limited":{json.dumps(note)}'
    text = "{" + head + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n"
    if args.out:
        path = pathlib.Path(args.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    else:
        sys.stdout.write(text)
    print(f"{count} cases recorded in {seconds:.0f} s", file=sys.stderr)
    return 0


def differences(old, new, names):
    """Sentences that say how a case differs, none where it does not."""
    if "exit" in old or "exit" in new:
        if (old.get("exit", 0), old.get("error")) != (new.get("exit", 0), new.get("error")):
            yield f"exit code {new.get('exit', 0)} {new.get('error', '')}, was {old.get('exit', 0)} {old.get('error', '')}"
        return
    for key, word in ("loss", "loss"), ("grad_norm", "gradient norm"):
        if len(old[key]) != len(new[key]):
            yield f"{len(new[key])} steps, were {len(old[key])}"
        apart = [i for i, (a, b) in enumerate(zip(old[key], new[key])) if a != b]
        if apart:
            i = apart[0]
            yield f"{word} from step {i + 1} on, in {len(apart)} of {len(new[key])}: {new[key][i]!r}, was {old[key][i]!r}"
    before, after = old.get("eval_loss", {}), new.get("eval_loss", {})
    for step in sorted({*before, *after}, key=int):
        if before.get(step) != after.get(step):
            yield f"evaluation after step {step}: {after.get(step)!r}, was {before.get(step)!r}"
    if old["sha256"] != new["sha256"]:
        was, now = old["tensors"].split(), new["tensors"].split()
        apart = [name for name, a, b in zip(names, was, now) if a != b]
        if len(was) != len(now):
            yield f"{len(now)} tensors in the checkpoint, were {len(was)}"
        elif apart:
            yield f"{len(apart)} of {len(now)} tensors: {', '.join(apart[:4])}{', …' if len(apart) > 4 else ''}"
        else:
            yield "names, types or shapes of tensors; their bytes are the same"


def compare(args):
    baseline = json.loads(pathlib.Path(args.file).read_text())
    old = {case["name"]: case for case in baseline["cases"] if args.only in case["name"]}
    if baseline["vectors"] != vectors():
        print(f"note: recorded with {baseline['vectors']}, this machine has {vectors()}")
    different = []

    def report(result, names):
        name = result["name"]
        was = old.pop(name, None)
        found = list(differences(was, result, names)) if was else ["is not in the file"]
        if found:
            different.append(name)
            if was and was["overrides"] != result["overrides"]:
                found.append(f"(its settings are others: {result['overrides']}, were {was['overrides']})")
            print("\n  ".join([name + ":", *found]), flush=True)

    count, seconds = run_all(args, report)
    for name in old:
        different.append(name)
        print(f"{name}:\n  is in the file, but no case has this name")
    verdict = f"{len(different)} differ" if different else "all have the same bits"
    print(f"{count} cases in {seconds:.0f} s: {verdict}")
    return 1 if different else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--program", default=ROOT / "build/sextant", help="default: build/sextant")
    common.add_argument("--only", default="", metavar="TEXT", help="cases with this in their names")
    common.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (default 1)")
    common.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="one more setting for all cases, such as run.threads=1")
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", parents=[common], help="run the cases, write what they gave")
    recorder.add_argument("--out", metavar="FILE", help="default: stdout")
    recorder.set_defaults(work=record)
    comparer = commands.add_parser("compare", parents=[common], help="run the cases, print what differs")
    comparer.add_argument("file", metavar="FILE")
    comparer.set_defaults(work=compare)
    args = parser.parse_args()
    return args.work(args)


if __name__ == "__main__":
    sys.exit(main())
