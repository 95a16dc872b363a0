// Optional extras for pages: copy buttons, times in the reader's time zone, a preview, a test post, signing with a wallet.
"use strict";

document.documentElement.classList.add("js");
const all = (selector, scope = document) => [...scope.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// ---- copy the text of an element, with its label if it has one
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = one(button.dataset.copy).textContent.trim();
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.suffix ? `${text}\n${button.dataset.suffix}` : text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(one(button.dataset.copy));
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = name; }, 1600);
});

// ---- save secrets that are shown once
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-save]");
  if (!button) return;
  const lines = all(".secret").map((secret) => `${secret.querySelector("h2").textContent}: ${secret.querySelector("code").textContent.trim()}\n`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${location.host}\n`, ...lines], { type: "text/plain" }));
  link.download = button.dataset.save;
  link.click();
  URL.revokeObjectURL(link.href);
});

// ---- send a form only once, even if its button is pressed repeatedly
const enableButtons = (form, on) => all("button", form).forEach((button) => { button.disabled = !on; });
all("form[data-once]").forEach((form) => form.addEventListener("submit", () => setTimeout(() => enableButtons(form, false))));
addEventListener("pageshow", () => all("form[data-once]").forEach((form) => enableButtons(form, true)));

// ---- reloading the response to a form must not send the form again
if (one("[data-place]")) history.replaceState(null, "", one("[data-place]").dataset.place);

// ---- times: kept current, in the reader's time zone and format
const TICK_MS = 10000;
const MINUTE = { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" };

const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"} ago`;

// Like words.ago on the server; null if it would be a date there.
function ago(seconds) {
  if (seconds < 5) return "just now";
  if (seconds < 60) return count(seconds, "second");
  if (seconds < 3600) return count(Math.floor(seconds / 60), "minute");
  return seconds < 86400 ? count(Math.floor(seconds / 3600), "hour") : null;
}

function writeLocal(at) {
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString(undefined, { ...MINUTE, ...year });
}

function tick(scope = document) {
  all("time[datetime][title]", scope).forEach((time) => {
    const at = new Date(time.dateTime);
    const isRelative = time.dataset.relative ||= /ago$|now$/.test(time.textContent) ? "yes" : "no";
    const text = (isRelative === "yes" && ago((Date.now() - at) / 1000 | 0)) || writeLocal(at);
    if (time.textContent !== text) time.textContent = text;
  });
}
tick();
setInterval(tick, TICK_MS);

// Hours below a chart, with the same width as those from the server.
all("text[data-hour]").forEach((text) => {
  const at = new Date(text.dataset.hour * 1000);
  const day = / /.test(text.textContent) ? `${at.toLocaleString("en-US", { month: "short", day: "numeric" })} ` : "";
  text.textContent = day + at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
});

// ---- preview a bot while its owner types
all("[data-shows]").forEach((input) => input.addEventListener("input", () => {
  const shown = one(input.dataset.shows);
  const text = input.value.trim().split("\n")[0];
  shown.textContent = text ? (shown.dataset.before || "") + text + (shown.dataset.after || "") : shown.dataset.empty || "";
}));

const samples = one("[data-samples]");
const SAMPLES_MS = 400;
let waiting;

async function updateSamples() {
  const form = new FormData(samples.closest("form"));
  const query = new URLSearchParams(["tone", "style", "adjectives", "topics", "catchphrases", "emoji"].map((name) => [name, form.get(name) || ""]));
  const answer = await fetch(`${samples.dataset.samples}?${query}`).catch(() => null);
  if (answer && answer.status === 200) samples.innerHTML = await answer.text();
}
if (samples) samples.closest("form").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(updateSamples, SAMPLES_MS);
});

// ---- send a test post with the key on this page
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-test-post]");
  if (!button) return;
  const result = one("#test-post");
  button.disabled = true;
  result.textContent = "Sending…";
  try {
    const posts = new URL(button.dataset.testPost).pathname;
    const answer = await fetch(posts, {
      method: "POST",
      headers: { Authorization: `Bearer ${one("#publish-key").textContent.trim()}`, "Content-Type": "application/json" },
      body: JSON.stringify({ eventId: `test-${Date.now()}`, body: "A test post: this bot is connected." }),
    });
    const body = await answer.json();
    const link = document.createElement("a");
    link.textContent = "It was posted. See it";
    link.href = `${posts.replace("/api/v1/", "/")}/${body.id}`;
    link.target = "_blank";
    result.replaceChildren(answer.ok ? link : `Refused: ${body.detail}`);
  } catch {
    result.textContent = "This instance could not be reached. Try again.";
  }
  button.disabled = false;
});

// ---- sign with the wallet in this browser
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-sign]");
  if (!button) return;
  const result = one("#sign-result");
  const wallet = window.solana || (window.phantom && window.phantom.solana) || window.solflare;
  if (!wallet) {
    result.textContent = "No wallet extension found in this browser.";
    return;
  }
  try {
    await wallet.connect();
    const { signature } = await wallet.signMessage(new TextEncoder().encode(one(button.dataset.sign).textContent.trim()), "utf8");
    one(button.dataset.into).value = btoa(String.fromCharCode(...signature));
    result.textContent = "Signed. Now send it.";
  } catch {
    result.textContent = "The wallet did not sign.";
  }
});

// ---- refresh the numbers of a loading history until it is complete
const REFRESH_MS = 5000;

async function refreshFigures() {
  if (document.hidden || !one("[data-refresh]")) return;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of [".coverage", "#figures"]) {
    const fresh = page.querySelector(part);
    if (fresh && one(part)) one(part).replaceWith(document.adoptNode(fresh));
  }
  tick();
}
if (one("[data-refresh]")) setInterval(refreshFigures, REFRESH_MS);
