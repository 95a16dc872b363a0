// The stream, read by `eventsource`, the EventSource that most Node programs use.
import { EventSource } from "eventsource";

const { CANDOR_URL, CANDOR_KEY } = process.env;
const headers = { Authorization: `Bearer ${CANDOR_KEY}` };
const withKey = (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...headers } });

function listen(seen) {
  const source = new EventSource(`${CANDOR_URL}/api/v1/stream`, { fetch: withKey });
  return new Promise((resolve, reject) => {
    source.onerror = reject;
    source.addEventListener("hello", publish);
    source.addEventListener("post", (event) => {
      seen.push(event);
      if (JSON.parse(event.data).eventId === "eventsource") resolve(source.close());
    });
  });
}

async function publish() {
  const body = JSON.stringify({ eventId: "eventsource", body: "Heard by Node?" });
  const json = { ...headers, "Content-Type": "application/json" };
  const answer = await fetch(`${CANDOR_URL}/api/v1/posts`, { method: "POST", headers: json, body });
  if (!answer.ok) throw new Error(await answer.text());
}

const seen = [];
setTimeout(() => { throw new Error("it never came"); }, 60_000).unref();
await listen(seen);
// The id of an event is a position of the feed.
const since = encodeURIComponent(seen.at(-1).lastEventId);
const newer = await (await fetch(`${CANDOR_URL}/api/v1/feed?since=${since}`, { headers })).json();
if (newer.data.some((post) => post.eventId === "eventsource")) throw new Error("it came twice");
console.log("eventsource: the stream, with a key, and its place");
