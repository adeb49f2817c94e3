// The view What if: the load of the recording by its own settings and by those of the form.
import { h, clock, table } from './dom.js';

let choices, asked = {}, answer, failed, playing = false; // are kept when the view is drawn anew
let draw; // shows the result in the view that is there now: another may have come while the load was played

const field = (name, label, props = {}) => h('label', {}, label, h('input', { name, value: asked[name] ?? '', ...props }));
const number = (name, label, props = {}) => field(name, label, { type: 'number', min: 0, step: 'any', ...props });
const choice = (name, label, list, first) => h('label', {}, label, h('select', { name },
  [['', first], ...list.map((v) => [v, v])].map(([v, text]) => h('option', { value: v, selected: v === (asked[name] ?? '') }, text))));

/** The question of a form, as the API has it: what is empty stays as it was. */
function question(f) {
  const n = (key) => (f[key] === '' || f[key] === undefined ? undefined : Number(f[key]));
  const q = { workload: f.workload || undefined, policy: f.policy || undefined, nodePolicy: f.nodePolicy || undefined, limit: n('limit'), thinkMs: n('thinkMs') };
  if (f.targetMs || f.percentile) q.objective = { percentile: n('percentile'), targetMs: n('targetMs') };
  if (f.vcpu || f.gb) q.prices = { currency: choices.unit, pricePerVCPUHour: n('vcpu') ?? 0, pricePerGBHour: n('gb') ?? 0 };
  if (f.pool) q.pools = { [f.pool]: { min: n('min'), max: n('max') } };
  if (f.without) q.without = [f.without];
  return q;
}

async function play(form, post) {
  asked = Object.fromEntries(new FormData(form));
  playing = true; failed = undefined;
  draw();
  try {
    answer = await post('what-if', question(asked));
  } catch (err) {
    answer = undefined; failed = err.message;
  }
  playing = false;
  draw();
}

function result() {
  if (playing) return h('p', {}, 'The load is being played twice: this takes seconds for each hour of the recording.');
  if (failed) return h('p', { class: 'bad' }, failed);
  if (!answer) return h('p', { class: 'quiet' }, 'What is left empty stays as it was recorded.');
  return [
    h('h2', {}, 'What it comes to'),
    table('What it comes to', ['what', '#recorded', '#played as recorded', '#played with the change', '#difference'],
      answer.rows.map((r) => [r.name, r.recorded, r.baseline, r.changed, r.difference]), 'Nothing was played.'),
    h('h2', {}, 'Limits of this answer'), h('ul', {}, answer.notes.map((note) => h('li', {}, note))),
  ];
}

export async function whatif({ get, post }) {
  choices ??= await get('what-if');
  const shown = h('div', { role: 'status' }, result());
  const button = h('button', { disabled: playing }, 'Play');
  draw = () => { shown.replaceChildren(...[result()].flat()); button.disabled = playing; };
  const form = h('form', { input: () => { asked = Object.fromEntries(new FormData(form)); }, submit: (e) => { e.preventDefault(); play(form, post); } },
    choice('workload', 'Workload', choices.workloads, 'all'),
    number('targetMs', 'Objective, ms'), number('percentile', 'Percentile', { max: 99.99 }), choice('policy', 'Policy', choices.policies, 'as recorded'),
    choice('nodePolicy', 'Policy for machines', choices.nodePolicies, 'as recorded'), number('limit', `Limit, ${choices.unit} an hour`),
    number('vcpu', `Price of a vCPU-hour, ${choices.unit}`), number('gb', `Price of a GB-hour, ${choices.unit}`),
    choice('pool', 'Pool', choices.pools.map((p) => p.name), 'none'), number('min', 'Fewest machines', { step: 1 }), number('max', 'Most machines', { step: 1 }),
    choice('without', 'Without', choices.workloads, 'none'), number('thinkMs', 'Users wait, then think for, ms'), button);
  return [
    h('h1', {}, 'What if'),
    h('p', {}, `The load from ${clock(choices.from)} to ${clock(choices.to)} is played in a simulated cluster, by the recorded settings and with the change.`),
    form, shown,
  ];
}
