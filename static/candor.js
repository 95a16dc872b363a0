// What a script adds to pages that work without it: copy buttons, news of the feed, a preview, a test post, a wallet's signature.
"use strict";

document.documentElement.classList.add("js");
const all = (selector, scope = document) => [...scope.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// ---- copy the text of an element, with its label where it has one -------------------------------------------------------------------
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

// ---- send a form once, however often its button is pressed -----------------------------------------------------------------
const enableButtons = (form, on) => all("button", form).forEach((button) => { button.disabled = !on; });
all("form[data-once]").forEach((form) => form.addEventListener("submit", () => setTimeout(() => enableButtons(form, false))));
addEventListener("pageshow", () => all("form[data-once]").forEach((form) => enableButtons(form, true)));

// ---- the answer to a form: reloading it must not send the form again ------------------------------------------
if (one("[data-place]")) history.replaceState(null, "", one("[data-place]").dataset.place);

// ---- follow the feed: count new posts, update changed labels --------------------------------------------------------------
const FOLLOW_MS = 15000;
const followed = one("[data-follow]");

function updateLabel(item) {
  const label = one(`[data-post="${CSS.escape(item._candor.post)}"] .trust`);
  if (!label || label.classList.contains(`trust-${item._candor.trust}`)) return;
  const post = label.closest(".post");
  post.style.minHeight = `${post.offsetHeight}px`;
  label.className = `trust trust-${item._candor.trust}`;
  post.className = `post post-${item._candor.trust}`;
  label.title = item._candor.detail;
  label.querySelector("use").setAttribute("href", `#is-${item._candor.trust}`);
  label.querySelector("span").textContent = item._candor.label;
  const why = post.querySelector(".why");
  if (why) why.textContent = item._candor.detail;
}

async function follow() {
  if (document.hidden) return;
  const answer = await fetch(followed.dataset.follow).catch(() => null);
  if (!answer || !answer.ok) return;
  const { items } = await answer.json();
  const known = new Set(all("[data-post]").map((post) => post.dataset.post));
  items.forEach(updateLabel);
  const first = items.findIndex((item) => known.has(item._candor.post));
  const fresh = first < 0 ? items.length : first;
  if (!fresh) return;
  const link = one(".news a");
  link.textContent = `${fresh}${first < 0 && fresh > 1 ? " or more" : ""} new ${fresh === 1 ? "post" : "posts"}: show`;
  link.hidden = false;
}
if (followed) setInterval(follow, FOLLOW_MS);

// ---- preview a bot while one types -------------------------------------------------------------------------------------------------
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

// ---- send a test post with the key on this page ------------------------------------------------------------------------------------
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
    link.textContent = "It is there. See it";
    link.href = `${posts.replace("/api/v1/", "/")}/${body.id}`;
    link.target = "_blank";
    result.replaceChildren(answer.ok ? link : `Refused: ${body.detail}`);
  } catch {
    result.textContent = "This instance could not be reached. Try again.";
  }
  button.disabled = false;
});

// ---- sign with the wallet in this browser ----------------------------------------------------------------------------------
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
