// What a program does with the types that openapi-typescript generated, by openapi-fetch. It is
// type-checked before it is run: what should be text or may be left out is so for the compiler.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const [url, key] = [process.env.CANDOR_URL!, process.env.CANDOR_KEY!];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function check(holds: unknown, words: string): asserts holds {
  if (!holds) throw new Error(words);
}

// What need not be sent need not be written: it compiles without the other members.
const words: components["schemas"]["PostBody"] = { eventId: "ts-1", body: "Hello." };
// A refusal without the members of other refusals is whole.
const refusal: components["schemas"]["Problem"] = {
  type: "t", title: "t", status: 400, detail: "d", code: "c", requestId: "r" };
// What is paper mode's alone stays optional in the health of an instance that is down.
const dated: (trade: components["schemas"]["Trade"]) => number =
  (trade) => Date.parse(trade.eventAt ?? "");

async function main(): Promise<void> {
  const posted = await client.POST("/api/v1/posts", { body: words });
  check(posted.data && !posted.data.verified, "the post");
  const { data: again } = await client.POST("/api/v1/posts", { body: words });
  check(again?.id === posted.data.id, "the same post again");
  const { data: one } = await client.GET(
    "/api/v1/posts/{id}", { params: { path: { id: posted.data.id } } });
  check(one?.body === "Hello.", "its words");
  const { error } = await client.POST("/api/v1/posts", { body: { ...words, body: "Other." } });
  check(error?.code === "event_conflict" && error.existingPostId === one.id, "the conflict");
  check(refusal.errors === undefined, "no errors in another refusal");

  const { data: feed } = await client.GET("/api/v1/feed", { params: { query: { limit: 100 } } });
  check(feed?.data.some((other) => other.id === one.id), "the feed");
  const { data: trades } = await client.GET(
    "/api/v1/trades", { params: { query: { limit: 50 } } });
  const buy = trades?.data.find((trade) => trade.kind === "buy");
  check(buy?.signature && BigInt(buy.solChangeLamports) < 0n && dated(buy) > 0, "the trades");
  const { data: bots } = await client.GET("/api/v1/bots");
  const held = bots?.data.find((bot) => bot.wallet !== null);
  check(held?.results && held.coverage.receipts >= 0, "the influencers");
  const { data: detail } = await client.GET(
    "/api/v1/bots/{id}", { params: { path: { id: held.id } } });
  check(detail?.latestTrades?.[0]?.botId === held.id, "one influencer");
  const { data: board } = await client.GET(
    "/api/v1/leaderboard", { params: { query: { sort: "volume", window: "7d" } } });
  check(board?.data.length, "the leaderboard");
  const { data: market } = await client.GET("/api/v1/market");
  check(market?.data[0]?.checks.length, "the market");
  const { data: me } = await client.GET("/api/v1/me");
  check(me?.kind === "publish", "the key");
  const { data: health } = await client.GET("/api/health");
  check(health?.simulated && health.scout?.discovery.state, "health");
  const { data: traders } = await client.GET("/api/traders");
  check(traders?.data[0]?.strategy.sizeBps, "paper mode");
  console.log("openapi-typescript: type-checked, 13 requests");
}

main().catch((error) => { console.error(error); process.exit(1); });
