// The views. Each takes what the page knows and returns elements.
import { h, num, money, percent, gib, clock, plural, table, facts } from './dom.js';
import { chart } from './chart.js';
import { actions } from './actions.js';

const machinesOf = (record) => (record.observed.hosts ?? []).flatMap((host) => (host.machines ?? []).map((m) => ({ ...m, host: host.name })));
const capacity = (m) => ({ cpu: m.shape.cpu, memory: m.shape.memory });
const used = (m) => Math.min(1, Math.max(m.requests.cpu / m.shape.cpu, m.requests.memory / m.shape.memory) || 0);
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
const inTime = (w) => w.inputs?.latencyMs === undefined || !w.inputs.targetMs || w.inputs.latencyMs <= w.inputs.targetMs;

export async function now({ record, unit, get, link, width }) {
  const machines = machinesOf(record), nodes = machines.filter((m) => m.phase === 'Joined');
  const o = record.observed, phases = Object.entries(o.machines ?? {}).map(([phase, n]) => `${n} ${phase}`).join(', ');
  const decisions = await get('decisions', { to: record.time, limit: 6 });
  const late = (record.workloads ?? []).filter((w) => !inTime(w));
  return [
    h('h1', {}, 'Now'),
    facts([
      o.cost.known ? ['Price an hour', money(o.cost.ordered, unit), `${money(o.cost.ordered * 730, unit)} a month at this pace`] : ['Price an hour', 'unknown', 'the machines cannot be read', 'bad'],
      ['Machines', sum(Object.values(o.machines ?? {}), (n) => n), phases || 'none'],
      ['Nodes and pods', `${o.nodes} / ${o.pods}`, 'nodes / pods'],
      ['CPU asked for', percent(sum(nodes, (m) => m.requests.cpu) / sum(nodes, (m) => m.shape.cpu)), `of ${num(sum(nodes, (m) => m.shape.cpu))} vCPU`],
      ['Memory asked for', percent(sum(nodes, (m) => m.requests.memory) / sum(nodes, (m) => m.shape.memory)), `of ${gib(sum(nodes, (m) => m.shape.memory))}`],
      ['Pending pods', h('a', { href: link('pending') }, num(o.pending)), o.pending ? 'see why' : 'none', o.pending ? 'warn' : 'good'],
      ['Objectives', late.length ? `${late.length} missed` : 'held', `of ${plural((record.workloads ?? []).length, 'workload')}`, late.length ? 'bad' : 'good'],
    ]),
    problems(record),
    h('h2', {}, 'Hosts'), hulls(o.hosts ?? [], link, width),
    h('h2', {}, 'Workloads'), workloadTable(record, link),
    h('h2', {}, 'Latest decisions'), decisionList(decisions.decisions, link),
  ];
}

function problems(record) {
  return record.problems?.length ? [h('h2', { class: 'bad' }, 'Problems'), reasons(record.problems)] : null;
}

/** Each host is a hull, its machines are stacked from the keel, their pods are the water in them. */
function hulls(hosts, link, width) {
  if (hosts.length === 0) return h('p', { class: 'quiet' }, 'No host is known.');
  const columns = Math.max(1, Math.min(hosts.length, Math.floor((width + 16) / 256))), beam = Math.floor((width + 16) / columns) - 16;
  return [
    h('p', { class: 'legend' }, [['machine', 'a node'], ['water', 'what its pods ask for'], ['coming', 'not a node yet'], ['going', 'on its way out']]
      .map(([k, text]) => h('span', {}, h('i', { class: `k-${k}` }), text))),
    h('div', { class: 'hulls' }, hosts.map((host) => hull(host, link, beam))),
  ];
}

function hull(host, link, beam) {
  const machines = (host.machines ?? []).filter((m) => m.phase !== 'Spare');
  const spares = (host.machines?.length ?? 0) - machines.length;
  const share = (m) => Math.max(m.shape.cpu / host.room.cpu, m.shape.memory / host.room.memory) || 0;
  const total = sum(machines, share), scale = 205 / Math.max(1, total);
  let at = 232;
  const cargo = machines.map((m) => {
    const tall = share(m) * scale, water = tall * used(m);
    at -= tall;
    const style = m.draining || m.phase === 'Deleting' || m.phase === 'Failed' ? 'going' : m.phase === 'Joined' ? '' : 'coming';
    return h('g', { class: 'more', click: () => { location.hash = link(`machine/${m.name}`); } },
      h('title', {}, `${m.name}: ${m.shape.name}, ${m.phase}${m.draining ? ', draining' : ''}, ${plural(m.pods, 'pod')}, ${percent(used(m))} asked for`),
      h('rect', { class: `machine ${style}`, x: 12, width: beam - 24, y: at, height: Math.max(1, tall) }),
      h('rect', { class: 'water', x: 14, width: beam - 28, y: at + tall - water, height: Math.max(0, water - 1) }),
      tall > 16 ? h('text', { class: 'name', x: 18, y: at + 14 }, m.name) : null);
  });
  const said = `${plural(machines.length, 'machine')}, ${percent(total)} of ${num(host.room.cpu)} vCPU and ${gib(host.room.memory)}${spares ? `, ${plural(spares, 'spare')}` : ''}`;
  return h('figure', {},
    h('svg', { viewBox: `0 0 ${beam} 240`, role: 'img', 'aria-label': `${host.name}: ${said}` },
      h('path', { class: 'wall', d: `M8 8V225Q8 236 20 236H${beam - 20}Q${beam - 8} 236 ${beam - 8} 225V8` }), cargo,
      h('line', { class: 'loadline', x1: 4, x2: beam - 4, y1: 232 - scale, y2: 232 - scale })),
    h('figcaption', {}, h('strong', {}, host.name), ' ', host.online ? (total > 1 ? h('span', { class: 'bad' }, 'over its room: ') : null) : h('span', { class: 'bad' }, 'down: '), said));
}

function workloadTable(record, link) {
  return table('Workloads', ['workload', '#load /s', '#latency', '#objective', '#replicas', '#ready', 'why'], (record.workloads ?? []).map((w) => [
    h('a', { href: link(`workload/${w.workload}`) }, w.workload),
    num(w.inputs?.arrivals), w.inputs?.latencyMs === undefined ? '–' : h('span', { class: inTime(w) ? null : 'bad' }, `${num(w.inputs.latencyMs)} ms${inTime(w) ? '' : ', missed'}`),
    w.inputs?.targetMs ? `${num(w.inputs.targetMs)} ms` : '–', num(w.replicas), num(w.ready),
    h('span', { class: 'why' }, w.decision?.reasons?.[0]?.text ?? w.held?.text ?? ''),
  ]), 'No workload has an autoscaler.');
}

export async function workloads({ record, link }) {
  return [h('h1', {}, 'Workloads'), workloadTable(record, link)];
}

export async function workload({ record, name, get, post, offers, link, span, at, width }) {
  const [series, decided] = await Promise.all([get('series', { ...span, workload: name }), get('decisions', { ...span, about: name, limit: 300 })]);
  const w = (record.workloads ?? []).find((one) => one.workload === name);
  const v = series.values, marks = decided.decisions.flatMap((d) => d.changes.filter((c) => c.subject === name)
    .map((c) => ({ time: Date.parse(d.time) / 1000, text: `${clock(d.time)} ${c.detail}: ${c.why?.[0]?.text ?? ''}` })));
  const draw = (title, lines, unit) => chart({ title, times: series.times, lines, marks, at, unit }, width);
  return [
    h('h1', {}, name),
    w ? facts([
      ['Replicas', num(w.replicas), `${w.ready} ready, ${w.pending} pending`],
      ['Load', w.inputs?.arrivals === undefined ? 'unknown' : `${num(w.inputs.arrivals)} /s`, w.inputs?.inFlight === undefined ? null : `${num(w.inputs.inFlight)} in flight`],
      w.inputs?.targetMs ? ['Latency', w.inputs.latencyMs === undefined ? 'unknown' : `${num(w.inputs.latencyMs)} ms`, `objective ${num(w.inputs.targetMs)} ms`, inTime(w) ? 'good' : 'bad'] : null,
      w.inputs?.good === undefined ? null : ['In time', `${num(100 * w.inputs.good)} %`, 'of the latest requests'],
      w.decision?.ahead ? ['Expected', num(w.decision.ahead), 'replicas when a machine ordered now is ready'] : null,
    ]) : h('p', { class: 'quiet' }, 'The workload is not in this record.'),
    w?.decision ? [h('h2', {}, 'What was decided at this time'), reasons(w.decision.reasons ?? [])] : null,
    h('h2', {}, 'Over time'),
    draw('Load', [{ name: 'requests', values: v.load }], ' /s'),
    draw('Latency', [{ name: 'latency', values: v.latency }, { name: 'objective', values: v.target, joined: true }], ' ms'),
    draw('Replicas', [{ name: 'replicas', values: v.replicas }, { name: 'ready', values: v.ready }, { name: 'expected', values: v.ahead, joined: true }], ''),
    offers.includes('actions') ? actions({ kind: 'WorkloadAutoscaler', namespace: name.split('/')[0], name: name.split('/')[1], post }) : null,
    h('h2', {}, 'Decisions about it'), decisionList(decided.decisions.slice(0, 50), link),
  ];
}

export async function machines({ record, unit, post, offers, link }) {
  const pools = [...new Set(machinesOf(record).map((m) => m.pool).filter(Boolean))].sort();
  return [h('h1', {}, 'Machines'), table('Machines', ['machine', 'pool', 'host', 'shape', 'phase', '#pods', '#asked for', '#price an hour', 'since'],
    machinesOf(record).map((m) => [h('a', { href: link(`machine/${m.name}`) }, m.name), m.pool, m.host, `${m.shape.name}, ${num(m.shape.cpu)} vCPU, ${gib(m.shape.memory)}`,
      m.draining ? `${m.phase}, draining` : m.phase, num(m.pods), percent(used(m)), money(m.rate, unit), m.created ? clock(m.created) : '–']), 'There are no machines.'),
  offers.includes('actions') && pools.length ? actions({ kind: 'VMPool', names: pools, post }) : null];
}

export async function machine({ record, name, unit, get, link }) {
  const m = machinesOf(record).find((one) => one.name === name);
  const decided = await get('decisions', { to: record.time, about: name, limit: 50 });
  const said = (record.plan.reasons ?? []).filter((r) => r.text.includes(name));
  return [
    h('h1', {}, name),
    m ? facts([['Phase', m.phase, m.draining ? 'draining' : null], ['Shape', m.shape.name, `${num(capacity(m).cpu)} vCPU, ${gib(capacity(m).memory)}`], ['Host', m.host, m.pool ? `pool ${m.pool}` : null],
      ['Price an hour', money(m.rate, unit)], ['Pods', num(m.pods), `${percent(used(m))} of it asked for`], ['Since', m.created ? clock(m.created) : 'unknown']])
      : h('p', { class: 'quiet' }, 'The machine is not in this record.'),
    h('h2', {}, 'Why it is not removed'), said.length ? reasons(said) : h('p', { class: 'quiet' }, 'This record does not mention it: nothing calls for its removal.'),
    h('h2', {}, 'Decisions about it'), decisionList(decided.decisions, link),
  ];
}

export async function pending({ record, link }) {
  const p = record.plan;
  return [
    h('h1', {}, 'Pending pods'),
    table('Pods without a place', ['workload', '#pods', 'why', 'what would help'], (p.unplaced ?? []).map((u) => [
      u.workload ? h('a', { href: link(`workload/${u.workload}`) }, u.workload) : (u.pods ?? []).join(', '), num((u.count ?? 0) + (u.coming ?? 0)), `${u.why.code}: ${u.why.text}`, u.help || '–',
    ]), record.observed.pending ? `${plural(record.observed.pending, 'pod')} wait for machines that are on their way, or for the scheduler.` : 'No pod waits for a machine.'),
    p.held?.length ? [h('h2', {}, 'Beyond a quota'), table('Pods beyond a quota', ['workload', 'why'], p.held.map((q) => [`${q.namespace ?? ''} ${q.workload ?? ''}`, q.why?.text ?? q.text ?? '']), '')] : null,
    h('h2', {}, 'What the plan says'), reasons(p.reasons ?? []),
  ];
}

export async function decisions({ params, get, link, span, address, go }) {
  const wanted = { about: params.about, kind: params.kind };
  const got = await get('decisions', { ...span, ...wanted, limit: 200 });
  const kinds = ['', 'Scale', 'Resize', 'Buy', 'Wake', 'Cordon', 'Evict', 'Uncordon', 'Stash', 'Reboot', 'Return'];
  const form = h('form', { submit: (e) => { e.preventDefault(); const f = new FormData(form); go({ about: f.get('about') || undefined, kind: f.get('kind') || undefined }); } },
    h('label', {}, 'About', h('input', { name: 'about', value: params.about ?? '', placeholder: 'shop/web or a reason' })),
    h('label', {}, 'Kind', h('select', { name: 'kind' }, kinds.map((k) => h('option', { value: k, selected: k === (params.kind ?? '') }, k || 'all')))),
    h('button', {}, 'Filter'));
  return [
    h('h1', {}, 'Decisions'), form,
    h('p', {}, h('a', { href: address('decisions', { ...span, ...wanted, limit: 1000, format: 'csv' }), download: 'decisions.csv' }, 'CSV'), ' · ',
      h('a', { href: address('decisions', { ...span, ...wanted, limit: 1000 }) }, 'JSON')),
    decisionList(got.decisions, link), got.more ? h('p', { class: 'quiet' }, 'There are older ones: choose an earlier time below.') : null,
  ];
}

function decisionList(list, link) {
  if (list.length === 0) return h('p', { class: 'quiet' }, 'Nothing was changed.');
  return h('ol', { class: 'decisions' }, list.map((d) => h('li', {}, d.changes.slice(0, 20).map((c) => change(d, c, link)),
    d.changes.length > 20 ? h('p', { class: 'quiet' }, `and ${d.changes.length - 20} more in ${d.id}`) : null)));
}

function change(d, c, link) {
  const more = () => [c.failed ? h('p', { class: 'bad' }, c.failed) : null, c.held ? h('p', { class: 'warn' }, c.held) : null,
    reasons(c.why ?? []),
    h('p', {}, h('a', { href: link('now', d.time) }, `See all at this time (${d.id})`))];
  const details = h('details', { toggle: () => { if (details.childElementCount === 1) details.append(...more().filter(Boolean)); } }, // a list may have thousands
    h('summary', {}, h('span', { class: 'quiet' }, clock(d.time)), ' ', h('span', { class: 'kind' }, c.kind), ` ${c.subject} ${c.detail ?? ''}`,
      c.failed ? h('span', { class: 'bad' }, ' failed') : c.held ? h('span', { class: 'warn' }, ' not done') : null,
      c.why?.length ? h('span', { class: 'quiet' }, ` – ${c.why[0].text}`) : null));
  return details;
}

function reasons(list) {
  if (list.length === 0) return h('p', { class: 'quiet' }, 'Nothing.');
  return h('dl', { class: 'reasons' }, list.map((r) => [h('dt', {}, r.code), h('dd', {}, r.text)]));
}

export async function spending({ get, span, at, width, address, unit }) {
  const [m, series] = await Promise.all([get('money', span), get('series', span)]);
  const share = (of, total) => (total > 0 ? percent(of / total) : '–');
  const by = (name, list) => [h('h2', {}, `By ${name}`), table(`Spent by ${name}`, [name, '#machine hours', '#spent', '#share', '#idle'],
    list.map((a) => [a.name || '–', num(a.hours), money(a.spent, unit), share(a.spent, m.spent), money(a.idle, unit)]), 'Nothing was spent.')];
  return [
    h('h1', {}, 'Money'),
    facts([
      ['Spent', money(m.spent, unit), `${clock(m.from)} to ${clock(m.to)}`],
      ['A month at this pace', money(m.month, unit)],
      ['Idle', money(m.idle, unit), `${share(m.idle, m.spent)} of it was asked for by no pod`],
      ['The largest fleet, all the time', money(m.static, unit), m.static > m.spent ? `${share(m.static - m.spent, m.static)} saved by following the load` : null],
    ]),
    h('h2', {}, 'Over time'),
    chart({ title: 'Price an hour', times: series.times, lines: [{ name: 'all', values: series.values.rate }, { name: 'nodes', values: series.values.joined }], at, unit: ` ${unit}` }, width),
    chart({ title: 'Machines and nodes', times: series.times, lines: [{ name: 'machines', values: series.values.machines }, { name: 'nodes', values: series.values.nodes }], at }, width),
    chart({ title: 'Pending pods', times: series.times, lines: [{ name: 'pending', values: series.values.pending }], at }, width),
    h('p', {}, h('a', { href: address('money', { ...span, format: 'csv' }), download: 'money.csv' }, 'CSV')),
    h('h2', {}, 'By namespace'), table('Spent by namespace', ['namespace', '#allocated', '#its share of what is idle', '#both', '#share'],
      m.byNamespace.map((a) => [a.name || '–', money(a.spent - a.idle, unit), money(a.idle, unit), money(a.spent, unit), share(a.spent, m.spent)]), 'No record says which namespaces the pods are of.'),
    by('pool', m.byPool), by('host', m.byHost), by('shape', m.byShape),
    h('p', { class: 'quiet' }, `${money(m.fixed, unit)} is the fixed price of hosts, in no table. Machines without pods are of no namespace. Sums are of whole hours.`),
  ];
}
