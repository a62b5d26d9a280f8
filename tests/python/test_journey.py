"""From text to an export that transformers loads: the ids of AutoTokenizer, and the loss and the
greedy tokens of the model where PyTorch is installed."""

import json
import os
import random

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

from program import ids_of, sextant, succeed  # noqa: E402

SEQ = 16
SAMPLES = 4
WORDS = "the lamp reads a token ship under every star, naïve 42 times".split()
PROMPT = "the lamp reads"
RUN = """
    [model]
    family = "llama"
    layers = 2
    hidden = 32
    heads = 2
    seq = 16
    [data]
    kind = "tokens"
    blend = "0.7 web/*.tokens, 0.3 code"
    [batch]
    global = 4
    [optim]
    lr = 1e-2
    [parallel]
    dp = 2
    [train]
    steps = 12
    eval_every = 6
    [checkpoint]
    every = 3
    [run]
    out = "out"
    """


def text(seed, lines):
    words = random.Random(seed)
    return "".join(" ".join(words.choices(WORDS, k=9)) + "\n" for _ in range(lines))


@pytest.fixture(name="journey", scope="module")
def exported_run(tmp_path_factory):
    """Three shards and a second source, blended; killed once; exported. Its directory."""
    home = tmp_path_factory.mktemp("journey")
    (home / "text").mkdir()
    for i in range(4):
        (home / "text" / f"{i}.txt").write_text(text(i, 150))
    succeed("data", "train-tokenizer", "text", "--vocab", 300, "--out", "made/tokenizer.json",
            cwd=home)
    for source, tokens in [("0", "web/0"), ("1", "web/1"), ("2", "web/2"), ("3", "code/c")]:
        succeed("data", "tokenize", f"text/{source}.txt", "--split", "lines", "--tokenizer",
                "made/tokenizer.json", "--out", f"{tokens}.tokens", cwd=home)
    (home / "made" / "tokenizer.json").unlink()  # the token files know it
    (home / "run.toml").write_text(RUN)
    killed = sextant("train", "run.toml", "-q", "--fault.inject=die:rank=1,step=8", cwd=home)
    assert killed.returncode != 0
    succeed("train", "run.toml", "-q", "--resume=auto", cwd=home)
    steps = [json.loads(line) for line in (home / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(1, 13))
    held_out = json.loads(succeed("eval", "out", "--json", cwd=home))
    assert [source["name"] for source in held_out["sources"]] == ["web/*.tokens", "code"]
    assert held_out["loss"] < steps[0]["loss"]
    succeed("export", "out", "--out", "hf", "--verify", cwd=home)
    return home


def generated(home, checkpoint):
    return json.loads(succeed("generate", home / checkpoint, "--prompt", PROMPT, "--tokens", 8,
                              "--temperature", 0, "--json", cwd=home / "text"))


def test_autotokenizer_gives_the_same_ids(journey):
    tokenizer = transformers.AutoTokenizer.from_pretrained(journey / "hf")
    words = text(9, 40)
    theirs = tokenizer(words, add_special_tokens=False)["input_ids"]
    assert ids_of(journey / "hf" / "tokenizer.json", [words]) == [theirs]
    assert tokenizer.decode(theirs) == words
    made = generated(journey, "out")
    assert tokenizer.decode(made["tokens"]) == made["text"]
    assert generated(journey, "hf")["tokens"] == made["tokens"]
    for checkpoint in ["out", "hf"]:
        assert generated(journey, checkpoint)["prompt_tokens"] == tokenizer(PROMPT)["input_ids"]
    config = transformers.AutoConfig.from_pretrained(journey / "hf")
    assert config.eos_token_id == tokenizer.eos_token_id is not None
    assert transformers.GenerationConfig.from_pretrained(
        journey / "hf").eos_token_id == tokenizer.eos_token_id


def test_transformers_gives_the_same_loss_and_tokens(journey, tmp_path):
    torch = pytest.importorskip("torch")
    tokenizer = transformers.AutoTokenizer.from_pretrained(journey / "hf")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        journey / "hf", attn_implementation="eager", dtype=torch.float32).eval()
    words = text(9, 40)
    (tmp_path / "words.txt").write_text(words)
    succeed("data", "tokenize", tmp_path / "words.txt", "--tokenizer", journey / "hf", "--out",
            tmp_path / "words.tokens")
    ids = torch.tensor(tokenizer(words, add_special_tokens=False)["input_ids"])
    rows = torch.stack([ids[i * SEQ:(i + 1) * SEQ + 1] for i in range(SAMPLES)])
    with torch.no_grad():
        logits = model(input_ids=rows[:, :-1]).logits
        wanted = float(torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                         rows[:, 1:].flatten()))
    for model_files in ["out", "hf"]:
        loss = json.loads(succeed("eval", journey / model_files, tmp_path / "words.tokens",
                                  "--samples", SAMPLES, "--json"))["loss"]
        assert loss == pytest.approx(wanted, rel=1e-6), model_files

    made = tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    start = len(made)
    with torch.no_grad():
        for _ in range(8):
            made.append(int(model(input_ids=torch.tensor([made])).logits[0, -1].argmax()))
    tokens = generated(journey, "out")["tokens"]
    assert tokens == made[start:start + len(tokens)]
    assert len(tokens) == 8 or made[start + len(tokens)] == tokenizer.eos_token_id
