// Checks in the reader's browser that a post is in the log, without trusting the server that shows it.
"use strict";

const shown = (name) => document.querySelector(`[data-proof="${name}"]`).textContent.trim();
const verdict = document.querySelector("#proof-verdict");
const breaker = document.querySelector("#proof-break");
const ORIGINAL_NAME = breaker.textContent;
const bytesOf = (text) => new TextEncoder().encode(text);
const fromBase64 = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
const toHex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const isSame = (left, right) => toHex(left) === toHex(right);

function join(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}

const hash = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
const hashChildren = (left, right) => hash(Uint8Array.of(1), left, right);

// RFC 9162, section 2.1.3.2: the root at the end of the path from the leaf, or null.
async function followPath(leafHash, index, size, path) {
  let [place, last, found] = [index, size - 1, leafHash];
  if (place > last) return null;
  for (const step of path) {
    if (last === 0) return null;
    if (place % 2 === 1 || place === last) {
      found = await hashChildren(step, found);
      while (place % 2 === 0 && place !== 0) { place /= 2; last = Math.floor(last / 2); }
    } else {
      found = await hashChildren(found, step);
    }
    place = Math.floor(place / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 ? found : null;
}

// c2sp.org/signed-note: the text, an empty line, and lines "— NAME base64(key id, signature)".
async function isSigned(note, key) {
  const at = note.lastIndexOf("\n\n");
  const [text, lines] = [note.slice(0, at + 1), note.slice(at + 2).split("\n")];
  const [name, id, encoded] = [key.split("+")[0], key.split("+")[1], key.split("+").slice(2).join("+")];
  const line = lines.map((one) => one.split(" ")).find((one) => one[1] === name && toHex(fromBase64(one[2]).slice(0, 4)) === id);
  if (!line) return false;
  const raw = fromBase64(encoded).slice(1);
  const imported = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, imported, fromBase64(line[2]).slice(4), bytesOf(text));
}

// The sentences of a check; the first one is the verdict.
async function check(leaf) {
  const note = shown("checkpoint");
  const [, size, root] = note.split("\n");
  const path = shown("path").split("\n").filter(Boolean).map(fromBase64);
  const found = await followPath(await hash(Uint8Array.of(0), leaf), Number(shown("index")), Number(size), path);
  if (found === null || !isSame(found, fromBase64(root))) return ["Not in the log:", "the path from this entry does not lead to the signed root."];
  const words = document.querySelector('[data-proof="words"]');
  if (words) {
    const logged = JSON.parse(new TextDecoder().decode(leaf)).words;
    if (logged !== toHex(await hash(bytesOf(shown("words"))))) return ["Not what was logged:", "the hash in the entry is not the hash of these words."];
  }
  const steps = `${path.length === 1 ? "One hash leads" : `${path.length} hashes lead`} from this entry to the root of ${size} entries${words ? ", and the entry contains the hash of these words" : ""}`;
  try {
    if (!(await isSigned(note + "\n", shown("key")))) return ["Not signed:", "the checkpoint lacks the log’s signature."];
  } catch {
    return ["In the log:", `${steps}. This browser cannot check the signature (Ed25519).`];
  }
  return ["In the log:", `${steps}. The log’s key signed that root.`];
}

async function show(leaf) {
  const [head, rest] = await check(leaf);
  verdict.textContent = `${head} ${rest}`;
  verdict.dataset.holds = String(head === "In the log:");
}

function changeOneByte(leaf) {
  const changed = leaf.slice();
  changed[changed.length - 3] ^= 1;
  return changed;
}

if (globalThis.crypto && crypto.subtle) {
  const leaf = bytesOf(shown("leaf"));
  let isBroken = false;
  breaker.hidden = false;
  breaker.addEventListener("click", () => {
    isBroken = !isBroken;
    breaker.textContent = isBroken ? "Put it back" : ORIGINAL_NAME;
    show(isBroken ? changeOneByte(leaf) : leaf);
  });
  show(leaf);
} else {
  verdict.textContent = "Browsers check proofs on https:// pages only. The command below does the same.";
}
