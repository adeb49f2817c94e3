// The published experiment's load on one application, for k6. What it does is told by the environment
// (see the constants below), and what came of it is written as JSON to SUMMARY.
//
//   k6 run -e URL=http://127.0.0.1:8080/apps/default/web/ -e KIND=sleep -e USERS=60 -e DURATION=1800 \
//          -e SUMMARY=summary.json paper.js
import http from 'k6/http';
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const url = __ENV.URL;
const kind = __ENV.KIND || 'sleep'; // sleep: request, answer, sleep; pace: a request every THINK, or as fast as answers allow; open: RATE a second whatever comes back
const users = number('USERS', 1); // for open: how many requests may be on their way at a time
const rate = number('RATE', 1); // requests a second, for open
const duration = number('DURATION', 60); // seconds
const think = number('THINK', 1); // seconds
const spread = number('SPREAD', 1); // seconds within which the users start
const target = number('TARGET', 300); // milliseconds
const quantile = number('QUANTILE', 90); // percent, of the minutes
const summary = __ENV.SUMMARY || 'summary.json';

// What failed counts as having taken this long, so that a quantile that lies among the failures shows it.
const failedAfter = 1e9;

const answered = new Trend('answered', true); // milliseconds, of what was answered well
const felt = new Trend('felt', true); // of everything
const late = new Trend('late', true); // milliseconds, over what the application says that it took
const failed = new Counter('failed');
const good = new Rate('good');

const minutes = Math.ceil(duration / 60);
const q = `p(${quantile})`;

export const options = {
  scenarios: { paper: scenario() },
  thresholds: everyMinute(), // they always hold: a metric's part is only kept if a threshold asks for it
  summaryTrendStats: ['count', 'min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max', q],
  discardResponseBodies: true,
  noVUConnectionReuse: false,
  userAgent: 'plimsoll-testbed',
};

function number(name, otherwise) {
  const text = __ENV[name];
  if (text === undefined || text === '') return otherwise;
  const n = Number(text);
  if (!(n >= 0)) throw new Error(`${name}: must be a number of at least 0, was "${text}"`);
  return n;
}

function scenario() {
  if (!url) throw new Error('URL: must be given, was not');
  switch (kind) {
    case 'sleep':
    case 'pace':
      return { executor: 'constant-vus', vus: users, duration: `${duration}s`, gracefulStop: '30s' };
    case 'open':
      return {
        executor: 'constant-arrival-rate', rate: Math.round(rate * 60), timeUnit: '1m', duration: `${duration}s`,
        preAllocatedVUs: users, maxVUs: users, gracefulStop: '30s',
      };
    default:
      throw new Error(`KIND: must be sleep, pace or open, was "${kind}"`);
  }
}

function everyMinute() {
  const all = {};
  for (let i = 0; i < minutes; i++) {
    all[`felt{minute:${i}}`] = ['max>=0'];
    all[`failed{minute:${i}}`] = ['count>=0'];
  }
  return all;
}

export function setup() {
  return { began: new Date().toISOString() };
}

export default function () {
  if (kind !== 'open' && exec.vu.iterationInScenario === 0) {
    sleep((spread * (exec.vu.idInTest - 1)) / users);
  }
  const began = Date.now();
  const answer = http.get(url, { timeout: '120s' });
  count(answer);
  if (kind === 'sleep') {
    sleep(think);
  } else if (kind === 'pace') {
    sleep(Math.max(0, think - (Date.now() - began) / 1000));
  }
}

// count counts a request to the minute in which it was answered.
function count(answer) {
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
  if (own) late.add(took - Number(own[1]));
  felt.add(took, tags);
  good.add(took <= target);
}

export function handleSummary(data) {
  const values = (name) => (data.metrics[name] ? data.metrics[name].values : {});
  const all = values('answered');
  const judged = values('good');
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
  if (behind.count > 0) out.late = { meanMs: behind.avg, p90Ms: behind['p(90)'], p99Ms: behind['p(99)'] };
  for (let i = 0; i < minutes; i++) {
    const minute = values(`felt{minute:${i}}`);
    out.minutes.push({ requests: minute.count || 0, failed: values(`failed{minute:${i}}`).count || 0, quantileMs: minute[q] });
  }
  return { [summary]: JSON.stringify(out, null, 2) };
}
