"""transformers reads the config.json we write as the model it came from, where it is installed."""

import json

import pytest

import probe


@pytest.fixture(name="transformers", scope="module")
def installed_transformers():
    return pytest.importorskip("transformers")


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64, "rope_type": "llama3"}
SIZES = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 100,
         "max_position_embeddings": 128}

CONFIGS = {
    "gpt2": ("GPT2Config", {"n_layer": 3, "n_embd": 24, "n_head": 2, "n_positions": 32,
                            "vocab_size": 77}),
    "gpt2_exact_gelu": ("GPT2Config", {"activation_function": "gelu", "n_inner": 50,
                                       "tie_word_embeddings": False, "eos_token_id": 5}),
    "llama": ("LlamaConfig", {**SIZES, "rms_norm_eps": 1e-5, "rope_theta": 1234.5}),
    "llama_scaled": ("LlamaConfig", {**SIZES, "rope_theta": 500000.0, "rope_scaling": LLAMA3,
                                     "eos_token_id": [3, 4], "tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {**SIZES, "head_dim": 16, "rope_theta": 1e6, "dtype": "bfloat16"}),
}

# What our models know; everything else in a config does not change what is computed.
KEYS = ["model_type", "vocab_size", "tie_word_embeddings", "dtype", "bos_token_id", "eos_token_id",
        "num_hidden_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"]
GPT2_KEYS = ["activation_function", "layer_norm_epsilon"]
LLAMA_KEYS = ["num_key_value_heads", "head_dim", "intermediate_size", "rms_norm_eps", "hidden_act",
              "rope_parameters", "attention_bias"]


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_survive_the_way_through_ours(name, transformers, tmp_path):
    kind, settings = CONFIGS[name]
    theirs = getattr(transformers, kind)(**settings)
    theirs.save_pretrained(tmp_path / "theirs")
    done = probe.run("hf-config-rewrite", tmp_path / "theirs" / "config.json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(done.stdout)
    back = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert type(back) is type(theirs)
    for key in KEYS + (GPT2_KEYS if kind == "GPT2Config" else LLAMA_KEYS):
        expected = getattr(theirs, key)
        if key == "dtype":
            expected = expected or "float32"
            assert str(back.dtype).removeprefix("torch.") == str(expected).removeprefix("torch.")
            continue
        assert getattr(back, key) == expected, key
    if kind == "GPT2Config":
        assert back.n_inner == (theirs.n_inner or 4 * theirs.n_embd)
        assert back.resid_pdrop == back.attn_pdrop == back.embd_pdrop == 0
    assert json.loads(done.stdout)["architectures"][0] in dir(transformers)
