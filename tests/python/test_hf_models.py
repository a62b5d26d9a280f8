"""Random small models there and back: made with transformers, imported, trained three steps beside
PyTorch, exported, continued greedily. And configurations that import refuses."""

import json
import os
import sys

import pytest

from program import ROOT, sextant, succeed

CASES = 40 if os.environ.get("SXT_LONG") else 8  # one of each family at least
ROWS, STEPS = 3, 3
MADE = 8  # tokens
END = 0  # of a document of plain bytes, where generation ends
PROMPT = "Rope?"


@pytest.fixture(name="models", scope="module")
def oracle_models():
    """tests/oracle/models.py, which says how the models are made and trained."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "tests" / "oracle"))
    import models
    return models


def train(folder, checkpoint, tokens):
    """The losses of STEPS steps. All samples are one batch, so their order does not matter."""
    import numpy
    numpy.array(tokens, dtype=numpy.uint16).tofile(folder / "tokens.bin")
    (folder / "run.toml").write_text(f"""
        [data]
        kind = "tokens"
        path = "{folder}/tokens.bin"
        format = "nanogpt"
        eval_fraction = 0
        document_mask = false
        [batch]
        global = {ROWS}
        [optim]
        lr = 3e-3
        beta2 = 0.95
        weight_decay = 0.1
        clip = 1.0
        schedule = "constant"
        warmup = 0
        router_bias_rate = 0
        [train]
        steps = {STEPS}
        balance_loss = 0
        [run]
        threads = 1
        out = "{folder}/run"
        """)
    succeed("train", "-q", folder / "run.toml", "--from", checkpoint)
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.parametrize("seed", range(CASES))
def test_a_random_model_trains_and_generates_as_in_pytorch(seed, models, tmp_path):
    import torch
    import transformers
    model, what = models.make_random(seed)
    model.save_pretrained(tmp_path / "theirs")
    succeed("import", tmp_path / "theirs", "--out", tmp_path / "imported")

    generator = torch.Generator().manual_seed(seed)
    vocab = model.config.vocab_size
    stream = torch.randint(0, vocab, (ROWS * models.SEQ + 1,), generator=generator)
    tokens = stream[:-1].view(1, ROWS, models.SEQ).expand(STEPS, -1, -1)
    targets = stream[1:].view(1, ROWS, models.SEQ).expand(STEPS, -1, -1)
    wanted = models.train_losses(model, tokens, targets)
    ours = train(tmp_path, tmp_path / "imported", stream.tolist())
    assert ours == pytest.approx(wanted, rel=1e-6), what
    assert wanted[0] > wanted[-1] * 1.001, "three steps change the loss"

    succeed("export", tmp_path / "run", "--out", tmp_path / "ours")
    exported = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", attn_implementation="eager", dtype=torch.float32).eval()
    assert type(exported) is type(model)
    text = list(PROMPT.encode())
    with torch.no_grad():
        for _ in range(MADE):
            token = int(exported(input_ids=torch.tensor([text])).logits[0, -1].argmax())
            if token == END:
                break
            text.append(token)
    done = succeed("generate", tmp_path / "run", "--prompt", PROMPT, "--tokens", MADE,
                   "--temperature", 0, "--tokenizer", "bytes", "--json")
    assert json.loads(done)["tokens"] == text[len(PROMPT):], what


CORPUS = "The lamp reads a token ship under every star, naïve, 42 times. " * 40
# Tokenizers whose template begins a text, and what ends one.
TEMPLATES = {
    "llama2_like": dict(bos="<s>", ends=["</s>"]),
    "llama3_like": dict(bos="<|begin_of_text|>", ends=["<|end_of_text|>", "<|eot_id|>"]),
    "mistral_like": dict(bos="<s>", ends=["</s>"]),
    "qwen_like": dict(bos=None, ends=["<|im_end|>", "<|endoftext|>"]),
}


@pytest.mark.parametrize("make", TEMPLATES)
def test_generate_goes_on_as_transformers_does(make, models, tmp_path):
    """With the special tokens of the template, until any token that ends a text."""
    import torch
    import transformers
    import tokenizer_cases
    names = TEMPLATES[make]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=getattr(tokenizer_cases, make)(CORPUS, 600), bos_token=names["bos"],
        eos_token=names["ends"][0])
    torch.manual_seed(len(make))
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        initializer_range=0.3, attn_implementation="eager", bos_token_id=None,
        eos_token_id=None)).eval()
    tokenizer.save_pretrained(tmp_path)

    def ours(*options):
        return json.loads(succeed("generate", tmp_path, "--prompt", PROMPT, "--tokens", 24,
                                  "--temperature", 0, "--json", *options))

    def theirs(ends):
        model.config.eos_token_id = model.generation_config.eos_token_id = ends
        model.save_pretrained(tmp_path)
        with torch.no_grad():
            made = model.generate(**tokenizer(PROMPT, return_tensors="pt"), do_sample=False,
                                  max_new_tokens=24, pad_token_id=0)[0].tolist()
        made = made[len(wanted):]
        return made[:-1] if made and made[-1] in ends else made

    wanted = tokenizer(PROMPT)["input_ids"]
    bare = tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    assert (len(wanted) > len(bare)) == (names["bos"] is not None)
    ends = tokenizer.convert_tokens_to_ids(names["ends"])
    whole = theirs(ends)
    assert ours()["prompt_tokens"] == wanted
    assert ours("--no-special-tokens")["prompt_tokens"] == bare
    assert ours()["tokens"] == whole and len(whole) > 4
    # Any of several ends it, also after an import and an export.
    cut = theirs(ends + [whole[3]])
    assert cut == whole[:whole.index(whole[3])]
    assert ours()["tokens"] == cut
    succeed("import", tmp_path, "--out", tmp_path / "imported")
    succeed("export", tmp_path / "imported", "--out", tmp_path / "exported")
    for name in ["AutoConfig", "GenerationConfig"]:
        config = getattr(transformers, name).from_pretrained(tmp_path / "exported")
        assert config.eos_token_id == ends + [whole[3]], name


LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "vocab_size": 100, "max_position_embeddings": 64, "rope_theta": 10000.0}
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64,
        "vocab_size": 100}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 8}
QWEN2 = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8,
         "max_window_layers": 0}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
QWEN3_MOE = {**LLAMA, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
             "moe_intermediate_size": 16}
DEEPSEEK = {**LLAMA, "model_type": "deepseek_v3", "num_key_value_heads": 4, "kv_lora_rank": 8,
            "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": 16}
YARN = {"rope_type": "yarn", "factor": 4.0}
MIXED = ["sliding_attention", "full_attention"]

# What is changed, and the words of the message.
REFUSED = [
    (LLAMA, {"model_type": "gemma3"}, 'model_type is "gemma3"'),
    (LLAMA, {"sliding_window": 8}, "sliding_window is 8"),
    (LLAMA, {"hidden_act": "gelu"}, 'hidden_act is "gelu"'),
    (LLAMA, {"num_key_value_heads": 3}, "num_key_value_heads is 3"),
    (LLAMA, {"head_dim": 7}, "head_dim is 7"),
    (LLAMA, {"head_dim": 512}, "head_dim = 512"),
    (LLAMA, {"num_hidden_layers": "2"}, 'num_hidden_layers is "2"'),
    (LLAMA, {"rms_norm_eps": 0}, "rms_norm_eps is 0"),
    (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
    (LLAMA, {"quantization_config": {"quant_method": "awq"}},
     'quantization_config is {"quant_method":"awq"}'),
    (LLAMA, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 'rope_scaling.type is "dynamic"'),
    (LLAMA, {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}},
     'rope_parameters.rope_type is "longrope"'),
    (LLAMA, {"rope_scaling": {"rope_type": "linear", "factor": 0.5}},
     "rope_scaling.factor is 0.5"),
    (LLAMA, {"rope_scaling": {**YARN, "truncate": False}}, "rope_scaling.truncate is false"),
    (LLAMA, {"rope_scaling": {**YARN, "beta_fast": 0.5}}, "rope_scaling.beta_fast is 0.5"),
    (LLAMA, {"rope_parameters": {"full_attention": {"rope_theta": 5.0}}},
     'rope_parameters is {"full_attention":{"rope_theta":5.0}}'),
    (GPT2, {"activation_function": "relu"}, 'activation_function is "relu"'),
    (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is true"),
    (MISTRAL, {"attention_bias": True}, "attention_bias is true"),
    (MISTRAL, {"layer_types": MIXED}, 'layer_types is ["sliding_attention","full_attention"]'),
    (QWEN2, {"layer_types": MIXED}, 'layer_types is ["sliding_attention","full_attention"]'),
    (QWEN2, {"max_window_layers": 1}, "max_window_layers is 1"),
    (QWEN2, {"mlp_bias": True}, "mlp_bias is true"),
    (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok is 9"),
    (QWEN3_MOE, {"decoder_sparse_step": 2}, "decoder_sparse_step is 2"),
    (DEEPSEEK, {"scoring_func": "softmax"}, 'scoring_func is "softmax"'),
]


@pytest.mark.parametrize("base, change, words", REFUSED)
def test_what_cannot_run_is_refused_in_one_line(base, change, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**base, **change}))
    done = sextant("import", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 4, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr, done.stderr
    assert '""' not in done.stderr and "\\" not in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("base", [LLAMA, GPT2, MISTRAL, QWEN2, MIXTRAL, QWEN3_MOE, DEEPSEEK])
def test_unchanged_they_are_refused_for_their_missing_weights_only(base, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(base))
    done = sextant("import", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 4 and "safetensors" in done.stderr, done.stderr
