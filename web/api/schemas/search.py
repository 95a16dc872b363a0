"""What a search finds."""

from typing import Literal

from web.api.schemas.base import Page, Shape, Time, described


class SearchHit(Shape):
    """A bot, paper trader, token, trade or post that a query found."""

    kind: Literal["bot", "trader", "token", "trade", "post"]
    id: str = described("of that kind; a token's is its mint address")
    title: str | None = described("name, ticker, kind of trade, or the name of the bot; untrusted")
    text: str | None = described("the words of a post, the name of a token; untrusted")
    status: str | None = described("of a post: none, pending, verified, mismatch, not_found")
    url: str = described("its page")
    createdAt: Time | None


class SearchPage(Page):
    """What a query found: everything else first, then posts, newest first."""

    data: list[SearchHit]
    q: str = described("the query as it was taken")
