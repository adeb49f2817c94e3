// Users who become more and fewer, for k6.
//
//   k6 run -e STAGES=10:60,50:300,10:60 testbed/k6/ramp.js
//
// The environment says what it does; load.js must lie beside it.
//
//   STAGES       10:30,10:60,0:30  users:seconds, how many there are to be and within how long, in a line
//   START        1        users in the beginning
//   KIND         sleep    sleep: request, answer, sleep; pace: a request every THINK, or as fast as answers allow
//   THINK        1        seconds
//   URL          http://127.0.0.1:8080/  what is asked for, with GET
//   TARGET       300      milliseconds within which an answer is good
//   OBJECTIVE    90       percent of the requests that must be good, or k6 exits with 99; 0: not judged
//   QUANTILE     90       percent, of the response times of every minute
//   CONNECTIONS  keep     keep, or new: a connection for every request
//   SUMMARY      summary.json  the file for what came of it; -: a line on standard output that begins with
//                         plimsoll-summary
import { asUser, choice, load, number, whole } from './load.js';
export { handleSummary, setup } from './load.js';

const kind = choice('KIND', ['sleep', 'pace']);
const think = number('THINK', 1);
const start = whole('START', 1, 0);
const stages = (__ENV.STAGES || '10:30,10:60,0:30').split(',').map(stage);

// stage reads users:seconds.
function stage(text) {
  const parts = /^\s*(\d+):(\d+(?:\.\d+)?)\s*$/.exec(text);
  if (!parts) throw new Error(`STAGES: must be users:seconds, such as 10:60, with commas between, was "${text}" in "${__ENV.STAGES}"`);
  return { users: Number(parts[1]), seconds: Number(parts[2]) };
}

export const options = load({
  executor: 'ramping-vus', startVUs: start, gracefulRampDown: '30s',
  stages: stages.map((s) => ({ target: s.users, duration: `${s.seconds}s` })),
}, stages.reduce((sum, s) => sum + s.seconds, 0));

export default function () {
  asUser(kind, think);
}
