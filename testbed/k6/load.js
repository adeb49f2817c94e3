// What the scripts beside this one share: how they read what to do, how they ask, and what they count.
// It is no script of its own.
import http from 'k6/http';
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const url = address('URL', 'http://127.0.0.1:8080/'); // where plimsoll testbed loader listens
const target = number('TARGET', 300, 0.001); // milliseconds within which an answer is good
const objective = number('OBJECTIVE', 90, 0, 100); // percent of the requests that must be good; with 0 it is not judged
const quantile = number('QUANTILE', 90, 0, 99.9999); // percent, of the minutes
const connections = choice('CONNECTIONS', ['keep', 'new']); // new: one for every request, so that a Service of Kubernetes spreads them over pods that are added
const summary = __ENV.SUMMARY || 'summary.json';

// What failed counts as having taken this long, so that a quantile that lies among the failures shows it.
const failedAfter = 1e9;

const answered = new Trend('answered', true); // milliseconds, of what was answered well
const felt = new Trend('felt', true); // of everything
const served = new Trend('served', true); // milliseconds that the application says that it took
const late = new Trend('late', true); // milliseconds over that
const failed = new Counter('failed');
const slow = new Counter('slow'); // answered well, and after the target
const good = new Rate('good');

const q = `p(${quantile})`;
let minutes = 0;

// number reads a number from the environment, which is refused outside of its limits.
export function number(name, otherwise, least = 0, most = Infinity) {
  const text = __ENV[name];
  if (text === undefined || text === '') return otherwise;
  const n = Number(text);
  if (text.trim() === '' || !Number.isFinite(n) || n < least || n > most) {
    const rule = most === Infinity ? `a number of at least ${least}` : `a number from ${least} to ${most}`;
    throw new Error(`${name}: must be ${rule}, was "${text}"`);
  }
  return n;
}

// whole reads a whole number.
export function whole(name, otherwise, least = 1) {
  const n = number(name, otherwise, least);
  if (!Number.isInteger(n)) throw new Error(`${name}: must be a whole number, was "${__ENV[name]}"`);
  return n;
}

// choice reads one of some words, the first if it is not set.
export function choice(name, words) {
  const word = __ENV[name] || words[0];
  if (!words.includes(word)) throw new Error(`${name}: must be one of ${words.join(', ')}, was "${word}"`);
  return word;
}

function address(name, otherwise) {
  const text = __ENV[name] || otherwise;
  if (!/^https?:\/\/[^\s/?#]+/.test(text)) throw new Error(`${name}: must be an address such as ${otherwise}, was "${text}"`);
  return text;
}

// load is a scenario that lasts for so many seconds, as k6 wants it.
export function load(scenario, seconds) {
  if (!(seconds >= 1)) throw new Error(`the load must last for 1 second or more, was ${seconds}`);
  minutes = Math.ceil(seconds / 60);
  const thresholds = everyMinute();
  if (objective > 0) thresholds.good = [`rate>=${objective / 100}`];
  return {
    scenarios: { load: { gracefulStop: '30s', ...scenario } },
    thresholds,
    summaryTrendStats: ['count', 'min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max', q],
    discardResponseBodies: true,
    noConnectionReuse: connections === 'new',
    userAgent: 'plimsoll-testbed',
  };
}

// everyMinute are thresholds that always hold: k6 keeps a metric's part only if a threshold asks for it.
function everyMinute() {
  const all = {};
  for (let i = 0; i < minutes; i++) {
    all[`felt{minute:${i}}`] = ['max>=0'];
    all[`failed{minute:${i}}`] = ['count>=0'];
    all[`slow{minute:${i}}`] = ['count>=0'];
  }
  return all;
}

// arrivals are requests at a rate that changes, regardless of the earlier ones: steps of so many
// requests in a unit of so many seconds, reached within `within` seconds and kept for `keep`.
export function arrivals(steps, users, unit = 60) {
  const stages = [];
  let seconds = 0;
  for (const s of steps) {
    stages.push({ target: Math.round(s.count), duration: `${s.within || 0}s` }, { target: Math.round(s.count), duration: `${s.keep}s` });
    seconds += (s.within || 0) + s.keep;
  }
  return load({
    executor: 'ramping-arrival-rate', startRate: Math.round(steps[0].from === undefined ? steps[0].count : steps[0].from),
    timeUnit: `${unit}s`, stages, preAllocatedVUs: users, maxVUs: users,
  }, seconds);
}

// ask sends one request, and counts what comes of it to the minute in which it was answered.
export function ask() {
  const answer = http.get(url, { timeout: '120s' });
  const minute = Math.min(minutes - 1, Math.floor((Date.now() - exec.scenario.startTime) / 60000));
  const tags = { minute: String(minute) };
  const took = answer.timings.duration;
  if (answer.status !== 200) {
    failed.add(1, tags);
    felt.add(failedAfter, tags);
    good.add(false);
    return;
  }
  answered.add(took);
  const own = /(?:^|[\s,;])dur=([0-9.]+)/.exec(answer.headers['Server-Timing'] || '');
  if (own) {
    served.add(Number(own[1]));
    late.add(took - Number(own[1]));
  }
  felt.add(took, tags);
  good.add(took <= target);
  if (took > target) slow.add(1, tags);
}

// asUser is a request of a user, who sleeps for a pause behind the answer, or keeps a pace of one request
// every pause, or as fast as answers allow.
export function asUser(kind, pause) {
  const began = Date.now();
  ask();
  sleep(kind === 'sleep' ? pause : Math.max(0, pause - (Date.now() - began) / 1000));
}

export function setup() {
  return { began: new Date().toISOString() };
}

export function handleSummary(data) {
  const values = (name) => (data.metrics[name] ? data.metrics[name].values : {});
  const all = values('answered');
  const judged = values('good');
  const served = values('served');
  const behind = values('late');
  const out = {
    began: data.setup_data.began,
    seconds: data.state.testRunDurationMs / 1000,
    requests: (judged.passes || 0) + (judged.fails || 0),
    failed: values('failed').count || 0,
    good: judged.passes || 0,
    dropped: values('dropped_iterations').count || 0,
    meanMs: all.avg, minMs: all.min, p50Ms: all.med, p90Ms: all['p(90)'], p95Ms: all['p(95)'], p99Ms: all['p(99)'], maxMs: all.max,
    minutes: [],
  };
  if (served.count > 0) out.served = { meanMs: served.avg, p90Ms: served['p(90)'], p99Ms: served['p(99)'] };
  if (behind.count > 0) out.late = { meanMs: behind.avg, p90Ms: behind['p(90)'], p99Ms: behind['p(99)'] };
  if (objective > 0) out.objective = { percent: objective, withinMs: target, held: out.requests > 0 && 100 * out.good >= objective * out.requests };
  for (let i = 0; i < minutes; i++) {
    const minute = values(`felt{minute:${i}}`);
    const count = (name) => values(`${name}{minute:${i}}`).count || 0;
    out.minutes.push({ requests: minute.count || 0, failed: count('failed'), late: count('slow'), quantileMs: minute[q] });
  }
  // A pod's log is all that is had of it: there, the summary is one line among others. k6 may not write to
  // /dev/stdout as a file where it is not root.
  if (summary === '-') return { stdout: `${inWords(out)}plimsoll-summary ${JSON.stringify(out)}\n` };
  return { [summary]: JSON.stringify(out, null, 2), stdout: inWords(out) };
}

// inWords is what came of it for a person.
function inWords(out) {
  const ms = (v) => (v === undefined ? '-' : `${v.toFixed(1)} ms`);
  const share = out.requests > 0 ? `${((100 * out.good) / out.requests).toFixed(2)} %` : 'none';
  let text = `${out.requests} requests in ${out.seconds.toFixed(1)} s, ${out.failed} failed, ${out.dropped} not sent; p50 ${ms(out.p50Ms)}, p90 ${ms(out.p90Ms)}, p99 ${ms(out.p99Ms)}\n`;
  text += `${share} within ${target} ms`;
  if (out.objective) text += `: the objective of ${objective} % is ${out.objective.held ? 'kept' : 'missed'}`;
  return `${text}; the rest is in ${summary === '-' ? 'the line below' : summary}\n`;
}
