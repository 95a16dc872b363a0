"""The shapes of the JSON values in an archive: its head, and the lines of its files.

Nothing else may stand in them. docs/moving.md describes them to people.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Head(BaseModel):
    """export.json."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: str
    version: int
    instance: str
    software: str
    exportedAt: str
    owner: dict[str, Any]
    rows: dict[str, int]
    cut: list[str]


class HeldWallet(BaseModel):
    """A wallet that a bot held, from when to when."""

    model_config = ConfigDict(strict=True, extra="forbid")

    wallet: str
    ownership: str
    attachedAt: str
    detachedAt: str | None


class Voice(BaseModel):
    """A bot's or a paper trader's voice, as influencers.VOICE has it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    tone: str
    style: list[str]
    adjectives: list[str]
    topics: list[str]
    catchphrases: list[str]
    emoji: str


class BotLine(BaseModel):
    """A line of bots.jsonl."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str
    handle: str
    name: str
    bio: str
    voice: Voice
    autoPost: bool
    createdAt: str
    retiredAt: str | None
    wallets: list[HeldWallet]


class PostLine(BaseModel):
    """A line of posts.jsonl."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str
    botId: str
    source: str
    channel: str
    eventId: str
    body: str | None
    mint: str | None
    symbol: str | None
    signature: str | None
    reason: str | None
    sanitized: bool
    wallet: str | None
    status: str
    statusReason: str | None
    eventAt: str
    createdAt: str
    hiddenAt: str | None
    originalId: str | None
    originallyAt: str | None
    originalInstance: str | None


class TraderLine(BaseModel):
    """A line of traders.jsonl."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str
    handle: str
    name: str
    bio: str
    voice: Voice
    family: str
    settings: dict[str, int]
    startMode: str
    adaptive: str
    createdAt: str
    retiredAt: str | None
    originalId: str | None
    originallyAt: str | None
    originalInstance: str | None
