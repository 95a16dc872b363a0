"""Instruction names that determine what a call did: order steps, positions. Pure."""

from hashlib import sha256


def discriminators(*names: str) -> frozenset[bytes]:
    """Return Anchor's instruction discriminators: the first 8 bytes of sha256("global:<name>")."""
    return frozenset(sha256(f"global:{name}".encode()).digest()[:8] for name in names)


# Names from idls/dlmm.json of github.com/MeteoraAg/dlmm-sdk at fb02e51ae677.
DLMM = discriminators(
    "add_liquidity",
    "add_liquidity2",
    "add_liquidity_by_strategy",
    "add_liquidity_by_strategy2",
    "add_liquidity_by_strategy_one_side",
    "add_liquidity_by_weight",
    "add_liquidity_by_weight2",
    "add_liquidity_one_side",
    "add_liquidity_one_side_precise",
    "add_liquidity_one_side_precise2",
    "cancel_limit_order",
    "claim_fee",
    "claim_fee2",
    "claim_reward",
    "claim_reward2",
    "close_limit_order_if_empty",
    "close_position",
    "close_position2",
    "close_position_if_empty",
    "decrease_position_length",
    "increase_position_length",
    "increase_position_length2",
    "initialize_position",
    "initialize_position2",
    "initialize_position_by_operator",
    "initialize_position_pda",
    "place_limit_order",
    "rebalance_liquidity",
    "remove_all_liquidity",
    "remove_liquidity",
    "remove_liquidity2",
    "remove_liquidity_by_range",
    "remove_liquidity_by_range2",
)
# Names from programs/cp-amm/src/lib.rs of github.com/MeteoraAg/damm-v2 at a3d3827f2094.
DAMM_V2 = discriminators(
    "add_liquidity",
    "claim_position_fee",
    "claim_reward",
    "close_position",
    "create_position",
    "lock_inner_position",
    "lock_position",
    "permanent_lock_position",
    "refresh_vesting",
    "remove_all_liquidity",
    "remove_liquidity",
    "split_position",
    "split_position2",
)
# Names from programs/whirlpool/src/lib.rs of github.com/orca-so/whirlpools at 630c0e01b74a.
WHIRLPOOL = discriminators(
    "close_bundled_position",
    "close_position",
    "close_position_with_token_extensions",
    "collect_fees",
    "collect_fees_v2",
    "collect_reward",
    "collect_reward_v2",
    "decrease_liquidity",
    "decrease_liquidity_v2",
    "increase_liquidity",
    "increase_liquidity_by_token_amounts_v2",
    "increase_liquidity_v2",
    "lock_position",
    "open_bundled_position",
    "open_position",
    "open_position_with_metadata",
    "open_position_with_token_extensions",
    "reposition_liquidity_v2",
    "reset_position_range",
    "transfer_locked_position",
)
# Names from programs/amm/src/lib.rs of github.com/raydium-io/raydium-clmm at 03b44b7ff410. Fees
# and rewards are collected by decreasing liquidity by 0.
RAYDIUM_CLMM = discriminators(
    "close_limit_order",
    "close_position",
    "decrease_limit_order",
    "decrease_liquidity",
    "decrease_liquidity_v2",
    "increase_limit_order",
    "increase_liquidity",
    "increase_liquidity_v2",
    "open_limit_order",
    "open_position",
    "open_position_v2",
    "open_position_with_token22_nft",
    "settle_limit_order",
)
# By program: instructions that change a position or an order in it. Most mint nothing.
POSITION_CALLS = {
    "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo": DLMM,
    "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG": DAMM_V2,
    "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc": WHIRLPOOL,
    "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK": RAYDIUM_CLMM,
    # forks of Raydium CLMM with the same instructions: Byreal, PancakeSwap v3
    "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2": RAYDIUM_CLMM,
    "HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq": RAYDIUM_CLMM,
}
ORDER_CALLS = {
    "order_open": discriminators(
        "create_order", "initialize_order", "open_dca", "open_dca_v2", "open_value_average"
    ),
    "order_cancel": discriminators(
        "cancel_order",
        "cancel_expired_order",
        "cancel_dust_order",
        "close_dca",
        "close_order_and_claim_tip",
        "end_and_close",
        "close",
    ),
    "order_fill": discriminators(
        "fill_order",
        "flash_fill_order",
        "flash_take_order_end",
        "flash_take_order_start",
        "pre_flash_fill_order",
        "initiate_flash_fill",
        "fulfill_flash_fill",
        "take_order",
        "transfer",
    ),
}
# Kamino's limit-order program lends these to any swap: they enclose it and record what the wallet
# holds.
RECORD_CALLS = discriminators(
    "log_user_swap_balances",
    "log_user_swap_balances_start",
    "log_user_swap_balances_end",
    "assert_user_swap_balances_start",
    "assert_user_swap_balances_end",
)
