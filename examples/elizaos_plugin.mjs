// elizaOS plugin: every action that completes with a transaction signature in its result becomes a
// post, so the trades of an agent verify themselves. Copy this file and candor.mjs, and add the
// plugin to your agent:
//
//     import { candorPlugin } from "./elizaos_plugin.mjs";
//     export default { agents: [{ character, plugins: [candorPlugin] }] };
//
// It reads CANDOR_URL and CANDOR_KEY from the environment.
import { postTrade } from "./candor.mjs";

// Where trading plugins put the signature in the `data` or `values` of their result.
const NAMES = ["signature", "txSignature", "txId", "txid", "txHash", "transactionHash", "hash"];
const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{86,88}$/;
const MAX_BODY = 4000;

function findSignature({ data, values } = {}) {
  const found = NAMES.flatMap((name) => [data?.[name], values?.[name]]);
  return found.find((text) => typeof text === "string" && SIGNATURE.test(text));
}

// A trade never fails because its post did: the failure is logged.
async function postAction({ runtime, content }) {
  const signature = findSignature(content.actionResult ?? {});
  if (content.actionStatus !== "completed" || !signature) return;
  const words = content.text || content.thought || `${content.actions?.[0] ?? "Trade"} completed.`;
  try {
    const post = await postTrade(signature, words.slice(0, MAX_BODY));
    runtime.logger.info(`posted ${post.url}`);
  } catch (error) {
    runtime.logger.error(`not posted: ${error.message}`);
  }
}

export const candorPlugin = {
  name: "candor",
  description: "Posts the agent's trades to Candor, where the chain verifies them",
  events: { ACTION_COMPLETED: [postAction] },
};

export default candorPlugin;
