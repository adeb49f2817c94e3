// The page: which view at which time, kept in the address, and drawn anew when a record comes.
import { h, clock } from './dom.js';
import * as views from './views.js';
import { whatif } from './whatif.js';
import { approvals } from './actions.js';

const tabs = [['now', 'Now'], ['workloads', 'Workloads'], ['machines', 'Machines'], ['pending', 'Pending'], ['decisions', 'Decisions'], ['money', 'Money']];
const offered = { actions: ['approvals', 'Approvals'], 'what-if': ['whatif', 'What if'] };
const spans = [['1', '1 hour'], ['6', '6 hours'], ['24', '1 day'], ['168', '1 week'], ['720', '30 days']];
const el = (id) => document.getElementById(id);
let summary, drawing = 0, lost = false, playing, step = {};

/** What the address asks for: #/view/name?at=…&span=…. */
function asked() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, ...rest] = path.split('/');
  return { view: view || 'now', name: decodeURIComponent(rest.join('/')), params: Object.fromEntries(new URLSearchParams(search)) };
}

/** The address of a view, at a time or at the one that is shown. */
function link(view, at) {
  const { params } = asked(), keep = {};
  if (at ?? params.at) keep.at = at ?? params.at;
  if (params.span) keep.span = params.span;
  const search = new URLSearchParams(keep).toString();
  return `#/${view.split('/').map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

/** Changes the address' parameters. */
function go(changes) {
  const { view, name, params } = asked();
  const next = Object.fromEntries(Object.entries({ ...params, ...changes }).filter(([, v]) => v !== undefined));
  const search = new URLSearchParams(next).toString();
  location.hash = `#/${[view, ...name.split('/')].filter(Boolean).map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

const address = (what, params = {}) => `api/v1/${what}?${new URLSearchParams(Object.entries(params).filter(([, v]) => v !== undefined && v !== ''))}`;

async function get(what, params) {
  const got = await fetch(address(what, params));
  const answer = await got.json();
  if (!got.ok) throw new Error(answer.error);
  return answer;
}

/** Asks for something that is more than records, as this page may. */
async function post(what, body, token) {
  const headers = { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const got = await fetch(`api/v1/${what}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const answer = await got.json();
  if (!got.ok) throw new Error(answer.error);
  return answer;
}

async function draw(keepScroll) {
  const mine = ++drawing, { view, name, params } = asked();
  try {
    summary = await get('summary');
    for (const [what, tab] of Object.entries(offered)) if (summary.offers.includes(what) && !tabs.includes(tab)) tabs.push(tab);
    const moment = await get('record', { at: params.at });
    if (mine !== drawing) return; // something newer is being drawn
    const record = moment.record, to = params.at ?? record.time, hours = Number(params.span ?? 24);
    const span = { from: new Date(Date.parse(to) - hours * 3600e3).toISOString(), to };
    const draws = { money: views.spending, whatif, approvals };
    const make = draws[view] ?? (tabs.some(([key]) => key === view) || view === 'workload' || view === 'machine' ? views[view] : views.now);
    const width = Math.max(300, el('view').clientWidth - 32);
    const content = await make({ record, name, params, get, post, offers: summary.offers, link, go, address, span, unit: summary.unit, at: params.at ? Date.parse(record.time) / 1000 : undefined, width });
    if (mine !== drawing) return;
    step = { before: moment.before, after: moment.after };
    const top = scrollY, open = keepScroll ? [...document.querySelectorAll('main details[open] > summary')].map((s) => s.textContent) : [];
    el('view').replaceChildren(...content.flat(Infinity).filter(Boolean));
    for (const s of document.querySelectorAll('main details > summary')) if (open.includes(s.textContent)) s.parentElement.open = true;
    if (keepScroll) scrollTo(0, top);
    document.title = `${el('view').querySelector('h1')?.textContent ?? ''} · Plimsoll`;
    frame(view, params, record);
  } catch (err) {
    if (mine !== drawing) return;
    el('view').replaceChildren(h('h1', {}, 'No records to show'), h('p', { class: 'bad' }, err.message));
  }
}

/** What is around the view: where one is, and when. */
function frame(view, params, record) {
  const here = { workload: 'workloads', machine: 'machines' }[view] ?? view;
  el('nav').replaceChildren(...tabs.map(([key, text]) => h('a', { href: link(key), 'aria-current': key === here ? 'page' : null }, text)));
  const status = el('status');
  status.className = lost ? 'lost' : params.at ? 'past' : '';
  status.textContent = lost ? 'The connection is lost; it is tried again.' : params.at ? `At ${clock(record.time)} UTC` : `Latest record ${clock(record.time)} UTC`;
  if (document.activeElement?.closest?.('#time') && el('time').childElementCount) { // not from under one's hands
    el('time').querySelector('output').textContent = clock(record.time);
    return;
  }
  timeBar(params, record);
}

function timeBar(params, record) {
  const first = Date.parse(summary.from), last = Date.parse(summary.to), at = Date.parse(record.time);
  const button = (text, label, off, act) => h('button', { type: 'button', 'aria-label': label, disabled: off, click: act }, text);
  const shown = h('output', {}, clock(record.time));
  const slider = h('input', {
    type: 'range', min: 0, max: Math.max(1, last - first), step: 1000, value: at - first, 'aria-label': 'Time', 'aria-valuetext': clock(record.time),
    input: (e) => { shown.textContent = clock(first + Number(e.target.value)); },
    change: (e) => { const t = first + Number(e.target.value); go({ at: t >= last - 1000 ? undefined : new Date(t).toISOString() }); e.target.blur(); },
  });
  const jump = (which) => () => { if (step[which]) go({ at: step[which] }); };
  el('time').replaceChildren(
    button('◀', 'Record before', !step.before, jump('before')), button(playing ? '❚❚' : '▶', playing ? 'Stop playing' : 'Play from here', false, play), button('▶|', 'Record after', !step.after, jump('after')),
    slider, shown,
    h('label', {}, h('select', { 'aria-label': 'Charts show', change: (e) => { e.target.blur(); go({ span: e.target.value }); } }, spans.map(([v, text]) => h('option', { value: v, selected: v === (params.span ?? '24') }, text)))),
    button('Latest', 'Follow the latest record', !params.at, () => go({ at: undefined })));
}

/** Plays what was recorded, a two-hundredth of it at a time. */
function play() {
  if (playing) {
    clearInterval(playing);
    playing = undefined;
    draw(true);
    return;
  }
  const by = Math.max(1000, (Date.parse(summary.to) - Date.parse(summary.from)) / 200);
  let at = Date.parse(asked().params.at ?? summary.from);
  playing = setInterval(() => {
    at += by;
    if (at >= Date.parse(summary.to)) play();
    go({ at: at >= Date.parse(summary.to) ? undefined : new Date(at).toISOString() });
  }, 400);
}

/** Hears of new records, and draws the view anew unless it shows another time. */
function listen() {
  const stream = new EventSource('api/v1/stream');
  let due;
  stream.addEventListener('record', () => {
    if (lost) lost = false;
    if (due) return;
    due = setTimeout(() => {
      due = undefined;
      if (!asked().params.at && !document.activeElement?.closest?.('form')) draw(true);
    }, 900);
  });
  stream.onerror = () => { lost = true; el('status').className = 'lost'; el('status').textContent = 'The connection is lost; it is tried again.'; };
}

addEventListener('hashchange', () => draw(Boolean(playing)));
addEventListener('resize', () => draw(true));
addEventListener('keydown', (e) => {
  if (e.target.closest('input, select, textarea') || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === 'ArrowLeft' && step.before) go({ at: step.before });
  else if (e.key === 'ArrowRight' && step.after) go({ at: step.after });
  else if (/^[1-9]$/.test(e.key) && tabs[Number(e.key) - 1]) location.hash = link(tabs[Number(e.key) - 1][0]);
  else if (e.key === 'l') go({ at: undefined });
});
draw();
listen();
