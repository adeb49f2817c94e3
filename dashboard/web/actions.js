// Pause, resume, approve and reject, by the reader's own rights. The token is kept by this page until it is closed.
import { h, clock, table } from './dom.js';

let token = '', waiting, space = '', note = ''; // are kept when a view is drawn anew
const said = {}, lines = {}; // what came of the last action, and the line that shows it, by what it is about
let list; // of the view that is there now: another may have come while an answer was on its way

/** The line that shows what came of the last action. */
function status(key) {
  lines[key] = h('p', { role: 'status', class: said[key]?.bad ? 'bad' : null }, said[key]?.text ?? '');
  return lines[key];
}

function say(key, text, bad) {
  said[key] = { text, bad };
  lines[key].textContent = text;
  lines[key].className = bad ? 'bad' : '';
}

const tokenField = () => h('label', {}, 'Your token', h('input', { name: 'token', type: 'password', autocomplete: 'off', required: true, value: token, input: (e) => { token = e.target.value; }, placeholder: 'kubectl create token …' }));

/** A form for one object, or for one of those that names lists. */
export function actions({ kind, namespace, name, names, post }) {
  const key = `${kind} ${namespace ?? ''} ${name ?? ''}`;
  const act = async (what) => {
    const f = Object.fromEntries(new FormData(form));
    token = f.token;
    const pause = what === 'pause' && f.for ? { for: f.for } : {};
    try {
      const o = await post('actions', { action: what, kind, namespace, name: name ?? f.name, ...pause }, token);
      say(key, `${o.name}: ${o.paused ? `paused by ${o.by}${o.until ? ` until ${o.until}` : ''}` : 'not paused'}. It takes effect with the next step.`);
    } catch (err) {
      say(key, err.message, true);
    }
  };
  const form = h('form', { submit: (e) => { e.preventDefault(); act(e.submitter?.value ?? 'pause'); } },
    names ? h('label', {}, 'Pool', h('select', { name: 'name' }, names.map((n) => h('option', { value: n }, n)))) : null,
    tokenField(),
    h('label', {}, 'Pause for', h('select', { name: 'for' }, [['', 'until it is resumed'], ['30m', '30 minutes'], ['2h', '2 hours'], ['24h', '1 day']].map(([v, text]) => h('option', { value: v }, text)))),
    h('button', { value: 'pause' }, 'Pause'), h('button', { value: 'resume' }, 'Resume'));
  return [h('h2', {}, 'Pause or resume'), form, status(key)];
}

/** The view Approvals: the proposals that wait for an answer, and answers to them. */
export async function approvals({ post }) {
  list = h('form', { submit: (e) => e.preventDefault() }); // under whose focus nothing is drawn anew
  const draw = () => {
    list.replaceChildren(...(waiting ? [table('Proposals that wait for an answer', ['proposal', 'namespace', 'what', 'price an hour', 'until', 'why', 'answer'], waiting.map(row), 'Nothing waits for an answer.')] : []));
  };
  const ask = async (body, then) => {
    try {
      then(await post('actions', { kind: 'ScalingProposal', ...body }, token));
    } catch (err) {
      say('approvals', err.message, true);
    }
    draw();
  };
  const answer = (action, p) => ask({ action, namespace: p.metadata.namespace, name: p.metadata.name, note: note || undefined }, (o) => {
    say('approvals', `${o.metadata.name}: ${o.spec.approval.decision} by ${o.spec.approval.by}. It takes effect with the next step.`);
    waiting = waiting.filter((one) => one.metadata.uid !== p.metadata.uid);
    note = '';
    const field = document.querySelector('main [name=note]'); // another view may be there
    if (field) field.value = '';
  });
  const button = (action, text, p) => h('button', { type: 'button', 'aria-label': `${text} ${p.metadata.name}`, click: () => answer(action, p) }, text);
  const row = (p) => {
    const of = p.spec.proposed;
    return [p.metadata.name, p.metadata.namespace, of.what, `${of.pricePerHour ?? '–'} ${of.currency ?? ''}`, clock(of.until), h('span', { class: 'why' }, of.why?.[0]?.text ?? '–'), [button('approve', 'Approve', p), ' ', button('reject', 'Reject', p)]];
  };
  const load = (e) => {
    e.preventDefault();
    ask({ action: 'list', namespace: space || undefined }, (got) => { waiting = got; say('approvals', ''); });
  };
  const form = h('form', { submit: load }, tokenField(),
    h('label', {}, 'Namespace', h('input', { name: 'namespace', value: space, placeholder: 'every one', input: (e) => { space = e.target.value.trim(); } })),
    h('button', {}, 'Show what waits'),
    h('label', {}, 'Note with an answer', h('input', { name: 'note', value: note, maxlength: 1024, input: (e) => { note = e.target.value; } })));
  draw();
  return [h('h1', {}, 'Approvals'), h('p', {}, 'Pools and workloads in mode Approve propose what they would do. An answer is final.'), form, status('approvals'), list];
}
