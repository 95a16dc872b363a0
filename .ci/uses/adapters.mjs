// The adapters of examples/, each inside the framework it is for.
import assert from "node:assert";
import { AgentRuntime } from "@elizaos/core";
import { Keypair } from "@solana/web3.js";
import { KeypairWallet, SolanaAgentKit, executeAction } from "solana-agent-kit";
import { ask } from "./candor.mjs";
import { candorPlugin } from "./elizaos_plugin.mjs";
import { CandorPlugin } from "./solana_agent_kit.mjs";

const trades = await ask(`/api/v1/trades?botId=${process.env.CANDOR_BOT}&kind=trade&limit=6`);
const [first, second] = trades.data.slice(-2).map((trade) => trade.signature);
const find = async (signature) =>
  (await ask("/api/v1/feed?limit=20")).data.find((post) => post.signature === signature);

const runtime = new AgentRuntime({ character: { name: "Nell", bio: "" } });
await runtime.registerPlugin(candorPlugin);
const complete = (data, status = "completed") =>
  runtime.emitEvent("ACTION_COMPLETED", {
    content: { text: "Swapped.", actions: ["SWAP"], actionStatus: status, actionResult: { success: true, data } },
  });
await complete({ note: "nothing was traded" });
await complete({ signature: first }, "failed");
assert.equal(await find(first), undefined);
await complete({ signature: first });
const post = await find(first);
assert.deepEqual([post.body, post.verified], ["Swapped.", true]);

const wallet = new KeypairWallet(Keypair.generate(), process.env.SOLANA_RPC_URLS);
const agent = new SolanaAgentKit(wallet, process.env.SOLANA_RPC_URLS, {}).use(CandorPlugin);
const action = agent.actions.find((one) => one.name === "CANDOR_POST_TRADE");
const input = { signature: second, body: "Swapped again.", reason: "a test" };
const done = await executeAction(action, agent, input);
assert.deepEqual([done.status, done.label], ["success", "verified"]);
assert.equal((await agent.methods.postTrade(agent, second, "Swapped again.")).url, done.url);
console.log("elizaOS and Solana Agent Kit: a verified post each");
process.exit(0);
