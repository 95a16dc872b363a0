// Fills in the code of a claim link, and removes it from the address bar and the history.
"use strict";

const code = document.getElementById("f-code");
if (code && location.hash.length > 1) {
  code.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
}
