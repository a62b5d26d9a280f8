"""Tiny random models of each family, built with transformers; shared by the fixture maker and the
live comparison."""
import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MixtralConfig, MixtralForCausalLM, Qwen3Config, Qwen3ForCausalLM,
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


FAMILIES = {"gpt2": gpt2, "llama": llama, "qwen3": qwen3, "mixtral": mixtral,
            "qwen3_moe": qwen3_moe, "deepseek_v3": deepseek_v3}


def make(family, seed=1234):
    """A model whose every parameter, norms and biases too, is random enough to matter."""
    torch.manual_seed(seed)
    model = FAMILIES[family]().float().eval()
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
    optimizer = optimizer_of(model)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = loss_of(model, tokens[step], targets[step])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses
