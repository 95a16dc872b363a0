"""Values of query parameters, as types for the API's shapes and for the tools."""

from typing import Literal

TradeKind = Literal[
    "buy",
    "sell",
    "swap",
    "round_trip",
    "transfer_in",
    "transfer_out",
    "transfer_self",
    "native_transfer",
    "order_open",
    "order_fill",
    "order_cancel",
    "liquidity",
    "lending",
    "stake",
    "bridge",
    "nft",
    "account_open",
    "account_close",
    "failed",
    "other",
]
Sort = Literal["pnl", "return", "win_rate", "volume", "trades", "pnl_floor"]
Window = Literal["24h", "7d", "30d", "90d", "all"]
