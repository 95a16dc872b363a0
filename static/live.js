// Live feed: inserts new posts and updates changed labels. Without a stream, the page is polled.
"use strict";

// In its own block, because candor.js declares the same names.
{
const POLL_MS = 15000, RETRY_MS = 60000, GATHER_MS = 700;
const list = document.querySelector("[data-live]");
const news = document.querySelector(".news a");
const title = document.title;
let waiting = [], gathering = 0, refreshed = -GATHER_MS, polling = 0, source = null;
// The number of page requests, and the one whose response is shown.
let asked = 0, shown = 0;

const articlesOf = (scope) => [...scope.querySelectorAll("[data-post]")];

// A post's text, without its changing time.
function textOf(article) {
  const copy = article.cloneNode(true);
  copy.querySelectorAll("time").forEach((time) => time.remove());
  return copy.className + copy.textContent.replace(/\s+/g, " ");
}

function exchange(old, article) {
  // Don't move the page while someone is reading it.
  article.style.minHeight = `${old.offsetHeight}px`;
  article.querySelectorAll("details").forEach((details, n) => { details.open = Boolean(old.querySelectorAll("details")[n]?.open); });
  old.replaceWith(article);
}

function tell(text) {
  document.title = waiting.length ? `(${waiting.length}) ${title}` : title;
  news.hidden = !waiting.length;
  news.textContent = text;
}

async function refresh() {
  const turn = ++asked;
  gathering = 0;
  refreshed = performance.now();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return;
  const text = await answer.text();
  // Ignore a response that arrives after a later one.
  if (turn < shown) return;
  shown = turn;
  const parsed = new DOMParser().parseFromString(text, "text/html");
  tick(parsed);
  const page = articlesOf(parsed);
  const known = new Map(articlesOf(list).map((article) => [article.dataset.post, article]));
  page.forEach((article) => {
    const old = known.get(article.dataset.post);
    if (old && textOf(old) !== textOf(article)) exchange(old, document.adoptNode(article));
  });
  const first = page.findIndex((article) => known.has(article.dataset.post));
  waiting = first < 0 ? page : page.slice(0, first);
  const more = first < 0 && known.size > 0;
  news.dataset.reload = more ? "yes" : "";
  if (waiting.length) tell(`${waiting.length}${more ? " or more" : ""} new ${waiting.length === 1 && !more ? "post" : "posts"}: show`);
}

news.addEventListener("click", (event) => {
  if (news.dataset.reload) return;
  event.preventDefault();
  list.querySelector(".empty")?.remove();
  const fresh = waiting.map((article) => document.adoptNode(article));
  list.prepend(...fresh);
  waiting = [];
  tell("");
  scrollTo({ top: Math.max(0, list.getBoundingClientRect().top + scrollY - 80) });
  fresh[0].tabIndex = -1;
  fresh[0].focus({ preventScroll: true });
});

// Handle the first event immediately and batch the ones that follow.
function gather() {
  if (!gathering) gathering = setTimeout(refresh, Math.max(0, refreshed + GATHER_MS - performance.now()));
}

function poll() {
  if (!document.hidden) refresh();
}

function follow() {
  clearInterval(polling);
  polling = setInterval(poll, POLL_MS);
  // The stream only has posts by wallet bots.
  if (!list.dataset.live || !window.EventSource) return;
  source = new EventSource(list.dataset.live);
  source.addEventListener("post", gather);
  source.addEventListener("verification", gather);
  source.onopen = () => clearInterval(polling);
  source.onerror = () => {
    clearInterval(polling);
    polling = setInterval(poll, POLL_MS);
    // Otherwise the browser reconnects on its own.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, RETRY_MS);
  };
}

if (list) {
  addEventListener("pageshow", follow);
  addEventListener("pagehide", () => source?.close());
}
}
