#!/usr/bin/env python3
"""Runs `train --dry-run`, `config activations`, `config show --mesh`, `config trace`, `simulate run.toml` and
`plan explain` with random extreme settings, and checks that each is answered or refused in time and memory.

  scripts/extremes.py [--count 200] [--seed 0] [--seconds 2] [--megabytes 1024] [--busy] [--sextant build/sextant]

Sizes are drawn on a logarithmic scale up to the largest value of `sextant config keys`. Most draws are
legal: divisors are respected, so that the commands do not stop at the first check. A command must exit
with 0 (answered), 2 (refused setting), 3 (does not fit) or 4 (its sequences are longer than the corpus); the time includes its start. With --busy, for a
machine that other programs use too, it is the CPU time of all threads of the command.
"""
import argparse
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

SCHEDULES = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v",
             "zb-auto", "v-half", "v-min", "dualpipe", "dualpipe-v"]
# Layers, heads and sequence length.
PRESETS = {"gpt2-124m": (12, 12, 1024), "gpt3-175b": (96, 96, 2048), "llama-8b": (32, 32, 8192),
           "llama-70b": (80, 64, 8192), "llama-405b": (126, 128, 8192), "qwen3-0.6b": (28, 16, 32768),
           "qwen3-32b": (64, 64, 32768)}
MOST_RANKS = 2**20
LARGEST = 2**31 - 1
ANSWERED, REFUSED, TOO_LARGE, NO_DATA = 0, 2, 3, 4


def scale(rng, most, least=1):
    """An integer from least to most, its logarithm evenly distributed; sometimes exactly an end."""
    if rng.random() < 0.1:
        return rng.choice([least, most])
    return min(most, max(least, round(least * (most / least) ** rng.random())))


def power(rng, most):
    """A power of two up to most, often 1."""
    if rng.random() < 0.4 or most < 2:
        return 1
    return 2 ** rng.randrange(0, int(most).bit_length())


def draw_model(rng):
    if rng.random() < 0.5:
        preset = rng.choice(sorted(PRESETS))
        layers, heads, seq = PRESETS[preset]
        out = {"model.preset": preset}
        if rng.random() < 0.2:
            layers = out["model.layers"] = scale(rng, 4096)
        if rng.random() < 0.3:
            seq = out["model.seq"] = 2 ** rng.randrange(6, 24)
        return out, layers, heads, seq
    family = rng.choice(["gpt2", "llama", "qwen3", "mixtral", "qwen3-moe"])
    layers = scale(rng, 4096)
    heads = 2 ** rng.randrange(0, 13)
    head_dim = 2 * scale(rng, 128)
    seq = 2 ** rng.randrange(0, 24)
    kv_heads = heads if family == "gpt2" else max(1, heads // 2 ** rng.randrange(0, 4))
    out = {"model.family": family, "model.layers": layers, "model.heads": heads,
           "model.kv_heads": kv_heads, "model.head_dim": head_dim, "model.hidden": heads * head_dim,
           "model.vocab": scale(rng, LARGEST, 256), "model.seq": seq}
    if family in ("mixtral", "qwen3-moe"):
        out["model.experts"] = 2 ** rng.randrange(0, 13)
        out["model.experts_per_token"] = min(out["model.experts"], scale(rng, 64))
        out["model.expert_ffn"] = 2 ** rng.randrange(0, 12)
    else:
        out["model.ffn"] = heads * 2 ** rng.randrange(0, 9)
    return out, layers, heads, seq


def draw(rng):
    """Settings of a run. One in ten is drawn without regard to what divides what."""
    is_free = rng.random() < 0.1
    out, layers, heads, seq = draw_model(rng)
    most = {"tp": heads, "cp": max(1, seq // 2), "dp": 4096, "shard": 4096, "pp": layers + 2}
    left = MOST_RANKS
    for axis in rng.sample(sorted(most), len(most)):
        largest = 128 if axis == "pp" else 4096
        degree = scale(rng, largest) if is_free else power(rng, min(largest, left, most[axis]))
        if axis == "pp" and not is_free and rng.random() < 0.3:
            degree = scale(rng, min(largest, left, most[axis]))
        left = max(1, left // degree)
        if degree > 1:
            out[f"parallel.{axis}"] = degree
    if "model.experts" in out:
        out["parallel.ep"] = power(rng, min(out["model.experts"], MOST_RANKS // left))
        stage = math.prod(out.get(f"parallel.{axis}", 1) for axis in ("tp", "cp", "dp", "shard"))
        most_parts = min(64, out["model.expert_ffn"], stage // out["parallel.ep"])  # 64: a domain of GPUs
        out["parallel.etp"] = power(rng, max(1, most_parts))
    if "parallel.tp" in out and rng.random() < 0.6:
        out["parallel.tp_overlap"] = "true"
    if "parallel.cp" in out:
        out["parallel.cp_kind"] = rng.choice(["ring", "ring", "ulysses", "allgather", "ring+ulysses"])
    if "parallel.shard" in out:
        out["parallel.zero"] = rng.randrange(1, 4)
    pp = out.get("parallel.pp", 1)
    if pp > 1:
        out["parallel.schedule"] = rng.choice(SCHEDULES)
        out["parallel.split"] = "balanced" if rng.random() < 0.8 else "even"
        if out["parallel.schedule"] in ("interleaved", "looped-bfs", "interleaved-zb"):
            out["parallel.chunks"] = max(2, power(rng, (layers + 2) // pp))
        if rng.random() < 0.3:
            out["optim.post_validation"] = "true"
    data_ranks = out.get("parallel.dp", 1) * out.get("parallel.shard", 1)
    most_micros = LARGEST // data_ranks if is_free else max(1, 2**20 // (2 * layers + 2))
    micros = scale(rng, max(1, most_micros // pp)) * pp if rng.random() < 0.7 else pp * rng.choice([2, 4, 8])
    most_sequences = min(64, LARGEST // (micros * data_ranks), 2**21 * out.get("parallel.cp", 1) // seq)
    out["batch.micro"] = scale(rng, LARGEST if is_free else max(1, most_sequences))
    out["batch.accumulation"] = min(LARGEST, micros)
    out["memory.recompute"] = rng.choice(["none", "selective", "full"])
    if rng.random() < 0.3:
        out["train.eval_every"] = 10
        out["train.eval_batches"] = scale(rng, 10**12)
    if rng.random() < 0.3:
        out["memory.logits"] = "chunked"
    if rng.random() < 0.5:
        out["precision.compute"] = rng.choice(["bf16", "fp16"])
    if rng.random() < 0.2:
        out["memory.recompute"] = "cheap"
    elif out["memory.recompute"] == "full" and rng.random() < 0.3:
        out["memory.recompute_layers"] = scale(rng, layers)
    if rng.random() < 0.2:
        out["memory.offload"] = rng.choice(["activations", "optimizer", "both"])
    out["run.memory_limit"] = "1TiB"
    return out


def run(command, kill_after, most_bytes):
    """Exit code, seconds, CPU seconds, peak bytes and last line of a command."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryFile() as text:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT, preexec_fn=limit)
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > kill_after or resident(child.pid) > 4 * most_bytes:
                child.kill()
                _, status, usage = os.wait4(child.pid, 0)
                break
            time.sleep(0.005)
        seconds = time.monotonic() - start
        child.returncode = 0  # already waited for
        text.seek(0, os.SEEK_END)
        text.seek(max(0, text.tell() - 2000))
        lines = text.read().decode(errors="replace").strip().splitlines()
    code = os.waitstatus_to_exitcode(status)
    return code, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, lines[-1] if lines else ""


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--sextant", default="build/sextant")
    arguments = parser.parse_args()
    most_bytes = arguments.megabytes << 20
    failures, counts, slowest, largest = 0, {}, {}, {}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as empty:
        commands = {"train --dry-run": ["train", "--dry-run"],
                    "config activations": ["config", "activations"],
                    "config show --mesh": ["config", "show", "--mesh"],
                    "config trace": ["config", "trace"],
                    "simulate run.toml": ["simulate", empty.name, "--flops=1e15", "--bandwidth=3e12"],
                    "plan explain": ["plan", "explain", empty.name]}
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            rng = random.Random(seed)
            drawn = draw(rng)
            settings = [f"--{key}={value}" for key, value in drawn.items()]
            if rng.random() < 0.3:
                settings.append("--json")
            ranks = math.prod(drawn.get(f"parallel.{axis}", 1) for axis in ("tp", "cp", "dp", "shard", "pp"))
            for name, words in commands.items():
                if name == "plan explain":
                    words = words + [f"--cluster={ranks}xH100"]
                code, seconds, cpu, peak, last = run([arguments.sextant, *words, *settings],
                                                     10 * arguments.seconds, most_bytes)
                counts[name, code] = counts.get((name, code), 0) + 1
                if arguments.busy and code >= 0:
                    seconds = min(seconds, cpu)
                slowest[name] = max(slowest.get(name, (0, 0)), (seconds, seed))
                largest[name] = max(largest.get(name, (0, 0)), (peak, seed))
                if (code in (ANSWERED, REFUSED, TOO_LARGE, NO_DATA) and seconds <= arguments.seconds
                        and peak <= most_bytes):
                    continue
                failures += 1
                print(f"seed {seed}: exit code {code}, {seconds:.2f} s ({cpu:.2f} s of CPU), "
                      f"{peak >> 20} MiB: {last}\n  {arguments.sextant} {' '.join(words + settings)}",
                      flush=True)
    for name in slowest:
        codes = ", ".join(f"{count} exit with {code}" for (other, code), count in sorted(counts.items())
                          if other == name)
        print(f"{name}: {codes}; slowest {slowest[name][0]:.2f} s (seed {slowest[name][1]}), "
              f"largest {largest[name][0] >> 20} MiB (seed {largest[name][1]})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
