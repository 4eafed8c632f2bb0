// What a session says of itself.

import { plain } from './dom.js';
import { count, plural, time } from './format.js';

/** threadLink is the address of a thread in this page, at an item if one is named. */
export function threadLink(session, thread, n) {
  return `/s/${encodeURIComponent(session)}/${encodeURIComponent(thread)}${n ? `?n=${n}` : ''}`;
}

/** states in the order of the first screen. */
export const states = ['waiting', 'running', 'failed', 'idle', 'done'];

/** stateOf is one of states, as the server says it. */
export const stateOf = (s) => (states.includes(s.state) ? s.state : 'idle');

/** quiet is after how long without an entry a running session is said to be quiet, in milliseconds. It may be at work all the same. */
export const quiet = 5 * 60_000;

/** isQuiet tells a running session that has said nothing for a while. */
export const isQuiet = (s, now = Date.now()) => stateOf(s) === 'running' && now - time(s.modified) > quiet;

const harnesses = { claude: 'Claude Code', codex: 'Codex', copilot: 'GitHub Copilot CLI', gemini: 'Gemini CLI', qwen: 'Qwen Code', omp: 'oh-my-pi', pi: 'pi', acp: 'ACP', item: 'items', step: 'workflow', raw: 'raw' };

/** harnessName is which program the agent is, for people. */
export const harnessName = (s) => harnesses[s.harness || s.dialect] ?? s.harness ?? '';

/** nameOf is what a person knows a session by: one line, without the marks of Markdown. */
export const nameOf = (s) => plain(s.title || (s.first_prompt && s.name.replace(/\*\*|__|`|^#+ /g, '')) || s.id);

/** turns of a session, as text; '' for none. One without an end goes on, or was cut off. */
export function turns(s) {
  return [s.turns > 0 && plural(s.turns, 'turn'), s.open_turn && 'one without an end'].filter(Boolean).join(' and ');
}

/** tokens of a session, as text; '' when none are known. */
export function tokens(s) {
  const t = s.tokens ?? {};
  return t.in || t.out ? `${count(t.in)} in, ${count(t.out)} out` : '';
}

/** resumeCommands go on with a session: on any machine, and where its files are. Names are letters, digits, _ and - alone (events.CheckToken). */
export function resumeCommands(s, thread) {
  const harness = s.harness || s.dialect;
  const own = { claude: 'claude --resume', codex: 'codex resume', copilot: 'copilot --resume', gemini: 'gemini --resume', qwen: 'qwen --resume', omp: 'omp --resume' }[harness];
  if (!own && harness !== 'pi' || !/^\w[\w-]*$/.test(s.id) || !/^[\w-]+$/.test(thread)) return [];
  if (thread !== 'main') return [`spool resume ${s.id}/${thread}`];
  return [`spool resume ${s.id}`, own && `${own} ${s.id}`].filter(Boolean);
}

/** facts of a session, as pairs. */
export function facts(s) {
  return [
    ['Agent', harnessName(s)],
    ['Model', s.model],
    ['Host', s.host],
    ['Directory', s.cwd],
    ['Branch', s.git_branch],
    ['Turns', turns(s)],
    ['Tokens', tokens(s)],
    ['Entries', s.entries ? count(s.entries) : ''],
    ['Runs', s.runs?.length ? plural(s.runs.length, 'run') : ''],
    ['Id', s.id],
  ].filter(([, value]) => value);
}
