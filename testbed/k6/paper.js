// The published experiment's load on one application, for k6: users who each send a request a second.
//
//   plimsoll testbed loader --calibrate 120ms &
//   k6 run testbed/k6/paper.js
//   k6 run -e URL=http://127.0.0.1:8080/apps/default/web/ -e USERS=60 -e DURATION=1800 testbed/k6/paper.js
//
// The environment says what it does; load.js must lie beside it.
//
//   KIND         sleep    sleep: request, answer, sleep; pace: a request every THINK, or as fast as answers
//                         allow; open: RATE a second regardless of the earlier ones
//   USERS        1        for open: how many requests may be on their way at a time
//   THINK        1        seconds
//   SPREAD       1        seconds within which the users start
//   RATE         1        requests a second, for open
//   DURATION     60       seconds
//   URL          http://127.0.0.1:8080/  what is asked for, with GET
//   TARGET       300      milliseconds within which an answer is good
//   OBJECTIVE    90       percent of the requests that must be good, or k6 exits with 99; 0: not judged
//   QUANTILE     90       percent, of the response times of every minute
//   CONNECTIONS  keep     keep, or new: a connection for every request
//   SUMMARY      summary.json  the file for what came of it; -: a line on standard output that begins with
//                         plimsoll-summary
import exec from 'k6/execution';
import { sleep } from 'k6';
import { ask, asUser, choice, load, number, whole } from './load.js';
export { handleSummary, setup } from './load.js';

const kind = choice('KIND', ['sleep', 'pace', 'open']);
const users = whole('USERS', 1);
const think = number('THINK', 1);
const spread = number('SPREAD', 1);
const rate = number('RATE', 1, kind === 'open' ? 0.02 : 0);
const duration = number('DURATION', 60, 1);

export const options = kind === 'open'
  ? load({
    executor: 'constant-arrival-rate', rate: Math.round(rate * 60), timeUnit: '1m', duration: `${duration}s`,
    preAllocatedVUs: users, maxVUs: users,
  }, duration)
  : load({ executor: 'constant-vus', vus: users, duration: `${duration}s` }, duration);

export default function () {
  if (kind === 'open') {
    ask();
    return;
  }
  if (exec.vu.iterationInScenario === 0) sleep((spread * (exec.vu.idInTest - 1)) / users);
  asUser(kind, think);
}
