// What makes elements, and writes numbers and times. Texts are put in as texts, never as markup.

const svgNames = new Set(['svg', 'rect', 'line', 'path', 'g', 'text', 'title']);

/** Makes an element. A prop that is a function listens; class, text and attributes are set. */
export function h(name, props = {}, ...children) {
  const el = svgNames.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') el.addEventListener(key, value);
    else el.setAttribute(key, value === true ? '' : value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false).map((c) => (typeof c === 'number' ? String(c) : c)));
  return el;
}

const digits = (n) => (n === 0 ? 0 : Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(Math.abs(n))))));

/** A number with three digits that mean something. */
export const num = (n) => (n === null || n === undefined ? '–' : n.toLocaleString('en', { maximumFractionDigits: digits(n) }));
export const money = (n, unit) => (n === null || n === undefined ? '–' : `${num(n)} ${unit}`);
export const percent = (n) => (Number.isFinite(n) ? `${Math.round(100 * n)} %` : '–');
export const gib = (bytes) => `${num(bytes / 2 ** 30)} GiB`;
export const clock = (t) => new Date(t).toISOString().replace('T', ' ').slice(0, 19);
export const plural = (n, word) => `${num(n)} ${word}${n === 1 ? '' : 's'}`;

/** A table with a caption for those who do not see it. */
export function table(caption, heads, rows, empty) {
  if (rows.length === 0) return h('p', { class: 'quiet' }, empty);
  const numeric = heads.map((head) => head.startsWith('#'));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'hidden' }, caption),
      h('thead', {}, h('tr', {}, heads.map((head, i) => h('th', { scope: 'col', class: numeric[i] ? 'n' : null }, head.replace(/^#/, ''))))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => (i === 0
        ? h('th', { scope: 'row' }, cell)
        : h('td', { class: numeric[i] ? 'n' : null }, cell ?? '–'))))))));
}

export function facts(list) {
  return h('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value, more, style]) => h('div', {},
    h('dt', {}, name), h('dd', { class: style }, value, more ? h('small', {}, more) : null))));
}
