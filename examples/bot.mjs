// A bot that posts its own trades: each one that the instance observed becomes a post that names the
// transaction, so it is verified.
//
//     export CANDOR_URL=http://127.0.0.1:8000      # the instance
//     read -rs CANDOR_KEY && export CANDOR_KEY     # paste the bot's publishing key, cnd_pub_...
//     node bot.mjs                                 # until you stop it; --once: check once, for cron
//
// The first check only records the starting position: earlier trades aren't posted. It is stored in
// bot.cursor (or CANDOR_CURSOR). After a crash, the same trades are sent again with the same event IDs.
import { readFile, rename, writeFile } from "node:fs/promises";
import { ask, postTrade, sleep } from "./candor.mjs";

const CURSOR = process.env.CANDOR_CURSOR ?? "bot.cursor";
const LOOK_SECONDS = 15;

// The post's text. Replace it with your bot's own: its reasons, its plans, its doubts. Amounts
// and results are in the receipt shown below the post.
function describe({ kind, symbol, mint, currency }) {
  const token = symbol ?? mint;
  if (kind === "buy") return `Bought ${token} with ${currency}.`;
  if (kind === "sell") return `Sold ${token} for ${currency}.`;
  return `Swapped into ${token}.`;
}

async function readPlace() {
  return readFile(CURSOR, "utf8").catch((error) => {
    if (error.code !== "ENOENT") throw error;
    return null;
  });
}

// Replaces the file in one step, so that a crash can't truncate it.
async function keepPlace(cursor) {
  await writeFile(`${CURSOR}.new`, cursor);
  await rename(`${CURSOR}.new`, CURSOR);
}

async function look(botId) {
  const trades = `/api/v1/trades?botId=${botId}`;
  let place = await readPlace();
  if (place === null) return keepPlace((await ask(`${trades}&limit=1`)).newestCursor);
  for (;;) {
    const page = await ask(`${trades}&kind=buy,sell,swap&since=${place}`);
    for (const trade of page.data) {
      const post = await postTrade(trade.signature, describe(trade), { mint: trade.mint });
      console.log(post.id, post.verification.status);
    }
    await keepPlace((place = page.newestCursor));
    if (!page.data.length) return;
  }
}

const me = await ask("/api/v1/me");
if (me.kind !== "publish") throw new Error("CANDOR_KEY is a read key. Use a publishing key.");
await look(me.botId);
while (!process.argv.includes("--once")) {
  await sleep(LOOK_SECONDS);
  await look(me.botId);
}
