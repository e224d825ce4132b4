"use strict";
// Fetches the page itself every few seconds, and puts its contents in place of the old; what is unfolded stays so.
const button = document.createElement("button");
let paused = false;
button.type = "button";
const label = () => { button.textContent = paused ? "Go on" : "Pause"; };
button.addEventListener("click", () => { paused = !paused; label(); });
label();
document.querySelector("h1").append(button);
async function renew() {
  if (paused || document.hidden) return;
  const at = document.getElementById("at");
  let text;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error();
    text = await answer.text();
  } catch {
    at.textContent = at.dataset.when + "; the server does not answer";
    return;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const now = document.activeElement ? document.activeElement.id : "";
  for (const part of ["summary", "main"]) {
    const old = document.getElementById(part), fresh = page.getElementById(part);
    for (const each of fresh.querySelectorAll("details[id]")) {
      const known = document.getElementById(each.id);
      if (known) each.open = known.open;
    }
    const scrolled = new Map([...old.querySelectorAll(".scroll[id]")].map((each) => [each.id, each.scrollLeft]));
    old.replaceWith(fresh);
    for (const [id, left] of scrolled) { const each = document.getElementById(id); if (each) each.scrollLeft = left; }
  }
  document.title = page.title;
  if (now && document.getElementById(now)) document.getElementById(now).focus({ preventScroll: true });
}
setInterval(renew, 10000);
