"""Search results for a name, ticker, address, signature or words, on the page and in the API."""

import ground
import pytest
from service import NOW, address, hide_post, signature

from accounts import traders
from market.tables import Token
from storage import search

WALLET, MINT = address("wallet"), address("mint")


@pytest.fixture
def bot(service):
    return service.make_bot("Nell Quickstep", WALLET)


@pytest.fixture
def ask(service, bot):
    """ask(q) -> [(kind, id), ...] of the API."""

    def ask(query, **more):
        answer = service.get(
            "/api/v1/search", bot.publish_key.text, query_string={"q": query, **more}
        )
        assert answer.status_code == 200, answer.json
        return [(hit["kind"], hit["id"]) for hit in answer.json["data"]]

    return ask


def publish(service, bot, event, body, **more):
    sent = service.post({"eventId": event, "body": body, **more}, bot.publish_key.text)
    return sent.json["id"]


def test_everything_is_found_by_its_names_and_addresses(service, bot, ask):
    trader = traders.create_trader("Orla Margin", "momentum", NOW)
    Token.create(mint=MINT, symbol="TARN", name="Mountain Lake")
    # A token that only a wallet moved has no name.
    service.observe_trade(WALLET, "bought", 1, mint=address("moved"))
    post = publish(service, bot, "1", "Purchased.", signature=signature("bought"))
    for query in ("quickstep", "NELL", "@nell-quick", WALLET):
        assert ask(query)[0] == ("bot", bot.bot.uid), query
        assert bot.bot.uid in service.get("/search", query_string={"q": query}).text
    for query in ("tarn", "$TARN", "mountain", MINT):
        assert ask(query) == [("token", MINT)], query
    assert ask("margin") == [("trader", trader.trader.uid)]
    assert ask(address("moved")) == [("token", address("moved"))]
    assert ask(signature("bought")) == [("trade", "trade_bought"), ("post", post)]
    assert ask(WALLET) == [("bot", bot.bot.uid)]
    assert ask(address("somebody else")) == []


def test_an_exact_name_comes_first(service, bot, ask):
    service.make_bot("Anelly")
    exact = service.make_bot("Nell")
    assert ask("nell")[0] == ("bot", exact.bot.uid)


def test_posts_match_all_words_in_any_case(service, bot, ask):
    first = publish(service, bot, "1", "Thinking about Marmalade and toast.")
    second = publish(service, bot, "2", "No marmalade/today: café.", symbol="TARN", reason="hunger")
    assert ask("marmalade") == [("post", second), ("post", first)]
    assert ask("TOAST marmalade") == [("post", first)]
    assert ask("marmalade tarn hunger") == [("post", second)]
    assert ask("marma") == []


def test_hidden_text_leaves_the_index(service, bot, ask):
    post = publish(service, bot, "1", "Thinking about marmalade.", reason="quincetree")
    hide_post(post, NOW)
    assert ask("marmalade") == ask("quincetree") == []


@ground.sqlite_only
def test_hidden_text_leaves_the_files_after_any_index_merges(service, bot):
    kept = [publish(service, bot, f"a{n}", f"filler{n} marmaladium{n}") for n in range(60)]
    for n in range(300):
        publish(service, bot, f"b{n}", f"other{n} words{n % 7}")
    for uid in kept:
        hide_post(uid, NOW)
    files = [path.read_bytes() for path in service.config.data_dir.glob("app.db*")]
    assert files and not any(b"marmaladium" in raw for raw in files)


def test_no_query_syntax_is_an_error(service, bot, ask):
    publish(service, bot, "1", "Some words.")
    words = ("a AND", "NEAR(a b)", "body:x", "-a", "^a", "a\0b", "😀", ")(")
    for query in (*words, *"\"*%_!'@"):
        ask(query)
        page = service.get("/search", query_string={"q": query})
        assert page.status_code == 200, query


def test_percent_signs_and_underscores_are_literal(service, bot, ask):
    percent = service.make_bot("100% sure")
    assert ask("100%") == [("bot", percent.bot.uid)]
    assert ask("N_ll") == []


def test_a_query_without_words_is_an_api_error_and_a_page_hint(service, bot):
    key = bot.publish_key.text
    for path in ("/api/v1/search", "/api/v1/search?q=%20", f"/api/v1/search?q={'a' * 201}"):
        answer = service.get(path, key)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter"), path
    assert "Type a bot’s name" in service.get("/search").text


def test_a_key_is_neither_searched_for_nor_shown(service, bot):
    key = bot.publish_key.text
    page = service.get("/search", query_string={"q": key})
    assert page.status_code == 422 and key not in page.text
    told = service.get("/api/v1/search", key, query_string={"q": key})
    assert told.status_code == 400 and key not in told.text


def test_result_pages_list_everything_once(service, bot):
    Token.create(mint=MINT, symbol="NELL")
    said = [publish(service, bot, str(n), f"nell says {n}") for n in range(5)]
    rows = service.pages("/api/v1/search?q=nell", bot.publish_key.text, 2)
    assert [row["id"] for row in rows] == [bot.bot.uid, MINT, *reversed(said)]
    one_by_one = service.pages("/api/v1/search?q=nell", bot.publish_key.text, 1)
    assert [row["id"] for row in one_by_one] == [row["id"] for row in rows]


def test_the_page_links_to_older_posts(service, bot):
    said = [publish(service, bot, str(n), f"marmalade {n}") for n in range(23)]
    first = service.get("/search?q=marmalade").text
    assert said[-1] in first and said[0] not in first and "before=" in first


def test_search_needs_a_key_and_counts_as_a_request(service, bot):
    assert service.get("/api/v1/search?q=a").status_code == 401
    key = bot.publish_key.text
    before, after = (service.get("/api/v1/search?q=a", key) for _ in range(2))
    left = [int(one.headers["RateLimit-Remaining"]) for one in (before, after)]
    assert left[0] - left[1] == 1


def test_strangers_names_are_escaped(service, bot):
    Token.create(mint=MINT, symbol="<b>TARN</b>", name="<script>1</script>")
    page = service.get("/search?q=tarn").text
    page_by_name = service.get("/search?q=script").text
    assert "<b>TARN" not in page and "&lt;b&gt;TARN" not in page
    assert "<script>1" not in page_by_name and "&lt;script&gt;1" in page_by_name


def test_extra_search_words_do_no_harm(service, bot, ask):
    post = publish(service, bot, "1", "one two three four five six seven eight")
    assert ask("one two three four five six seven eight nine") == [("post", post)]
    assert search.MAX_WORDS == 8


def test_a_bots_name_finds_its_posts(service, bot):
    said = publish(service, bot, "e", "Nothing about names.")
    page = service.get("/search?q=nell").text
    assert f'data-post="{said}"' in page and "Latest posts by" in page
