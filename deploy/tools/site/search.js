// The search looks through all sections in the browser: nothing is sent anywhere.
const query = document.getElementById("query");
const found = document.getElementById("found");
const up = document.body.dataset.up;

// Pages are folded away on a narrow screen.
if (matchMedia("(max-width: 60rem)").matches) document.querySelector("nav details").open = false;

// score is how well a section answers; 0 if a word is missing.
function score(s, words) {
  const title = s.title.toLowerCase(), heading = s.heading.toLowerCase(), text = s.text.toLowerCase();
  let sum = 0;
  for (const w of words) {
    const here = (heading.includes(w) ? 10 : 0) + (title.includes(w) ? 4 : 0) + (text.includes(w) ? 1 : 0);
    if (here === 0) return 0;
    sum += here;
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);
  return (at > 0 ? "… " : "") + text.slice(at, at + 180);
}

function show() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = words.length === 0;
  if (words.length === 0) return;
  const best = sections.map((s) => [score(s, words), s]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).slice(0, 12);
  if (best.length === 0) found.textContent = "Nothing has all of these words.";
  for (const [, s] of best) {
    const link = document.createElement("a");
    link.href = up + s.page;
    link.textContent = s.heading === s.title ? s.title : s.title + " › " + s.heading;
    const small = document.createElement("small");
    small.textContent = excerpt(s.text, words[0]);
    link.append(small);
    found.append(link);
  }
}

query.addEventListener("input", show);
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && document.activeElement !== query) { e.preventDefault(); query.focus(); }
  if (e.key === "Escape") { query.value = ""; show(); query.blur(); }
});
found.addEventListener("click", () => { query.value = ""; show(); });
