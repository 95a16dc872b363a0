"""Names of instructions that decide what a call was: order steps, plain positions. Pure."""

from hashlib import sha256


def discriminators(*names: str) -> frozenset[bytes]:
    """Anchor's names of instructions: the first 8 bytes of sha256("global:<name>")."""
    return frozenset(sha256(f"global:{name}".encode()).digest()[:8] for name in names)


METEORA_DLMM = "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo"
POSITION_CALLS = discriminators(
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
# Kamino's limit-order program lends these to any swap: they stand around it and write down what the
# wallet holds.
RECORD_CALLS = discriminators(
    "log_user_swap_balances",
    "log_user_swap_balances_start",
    "log_user_swap_balances_end",
    "assert_user_swap_balances_start",
    "assert_user_swap_balances_end",
)
