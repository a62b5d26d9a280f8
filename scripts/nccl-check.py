#!/usr/bin/env python3
"""Training over NCCL against training over threads, on the GPUs of this machine.

  scripts/nccl-check.py OUT [--mps] [--program build/sextant] [--layouts dp,zero3] [--starts threads,mpirun]

Each layout trains 20 steps over run.transport = threads, then over nccl: as threads of one process, under
mpirun and under torchrun. With sums in rank order, losses, gradient norms and all tensors of the checkpoint
must have the same bits; the column `fast` is train.reductions = fast, whose losses may differ by rounding.
Then `verify` over NCCL, with sums in either order, and faults: a rank that stops, a rank that is killed, a rank that never comes. Prints a table; exits 1 if
anything is wrong. Where there are fewer GPUs than ranks, the ranks share them, which NCCL 2.30 allows
(LD_LIBRARY_PATH says which library is loaded); --mps starts NVIDIA's MPS, without which processes that share
a GPU take turns.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

RANKS = 8
STEPS = 20
LLAMA, EXPERTS = "configs/llama-tiny.toml", "configs/experts.toml"
LAYOUTS = {
    "dp": (LLAMA, "dp=8"),
    "zero1": (LLAMA, "shard=8 zero=1"),
    "zero2": (LLAMA, "shard=8 zero=2"),
    "zero3": (LLAMA, "shard=8 zero=3"),
    "tp+sequence": (LLAMA, "tp=4 sequence=true dp=2"),
    "cp ring": (LLAMA, "cp=4 cp_kind=ring dp=2"),
    "pp 1f1b": (LLAMA, "pp=4 schedule=1f1b dp=2"),
    "pp zb-v": (LLAMA, "pp=2 schedule=zb-v dp=4"),
    "ep": (EXPERTS, "dp=8 ep=4"),
    "ep.etp": (EXPERTS, "dp=8 ep=2 etp=2"),
    "ep in nodes": (EXPERTS, "dp=8 ep=4 ep_node=2"),
    "shard.tp.pp.ep": (EXPERTS, "dp=1 shard=2 zero=2 tp=2 pp=2 ep=2"),
    "shard.cp.pp.ep": (EXPERTS, "dp=1 shard=2 zero=1 cp=2 cp_kind=ring pp=2 schedule=zb-h1 ep=2"),
}
# Compared with one rank by `verify`.
VERIFIED = {
    "zero2": (LLAMA, "shard=4 zero=2"),
    "tp+sequence": (LLAMA, "tp=2 sequence=true dp=2"),
    "pp": (LLAMA, "pp=2 dp=2"),
    "ep.etp": (EXPERTS, "dp=4 ep=2 etp=2"),
}
# A fast sum rounds otherwise; over 20 steps of these models the losses stay this close.
FAST_TOLERANCE = 2e-3


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Check:
    def __init__(self, arguments):
        self.out = pathlib.Path(arguments.out).resolve()
        self.program = str(pathlib.Path(arguments.program).resolve())
        self.environment = dict(os.environ)
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NO_COLOR="1",
                                NCCL_MULTI_RANK_GPU_ENABLE="1", OMP_NUM_THREADS="1")
        self.wrong = []

    def command(self, config, layout, out, extra):
        words = [self.program, "train", config, "--run.device=cuda", "--batch.global=16", "--batch.micro=2",
                 "--train.eval_every=0", f"--train.steps={STEPS}", "--run.tensorboard=false",
                 "--fault.deadline=60", f"--run.out={out}"]
        return words + [f"--parallel.{key}" for key in layout.split()] + extra

    @staticmethod
    def started(start, command):
        if start == "mpirun":
            return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS)] + command
        if start == "torchrun":
            return ["torchrun", "--no-python", f"--nproc-per-node={RANKS}", "--master-addr=127.0.0.1",
                    f"--master-port={free_port()}"] + command
        if start == "standalone":
            return ["torchrun", "--no-python", "--standalone", f"--nproc-per-node={RANKS}"] + command
        return command

    def run(self, name, start, command, seconds=300):
        """Returns exit status, output and seconds."""
        begin = time.monotonic()
        with open(self.out / f"{name}.log", "w") as log:
            process = subprocess.Popen(self.started(start, command), stdout=log, stderr=subprocess.STDOUT,
                                       env=self.environment, start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                status = "hang"
        return status, (self.out / f"{name}.log").read_text(errors="replace"), time.monotonic() - begin

    def results(self, out):
        metrics = [json.loads(line) for line in open(out / "metrics.jsonl")]
        tensors = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
                   for path in sorted(out.rglob("*.safetensors"))}
        return [(step["loss"], step["grad_norm"]) for step in metrics], tensors

    def train(self, name, start, config, layout, extra):
        out = self.out / name
        shutil.rmtree(out, ignore_errors=True)
        status, text, seconds = self.run(name, start, self.command(config, layout, out, extra))
        if status != 0:
            errors = [line for line in text.splitlines() if "error" in line.lower()]
            return None, f"exit {status}: {(errors or text.splitlines() or [''])[-1][:150]}", seconds
        return self.results(out), "", seconds

    def compare(self, layout_name, start, reference, extra=()):
        config, layout = LAYOUTS[layout_name]
        is_fast = "--train.reductions=fast" in extra
        name = f"{layout_name}-{'fast' if is_fast else start}".replace(" ", "-")
        result, problem, seconds = self.train(name, start, config, layout,
                                              ["--run.transport=nccl", *extra])
        if result is None:
            self.wrong.append(f"{name}: {problem}")
            return "FAILED"
        steps, tensors = result
        if len(steps) != STEPS or not tensors:
            problem = f"{len(steps)} steps, {len(tensors)} files of tensors"
        elif is_fast:
            far = max(abs(a[0] - b[0]) / abs(b[0]) for a, b in zip(steps, reference[0]))
            if far > FAST_TOLERANCE:
                problem = f"losses differ by {far:.1e}"
            elif not problem:
                return f"{far:.0e} {seconds:.0f}s"
        elif steps != reference[0]:
            first = next(i for i, pair in enumerate(zip(steps, reference[0])) if pair[0] != pair[1])
            problem = f"step {first + 1} is {steps[first]}, over threads {reference[0][first]}"
        elif tensors != reference[1]:
            problem = "tensors differ: " + ", ".join(k for k in tensors if tensors[k] != reference[1].get(k))
        if problem:
            self.wrong.append(f"{name}: {problem}")
            return "WRONG"
        return f"equal {seconds:.0f}s"

    def layouts(self, names, starts):
        print(f"{'layout':<20}{'threads':<10}" + "".join(f"{start:<16}" for start in starts + ["fast"]))
        for layout_name in names:
            config, layout = LAYOUTS[layout_name]
            name = f"{layout_name}-reference".replace(" ", "-")
            reference, problem, seconds = self.train(name, "threads", config, layout, ["--run.transport=threads"])
            if reference is None:
                self.wrong.append(f"{name}: {problem}")
                print(f"{layout_name:<20}FAILED {problem}", flush=True)
                continue
            cells = [self.compare(layout_name, start, reference) for start in starts]
            cells.append(self.compare(layout_name, "threads", reference, ["--train.reductions=fast"]))
            print(f"{layout_name:<20}{seconds:<10.0f}" + "".join(f"{cell:<16}" for cell in cells), flush=True)

    def verify(self):
        for layout_name, (config, layout) in VERIFIED.items():
            for sums in ["ordered", "fast"]:
                name = f"verify-{layout_name}-{sums}"
                command = [self.program, "verify", config, "--run.device=cuda", "--run.transport=nccl",
                           "--batch.global=16", "--batch.micro=2", f"--train.reductions={sums}", "--fault.deadline=60"]
                command += [f"--parallel.{key}" for key in layout.split()]
                status, text, seconds = self.run(name, "threads", command)
                self.expect(name, status, text, [0], ["against", " apart"], seconds)

    def expect(self, name, status, text, statuses, words, seconds):
        good = status in statuses and all(word in text for word in words)
        line = next((line for line in text.splitlines() if all(word in line for word in words)), "")
        print(f"{name:<28}{'ok' if good else 'WRONG':<7}exit {status} in {seconds:.0f} s: {line[:220]}", flush=True)
        if not good:
            self.wrong.append(f"{name}: exit {status}, expected {words}; see {name}.log")

    def faults(self, starts):
        config, layout = LAYOUTS["zero2"]
        for start in starts:
            # torchrun has exit codes of its own.
            statuses = [5] if start in ("threads", "mpirun") else [1, 5]
            for fault in ["stall", "die"]:
                if fault == "die" and start == "threads":
                    continue  # the one process
                name = f"{fault}-{start}"
                command = self.command(config, layout, self.out / name, [
                    "--run.transport=nccl", "--fault.deadline=8", f"--fault.inject={fault}:rank=3,step=2"])
                codes = statuses if fault == "stall" else statuses + [1, 137, 9]
                status, text, seconds = self.run(name, start, command, 120)
                self.expect(name, status, text, codes, ["rank 3"], seconds)
        port, name = free_port(), "never-comes"
        command = self.command(config, layout, self.out / name, ["--run.transport=nccl", "--fault.deadline=8"])
        begin, processes = time.monotonic(), []
        for rank in range(RANKS - 1):
            variables = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=RANKS, LOCAL_WORLD_SIZE=RANKS, MASTER_PORT=port)
            environment = dict(self.environment, MASTER_ADDR="127.0.0.1",
                               **{key: str(value) for key, value in variables.items()})
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.PIPE, text=True))
        for rank, process in enumerate(processes):
            text = process.communicate(timeout=120)[1]
            self.expect(f"{name}, rank {rank}", process.returncode, text, [5],
                        [f"rank {RANKS - 1} of {RANKS} did not come"], time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--program", default="build/sextant")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--starts", default="threads,mpirun,torchrun")
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--no-faults", action="store_true")
    arguments = parser.parse_args()
    check = Check(arguments)
    check.out.mkdir(parents=True, exist_ok=True)
    starts = [start for start in arguments.starts.split(",")
              if start == "threads" or shutil.which("torchrun" if start == "standalone" else start)]
    if arguments.mps:
        for variable, folder in [("CUDA_MPS_PIPE_DIRECTORY", "mps"), ("CUDA_MPS_LOG_DIRECTORY", "mps-log")]:
            (check.out / folder).mkdir(exist_ok=True)
            check.environment[variable] = str(check.out / folder)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=check.environment, check=True)
    try:
        check.layouts(arguments.layouts.split(","), starts)
        if not arguments.no_verify:
            check.verify()
        if not arguments.no_faults:
            check.faults(starts)
    finally:
        if arguments.mps:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=check.environment)
    for problem in check.wrong:
        print("WRONG", problem)
    print("nccl-check:", "all right" if not check.wrong else f"{len(check.wrong)} wrong")
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
