"""Tiny random models of each family, built with transformers; shared by the fixture maker, the live
comparison and tests/python/test_hf_models.py."""
import random

import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, DeepseekV3Config,
                          DeepseekV3ForCausalLM)

SEQ = 24
BATCH = 3
STEPS = 10
ADAMW = dict(lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
CLIP = 1.0


def gpt2():
    config = GPT2Config(vocab_size=101, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        attn_implementation="eager", bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


def llama():
    config = LlamaConfig(vocab_size=101, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=SEQ, rms_norm_eps=1e-5,
                         tie_word_embeddings=False, attn_implementation="eager",
                         rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=4.0,
                                              low_freq_factor=1.0, high_freq_factor=4.0,
                                              original_max_position_embeddings=12))
    return LlamaForCausalLM(config)


def llama_biased():
    config = LlamaConfig(vocab_size=101, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                         attention_bias=True, mlp_bias=True,
                         max_position_embeddings=SEQ, rms_norm_eps=1e-5,
                         tie_word_embeddings=True, attn_implementation="eager",
                         rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                              original_max_position_embeddings=12, beta_fast=4.0))
    return LlamaForCausalLM(config)


def mistral():
    config = MistralConfig(vocab_size=101, hidden_size=32, intermediate_size=56,
                           num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                           sliding_window=7, max_position_embeddings=SEQ, rms_norm_eps=1e-5,
                           tie_word_embeddings=False, attn_implementation="eager",
                           rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    return MistralForCausalLM(config)


def qwen2():
    config = Qwen2Config(vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=1,
                         max_position_embeddings=SEQ, rms_norm_eps=1e-6,
                         tie_word_embeddings=True, attn_implementation="eager",
                         rope_parameters=dict(rope_type="linear", rope_theta=1000000.0,
                                              factor=2.0))
    return Qwen2ForCausalLM(config)


def qwen3():
    config = Qwen3Config(vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=1, head_dim=16,
                         max_position_embeddings=SEQ, rms_norm_eps=1e-6,
                         tie_word_embeddings=True, attn_implementation="eager",
                         rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
    return Qwen3ForCausalLM(config)


def mixtral():
    config = MixtralConfig(vocab_size=101, hidden_size=32, intermediate_size=24,
                           num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                           num_local_experts=5, num_experts_per_tok=2,
                           max_position_embeddings=SEQ, rms_norm_eps=1e-5,
                           tie_word_embeddings=False, attn_implementation="eager",
                           rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
    return MixtralForCausalLM(config)


def qwen3_moe():
    config = Qwen3MoeConfig(vocab_size=101, hidden_size=32, intermediate_size=48,
                            moe_intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=1, head_dim=16, num_experts=6,
                            num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=1,
                            mlp_only_layers=[], max_position_embeddings=SEQ, rms_norm_eps=1e-6,
                            tie_word_embeddings=False, attn_implementation="eager",
                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
    return Qwen3MoeForCausalLM(config)


def deepseek_v3():
    config = DeepseekV3Config(vocab_size=101, hidden_size=32, intermediate_size=48,
                              moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
                              num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12,
                              qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=8,
                              n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
                              first_k_dense_replace=1, n_group=4, topk_group=2,
                              norm_topk_prob=True, routed_scaling_factor=2.5,
                              max_position_embeddings=SEQ, rms_norm_eps=1e-6,
                              tie_word_embeddings=False, attn_implementation="eager",
                              rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    return DeepseekV3ForCausalLM(config)


FAMILIES = {"gpt2": gpt2, "llama": llama, "llama_biased": llama_biased, "mistral": mistral,
            "qwen2": qwen2, "qwen3": qwen3, "mixtral": mixtral, "qwen3_moe": qwen3_moe,
            "deepseek_v3": deepseek_v3}
DENSE = ("gpt2", "llama", "qwen3")


def make(family, seed=1234):
    torch.manual_seed(seed)
    return perturbed(FAMILIES[family]())


def perturbed(model):
    """Every parameter, norms and biases too, is random enough to matter."""
    model = model.float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.2 * torch.randn_like(buffer))
    return model


def batches(seed=99):
    """Tokens and targets of STEPS batches; a few targets do not count."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 101, (STEPS, BATCH, SEQ + 1), generator=generator)
    targets = tokens[:, :, 1:].clone()
    targets[torch.rand(targets.shape, generator=generator) < 0.1] = -1
    return tokens[:, :, :-1].contiguous(), targets


def loss_of(model, tokens, targets):
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                                             ignore_index=-1)
    return loss, logits


def optimizer_of(model):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([dict(params=decay, weight_decay=WEIGHT_DECAY),
                              dict(params=plain, weight_decay=0.0)], **ADAMW)


def train_losses(model, tokens, targets):
    """Each step has a batch of `tokens` and `targets`."""
    optimizer = optimizer_of(model)
    losses = []
    for step in range(len(tokens)):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = loss_of(model, tokens[step], targets[step])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def random_rope(draw, is_deepseek):
    kind = draw.choice(["default", "linear", "llama3", "yarn"])
    rope = dict(rope_type=kind, rope_theta=draw.choice([5000.0, 10000.0, 1000000.0]))
    if kind == "default":
        return rope
    rope["factor"] = draw.choice([1.5, 4.0, 32.0])
    if kind == "linear":
        return rope
    rope["original_max_position_embeddings"] = draw.choice([8, 12, 20])
    if kind == "llama3":
        return dict(rope, low_freq_factor=1.0, high_freq_factor=draw.choice([2.0, 4.0]))
    if draw.random() < 0.5:
        rope.update(beta_fast=draw.choice([2.0, 8.0]), beta_slow=draw.choice([0.5, 1.0]))
    if is_deepseek:
        rope.update(mscale=draw.choice([0.7, 1.0]), mscale_all_dim=draw.choice([0.5, 1.0]))
    elif draw.random() < 0.3:
        rope["attention_factor"] = draw.choice([0.8, 1.3])
    return rope


def random_sizes(draw):
    """What the families after GPT-2 have in common, in unusual shapes."""
    heads = draw.choice([2, 3, 4, 6])
    return dict(vocab_size=draw.randrange(257, 340), hidden_size=12 * draw.randrange(2, 5),
                intermediate_size=draw.randrange(17, 90), num_hidden_layers=draw.randrange(1, 4),
                num_attention_heads=heads,
                num_key_value_heads=draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
                head_dim=draw.choice([4, 6, 10, 14, 16]), max_position_embeddings=SEQ,
                rms_norm_eps=draw.choice([1e-6, 1e-5]),
                tie_word_embeddings=draw.random() < 0.5, attn_implementation="eager",
                rope_parameters=random_rope(draw, False), bos_token_id=None, eos_token_id=None)


def random_window(draw):
    return draw.choice([None, 1, 3, 9, 17, SEQ, 100])


def random_qwen_window(draw):
    window = random_window(draw)
    if window is None:
        return dict(use_sliding_window=False)
    return dict(use_sliding_window=True, sliding_window=window, max_window_layers=0)


def random_gpt2(draw):
    heads = draw.choice([1, 3, 4])
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=draw.randrange(257, 340), n_positions=SEQ, n_embd=heads * draw.choice([6, 10]),
        n_layer=draw.randrange(1, 4), n_head=heads, n_inner=draw.choice([None, 37]),
        activation_function=draw.choice(["gelu", "gelu_new"]),
        tie_word_embeddings=draw.random() < 0.5, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        attn_implementation="eager", bos_token_id=None, eos_token_id=None))


def random_llama(draw):
    return LlamaForCausalLM(LlamaConfig(**random_sizes(draw), attention_bias=draw.random() < 0.6,
                                        mlp_bias=draw.random() < 0.6))


def random_mistral(draw):
    return MistralForCausalLM(MistralConfig(**random_sizes(draw),
                                            sliding_window=random_window(draw)))


def random_qwen2(draw):
    return Qwen2ForCausalLM(Qwen2Config(**random_sizes(draw), **random_qwen_window(draw)))


def random_qwen3(draw):
    return Qwen3ForCausalLM(Qwen3Config(**random_sizes(draw), **random_qwen_window(draw),
                                        attention_bias=draw.random() < 0.5))


# PyTorch's grouped product takes rows of whole 16 bytes.
def random_mixtral(draw):
    sizes = dict(random_sizes(draw), intermediate_size=4 * draw.randrange(5, 20))
    return MixtralForCausalLM(MixtralConfig(**sizes, num_local_experts=5,
                                            num_experts_per_tok=draw.choice([1, 2, 3]),
                                            sliding_window=random_window(draw)))


def random_qwen3_moe(draw):
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **random_sizes(draw), **random_qwen_window(draw), attention_bias=draw.random() < 0.5,
        num_experts=6, num_experts_per_tok=3, norm_topk_prob=draw.random() < 0.5,
        moe_intermediate_size=4 * draw.randrange(3, 9), decoder_sparse_step=1, mlp_only_layers=[]))


def random_deepseek_v3(draw):
    sizes = random_sizes(draw)
    sizes.update(num_hidden_layers=2, num_key_value_heads=sizes["num_attention_heads"],
                 rope_parameters=random_rope(draw, True))
    del sizes["head_dim"]
    return DeepseekV3ForCausalLM(DeepseekV3Config(
        **sizes, q_lora_rank=draw.choice([None, 11]), kv_lora_rank=draw.choice([7, 12]),
        qk_nope_head_dim=draw.choice([6, 10]), qk_rope_head_dim=draw.choice([4, 6]), v_head_dim=8,
        moe_intermediate_size=12, n_routed_experts=8, num_experts_per_tok=3,
        n_shared_experts=draw.choice([1, 2]), first_k_dense_replace=1, n_group=4, topk_group=2,
        norm_topk_prob=True, routed_scaling_factor=2.5))


RANDOM = [random_gpt2, random_llama, random_mistral, random_qwen2, random_qwen3, random_mixtral,
          random_qwen3_moe, random_deepseek_v3]


def make_random(seed):
    """A model of the families in turn, and its configuration as text."""
    torch.manual_seed(seed)
    model = perturbed(RANDOM[seed % len(RANDOM)](random.Random(seed)))
    return model, model.config.to_json_string()
