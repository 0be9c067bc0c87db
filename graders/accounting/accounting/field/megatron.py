"""Megatron's count of FLOPs and its report of memory: grouped queries and gates as factors, each term with a reason."""

# with accounting/accounting


def ratios(args):
    query_groups = args.num_kv_heads if args.num_kv_heads is not None else args.num_heads
    return query_groups / args.num_heads, 3 / 2 if args.gated else 1


def parameter_count(args):
    gqa_ratio, gated_linear_multiplier = ratios(args)
    parameters_in_attention = 2 * args.d_model * args.d_model * (1 + gqa_ratio)
    parameters_in_mlp = 2 * args.d_model * args.d_ff * gated_linear_multiplier
    parameters_in_layer = parameters_in_attention + parameters_in_mlp + 2 * args.d_model
    embedding_size = args.d_model * args.vocab_size
    embedding_parameters = embedding_size if args.tied else 2 * embedding_size
    return round(parameters_in_layer * args.num_layers + args.d_model + embedding_parameters)


def forward_flops(args, seq_len, batch=1):
    gqa_ratio, gated_linear_multiplier = ratios(args)
    expansion_factor = 2  # a multiplication and an addition
    token_factor = expansion_factor * batch * seq_len * args.num_layers * args.d_model
    flops = {
        "qkvo": round(token_factor * args.d_model * 2 * (1 + gqa_ratio)),
        "attention": token_factor * seq_len * 2,  # scores, then values
        "ffn": round(token_factor * args.d_ff * 2 * gated_linear_multiplier),
        "lm_head": expansion_factor * batch * seq_len * args.d_model * args.vocab_size,
    }
    return {**flops, "total": sum(flops.values())}


def kv_cache_bytes(args, seq_len, batch=1, bytes_per_element=2):
    query_groups = args.num_kv_heads if args.num_kv_heads is not None else args.num_heads
    kv_channels = args.d_model // args.num_heads
    return 2 * args.num_layers * batch * seq_len * query_groups * kv_channels * bytes_per_element
