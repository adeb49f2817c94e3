// Pause and resume, by the reader's own rights. The token is kept by this page until it is closed.
import { h } from './dom.js';

let token = '', said = {}; // said: what came of the last action, by what it was about

/** A form for one object, or for one of those that names lists. */
export function actions({ kind, namespace, name, names, post }) {
  const key = `${kind} ${namespace ?? ''} ${name ?? ''}`;
  const result = h('p', { role: 'status', class: said[key]?.bad ? 'bad' : null }, said[key]?.text ?? '');
  const act = async (what) => {
    const f = Object.fromEntries(new FormData(form));
    token = f.token;
    const pause = what === 'pause' && f.for ? { for: f.for } : {};
    try {
      const o = await post('actions', { action: what, kind, namespace, name: name ?? f.name, ...pause }, token);
      said[key] = { text: `${o.name}: ${o.paused ? `paused by ${o.by}${o.until ? ` until ${o.until}` : ''}` : 'not paused'}. It takes effect with the next step.` };
    } catch (err) {
      said[key] = { text: err.message, bad: true };
    }
    result.textContent = said[key].text;
    result.className = said[key].bad ? 'bad' : '';
  };
  const form = h('form', { submit: (e) => { e.preventDefault(); act(e.submitter?.value ?? 'pause'); } },
    names ? h('label', {}, 'Pool', h('select', { name: 'name' }, names.map((n) => h('option', { value: n }, n)))) : null,
    h('label', {}, 'Your token', h('input', { name: 'token', type: 'password', autocomplete: 'off', required: true, value: token, input: (e) => { token = e.target.value; }, placeholder: 'kubectl create token …' })),
    h('label', {}, 'Pause for', h('select', { name: 'for' }, [['', 'until it is resumed'], ['30m', '30 minutes'], ['2h', '2 hours'], ['24h', '1 day']].map(([v, text]) => h('option', { value: v }, text)))),
    h('button', { value: 'pause' }, 'Pause'), h('button', { value: 'resume' }, 'Resume'));
  return [h('h2', {}, 'Pause or resume'), form, result];
}
