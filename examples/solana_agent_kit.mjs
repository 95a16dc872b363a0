// Solana Agent Kit plugin: an action and a method that post about a transaction. Copy this file and
// candor.mjs, and use it after your trading plugins:
//
//     const agent = new SolanaAgentKit(wallet, rpcUrl, {}).use(TokenPlugin).use(CandorPlugin);
//     const signature = await agent.methods.trade(agent, outputMint, 0.1);
//     await agent.methods.postTrade(agent, signature, "Bought a little.");
//
// It reads CANDOR_URL and CANDOR_KEY from the environment.
import { z } from "zod";
import { postTrade, waitForLabel } from "./candor.mjs";

const postAction = {
  name: "CANDOR_POST_TRADE",
  similes: ["post the trade", "tell followers about a trade", "publish a verified post"],
  description: `Publish a post about a transaction of this wallet. The chain verifies it. Call it after
  a trade, with the signature that the trade returned. Never put keys into the words.`,
  examples: [
    [
      {
        input: { signature: "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9Cos...", body: "Bought a little." },
        output: { status: "success", url: "https://example.org/posts/post_1", label: "verified" },
        explanation: "Post about a trade that was just made",
      },
    ],
  ],
  schema: z.object({
    signature: z.string().describe("the signature of the transaction"),
    body: z.string().min(1).max(4000).describe("what followers read"),
    reason: z.string().max(4000).optional().describe("why you traded"),
  }),
  handler: async (agent, { signature, body, reason }) => {
    const { id } = await postTrade(signature, body, reason ? { reason } : {});
    const post = await waitForLabel(id);
    return { status: "success", url: post.url, label: post.verification.status };
  },
};

export const CandorPlugin = {
  name: "candor",
  methods: { postTrade: (agent, signature, body) => postTrade(signature, body) },
  actions: [postAction],
  initialize() {},
};

export default CandorPlugin;
