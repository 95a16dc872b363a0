"""Search results for a name, ticker, address, signature or words, on the page and in the API."""

import itertools

import ground
import pytest
from service import NOW, address, hide_post, signature

from accounts import posts, traders
from market.tables import Token
from storage import database, search

WALLET, MINT = address("wallet"), address("mint")


@pytest.fixture
def bot(service):
    return service.make_bot("Nell Quickstep", WALLET)


@pytest.fixture
def ask(service, key):
    """ask(q) -> [(kind, id), ...] of the API."""

    def ask(query):
        answer = service.get("/api/v1/search", key, query_string={"q": query})
        assert answer.status_code == 200, answer.json
        return [(hit["kind"], hit["id"]) for hit in answer.json["data"]]

    return ask


@pytest.fixture
def page(service):
    """page(q) -> the response with the page."""
    return lambda query: service.get("/search", query_string={"q": query})


@pytest.fixture
def publish(bot):
    """publish(body) -> the ID of a new post."""
    numbers = itertools.count()

    def publish(body, **more):
        said = posts.PostBody(eventId=f"e{next(numbers)}", body=body, **more)
        with database.connection_context():
            return posts.publish(bot.bot.id, said, NOW, "api").uid

    return publish


# ---- what is found -------------------------------------------------------------------------------
def test_everything_is_found_by_its_names_and_addresses(service, bot, ask, page, publish):
    trader = traders.create_trader("Orla Margin", "momentum", NOW)
    Token.create(mint=MINT, symbol="TARN", name="Mountain Lake")
    # A token that only a wallet moved has no name.
    service.observe_trade(WALLET, "bought", 1, mint=address("moved"))
    post = publish("Purchased.", signature=signature("bought"))
    for query in ("quickstep", "NELL", "@nell-quick", WALLET):
        assert ask(query)[0] == ("bot", bot.bot.uid), query
        assert bot.bot.uid in page(query).text
    for query in ("tarn", "$TARN", "mountain", MINT):
        assert ask(query) == [("token", MINT)], query
    assert ask("margin") == [("trader", trader.trader.uid)]
    assert ask(address("moved")) == [("token", address("moved"))]
    assert ask(signature("bought")) == [("trade", "trade_bought"), ("post", post)]
    assert ask(WALLET) == [("bot", bot.bot.uid)]
    assert ask(address("somebody else")) == []


def test_names_are_literal_and_an_exact_one_comes_first(service, ask):
    service.make_bot("Anelly")
    exact, percent = service.make_bot("Nell"), service.make_bot("100% sure")
    assert ask("nell")[0] == ("bot", exact.bot.uid)
    assert ask("100%") == [("bot", percent.bot.uid)] and ask("N_ll") == []


def test_posts_match_all_words_in_any_case(ask, publish):
    first = publish("Thinking about Marmalade and toast.")
    second = publish("No marmalade/today: café.", symbol="TARN", reason="hunger")
    assert ask("marmalade") == [("post", second), ("post", first)]
    assert ask("TOAST marmalade") == [("post", first)]
    assert ask("marmalade tarn hunger") == [("post", second)]
    assert ask("marma") == []
    # Further words do no harm.
    assert ask(f"{'toast ' * search.MAX_WORDS} whatever") == [("post", first)]


def test_result_pages_list_everything_once(service, bot, key, publish):
    Token.create(mint=MINT, symbol="NELL")
    said = [publish(f"nell says {n}") for n in range(5)]
    for limit in (1, 2):
        rows = service.pages("/api/v1/search?q=nell", key, limit)
        assert [row["id"] for row in rows] == [bot.bot.uid, MINT, *reversed(said)]


# ---- hidden posts --------------------------------------------------------------------------------
def test_hidden_text_leaves_the_index(ask, publish):
    hide_post(publish("Thinking about marmalade.", symbol="TARN", reason="quincetree"), NOW)
    assert ask("marmalade") == ask("tarn") == ask("quincetree") == []


@ground.sqlite_only
def test_hidden_text_leaves_the_files_after_any_index_merges(service, publish):
    kept = [publish(f"filler{n} marmaladium{n}") for n in range(60)]
    for n in range(300):
        publish(f"other{n} words{n % 7}")
    for uid in kept:
        hide_post(uid, NOW)
    files = [path.read_bytes() for path in service.config.data_dir.glob("app.db*")]
    assert files and not any(b"marmaladium" in raw for raw in files)


# ---- queries and the page ------------------------------------------------------------------------
def test_no_query_syntax_is_an_error(ask, page, publish):
    publish("Some words.")
    words = ("a AND", "NEAR(a b)", "body:x", "-a", "^a", "a\0b", "😀", ")(")
    for query in (*words, *"\"*%_!'@"):
        ask(query)
        assert page(query).status_code == 200, query


def test_a_query_without_words_is_an_api_error_and_a_page_hint(service, key):
    for query in ("", "?q=%20", f"?q={'a' * 201}"):
        answer = service.get(f"/api/v1/search{query}", key)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter"), query
    assert "Type a bot’s name" in service.get("/search").text


def test_a_key_is_neither_searched_for_nor_shown(service, key, page):
    told = service.get("/api/v1/search", key, query_string={"q": key})
    for answer, status in ((page(key), 422), (told, 400)):
        assert answer.status_code == status and key not in answer.text


def test_the_page_links_to_older_posts(page, publish):
    said = [publish(f"marmalade {n}") for n in range(23)]
    first = page("marmalade").text
    assert said[-1] in first and said[0] not in first and "before=" in first


def test_a_bots_name_finds_its_posts(page, publish):
    said = publish("Nothing about names.")
    found = page("nell").text
    assert f'data-post="{said}"' in found and "Latest posts by" in found


def test_strangers_names_are_escaped(page, bot):
    Token.create(mint=MINT, symbol="<b>TARN</b>", name="<script>1</script>")
    by_symbol, by_name = page("tarn").text, page("script").text
    assert "<b>TARN" not in by_symbol and "&lt;b&gt;TARN" not in by_symbol
    assert "<script>1" not in by_name and "&lt;script&gt;1" in by_name
