// Requests at a rate, regardless of the earlier ones, for k6.
//
//   k6 run -e RATE=20 -e RAMP=60 -e DURATION=600 testbed/k6/rate.js
//
// The environment says what it does; load.js must lie beside it.
//
//   RATE         1        requests a second
//   RAMP         0        seconds within which the rate is reached, from none
//   DURATION     60       seconds at that rate, after them
//   USERS        100      how many requests may be on their way at a time; others are not sent, and counted
//   URL          http://127.0.0.1:8080/  what is asked for, with GET
//   TARGET       300      milliseconds within which an answer is good
//   OBJECTIVE    90       percent of the requests that must be good, or k6 exits with 99; 0: not judged
//   QUANTILE     90       percent, of the response times of every minute
//   CONNECTIONS  keep     keep, or new: a connection for every request
//   SUMMARY      summary.json  the file for what came of it; -: a line on standard output that begins with
//                         plimsoll-summary
import { arrivals, ask, number, whole } from './load.js';
export { handleSummary, setup } from './load.js';

const rate = number('RATE', 1, 0.02);
const ramp = number('RAMP', 0);

export const options = arrivals(
  [{ from: ramp > 0 ? 0 : rate * 60, count: rate * 60, within: ramp, keep: number('DURATION', 60, 1) }], whole('USERS', 100));

export default ask;
