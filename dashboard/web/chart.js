// Lines over time, with labels where they end, a sentence that says the same, and the numbers.
import { h, num, clock } from './dom.js';

const height = 190, left = 52, right = 92, top = 10, bottom = 24;

/** The lowest round number that is not below v. */
function nice(v) {
  if (!(v > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((f) => f * power >= v * 0.999) * power;
}

const known = (values) => values.filter((v) => v !== null);

/** A line over what is known. It breaks where nothing is, unless it is of moments far apart. */
function path(line, x, y) {
  let d = '', pen = 'M';
  line.values.forEach((v, i) => {
    if (v !== null) d += `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    if (v !== null || !line.joined) pen = v === null ? 'M' : 'L';
  });
  return d;
}

/** Draws lines: {title, times, lines: [{name, values, joined}], marks, at, unit}. */
export function chart({ title, times, lines, marks = [], at, unit = '' }, width) {
  lines = lines.filter((l) => known(l.values).length > 0);
  if (times.length < 2 || lines.length === 0) return h('p', { class: 'quiet' }, `${title}: nothing was measured in this time.`);
  const ceiling = nice(lines.reduce((most, l) => l.values.reduce((m, v) => (v > m ? v : m), most), 0));
  const [first, last] = [times[0], times[times.length - 1]];
  const place = (t) => left + ((t - first) / (last - first)) * (width - left - right);
  const x = (i) => place(times[i]);
  const y = (v) => top + (1 - v / ceiling) * (height - top - bottom);
  const axis = [0, 0.5, 1].map((part) => [
    h('line', { x1: left, x2: width - right, y1: y(part * ceiling), y2: y(part * ceiling) }),
    h('text', { x: left - 6, y: y(part * ceiling) + 4, 'text-anchor': 'end' }, num(part * ceiling)),
  ]);
  const few = width < 520 ? [0, 1] : [0, 0.25, 0.5, 0.75, 1];
  const long = last - first > 86400;
  const days = few.map((part) => {
    const t = clock((first + part * (last - first)) * 1000);
    return h('text', { x: place(first + part * (last - first)), y: height - 6, 'text-anchor': part === 0 ? 'start' : part === 1 ? 'end' : 'middle' },
      long ? t.slice(5, 16) : t.slice(11, 16));
  });
  const ends = lines.map((l, i) => {
    const k = l.values.findLastIndex((v) => v !== null);
    return { i, name: l.name, y: y(l.values[k]), value: l.values[k] };
  }).sort((a, b) => a.y - b.y);
  ends.forEach((e, i) => { if (i > 0) e.y = Math.max(e.y, ends[i - 1].y + 13); });
  ends.reduceRight((floor, e) => (e.y = Math.min(e.y, floor)) - 13, height - bottom);
  const inside = (t) => t >= first && t <= last;
  const svg = h('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title, preserveAspectRatio: 'none' },
    h('g', { class: 'axis' }, axis, days),
    marks.filter((m) => inside(m.time)).map((m) => h('line', { class: 'mark', x1: place(m.time), x2: place(m.time), y1: top, y2: height - bottom }, h('title', {}, m.text))),
    lines.map((l, i) => h('path', { class: `l${i}`, d: path(l, x, y) })),
    at && inside(at) ? h('line', { class: 'cursor', x1: place(at), x2: place(at), y1: top, y2: height - bottom }) : null,
    ends.map((e) => h('text', { x: width - right + 6, y: e.y + 4 }, e.name)));
  return h('figure', { class: 'chart' },
    h('figcaption', {}, h('strong', {}, title), ` ${summary(lines, unit)}`), svg, numbers(title, times, lines, unit));
}

/** Says in a sentence where each line went. */
function summary(lines, unit) {
  return lines.map((l) => {
    const all = known(l.values);
    const [low, high] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    return `${l.name}: ${num(all[all.length - 1])}${unit} at the end, from ${num(low)} to ${num(high)}.`;
  }).join(' ');
}

/** The numbers as a table, of at most 24 moments. */
function numbers(title, times, lines, unit) {
  const body = h('tbody');
  const details = h('details', {
    toggle: () => {
      if (body.childElementCount > 0) return;
      const step = Math.max(1, Math.ceil(times.length / 24));
      for (let i = 0; i < times.length; i += step) {
        body.append(h('tr', {}, h('th', { scope: 'row' }, clock(times[i] * 1000)), lines.map((l) => h('td', { class: 'n' }, num(l.values[i])))));
      }
    },
  }, h('summary', {}, `Numbers: ${title}`), h('div', { class: 'scroll' }, h('table', {}, h('caption', { class: 'hidden' }, title),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'time'), lines.map((l) => h('th', { scope: 'col', class: 'n' }, l.name + unit)))), body)));
  return details;
}
