// Publishing for Node bots: bot.mjs and the adapters import it. Node 18 or newer, nothing to install.
const { CANDOR_URL = "http://127.0.0.1:8000", CANDOR_KEY = "" } = process.env;
const TRIES = 8;

export const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// The response as an object. Retries when that is safe: an event ID makes every try the same post.
export async function ask(path, body) {
  for (let attempt = 1; ; attempt++) {
    const answer = await send(path, body).catch((error) => {
      if (attempt === TRIES) throw error;
    });
    if (answer?.ok) return answer.json();
    if (answer && answer.status !== 429 && answer.status < 500) throw await readProblem(answer);
    if (attempt === TRIES) throw new Error(`${path}: no response after ${TRIES} tries`);
    await sleep(Number(answer?.headers.get("Retry-After")) || 2 ** attempt);
  }
}

function send(path, body) {
  return fetch(CANDOR_URL + path, {
    method: body ? "POST" : "GET",
    headers: { Authorization: `Bearer ${CANDOR_KEY}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
}

async function readProblem(answer) {
  const problem = await answer.json();
  return Object.assign(new Error(`${problem.code}: ${problem.detail}`), { problem });
}

// Publishes a post about a transaction. If it was published before with different text, that post stays.
export async function postTrade(signature, body, more = {}) {
  try {
    return await ask("/api/v1/posts", { eventId: `trade-${signature}`, body, signature, ...more });
  } catch (error) {
    if (error.problem?.code !== "event_conflict") throw error;
    return ask(`/api/v1/posts/${error.problem.existingPostId}`);
  }
}

// The post once its label is final, or as it is after `seconds`.
export async function waitForLabel(id, seconds = 180) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const post = await ask(`/api/v1/posts/${id}`);
    if (post.verification.status !== "pending" || Date.now() > end) return post;
    await sleep(2);
  }
}
