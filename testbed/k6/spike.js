// A flash crowd: a rate that rises within seconds, and falls again, for k6.
//
//   k6 run -e BASE=5 -e PEAK=50 testbed/k6/spike.js
//
// The environment says what it does; load.js must lie beside it.
//
//   BASE         2        requests a second before and after
//   PEAK         20       requests a second in between, which must be more
//   BEFORE       60       seconds at the base
//   RISE         5        seconds within which the peak is reached
//   HOLD         60       seconds at the peak
//   FALL         5        seconds within which the base is reached again
//   AFTER        60       seconds at the base again
//   USERS        200      how many requests may be on their way at a time; others are not sent, and counted
//   URL          http://127.0.0.1:8080/  what is asked for, with GET
//   TARGET       300      milliseconds within which an answer is good
//   OBJECTIVE    90       percent of the requests that must be good, or k6 exits with 99; 0: not judged
//   QUANTILE     90       percent, of the response times of every minute
//   CONNECTIONS  keep     keep, or new: a connection for every request
//   SUMMARY      summary.json  the file for what came of it; -: a line on standard output that begins with
//                         plimsoll-summary
import { arrivals, ask, number, whole } from './load.js';
export { handleSummary, setup } from './load.js';

const base = number('BASE', 2);
const peak = number('PEAK', 20);
if (!(peak > base)) throw new Error(`PEAK: must be more than BASE, which is ${base}, was "${peak}"`);

export const options = arrivals([
  { count: base * 60, keep: number('BEFORE', 60) },
  { count: peak * 60, within: number('RISE', 5), keep: number('HOLD', 60) },
  { count: base * 60, within: number('FALL', 5), keep: number('AFTER', 60) },
], whole('USERS', 200));

export default ask;
