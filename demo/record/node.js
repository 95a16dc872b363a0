// Surfpool, a Solana node in one process, without a network: `node node.js FILE` writes {rpc, payer} to FILE and runs until it is ended.
const { Surfnet } = require("@solana/surfpool-linux-x64-gnu");
const { writeFileSync } = require("node:fs");

const node = Surfnet.startWithConfig({ offline: true, blockProductionMode: "clock", slotTimeMs: 60, airdropSol: 1e14 });
writeFileSync(process.argv[2], JSON.stringify({ rpc: node.rpcUrl, payer: [...node.payerSecretKey] }));   // a key of this run alone

setInterval(() => node.drainEvents(), 100);               // its event queue is bounded: full, it would stand still
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => { node.stop(); process.exit(0); });
}
