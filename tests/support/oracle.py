"""Cases of mechanisms and ledger through the real pipeline: a case's events are sent as its agent would, a scripted model answers the
mechanisms, and every log line, answer, call, turn, sum, snapshot and the one-line summary is compared.

Cases with equal options share a pipeline, one after another, each under an agent's name of its own."""
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'tests' / 'integration'), str(ROOT / 'tests' / 'support')]
import harness  # noqa: E402
from model_server import Call, Model, units  # noqa: E402

DAEMONS = {'bash': 'bash-digest', 'amnesia': 'amnesia-tagger', 'write': 'write-compressor', 'lazy': 'lazy-estimator'}
LISTED = ('bash', 'bash-fallback', 'amnesia-tag', 'amnesia-remove', 'write', 'write-inject-failed', 'lazy', 'turn')
PATIENCE = 60
FIGURES = ('turn', 'bash', 'amnesia', 'lazy', 'write', 'total')
DISCARDED = '[output discarded]'
ASKER = str(harness.BUILD / 'tests' / 'integration' / 'asker')


class Difference(Exception):
    pass


def differ(what, got, expected):
    if got != expected:
        raise Difference(f'{what}: got {got!r}, expected {expected!r}')


def cleaned(text):
    """The output as the rules of the cases have it."""
    text = re.sub(r'\[Output truncated:[^\]]*Full output saved to:[^\]]*\]', DISCARDED, text)
    text = re.sub(r'\[Showing [^\]]*Full output: [^\]]*\]', DISCARDED, text)
    text = re.sub(r'Full output saved to: *\S+', DISCARDED, text)
    return re.sub(r'\[Output truncated:[^\]]*\]', '', text)


class Case:
    def __init__(self, path, number):
        self.path, self.data, self.suffix = path, json.loads(path.read_text()), f'~{number}'
        parity = next((json.loads(file.read_text())['options'] for file in (path.parent / 'parity.json', path.parent.parent / 'parity.json') if file.exists()), {})
        self.nodes = self.data.get('nodes') or list(DAEMONS)
        self.options = {node: {**parity.get(node, {}), **self.data.get('options', {}).get(node, {})} for node in self.nodes}
        for options in self.options.values():
            if options.pop('estimator', 'chars4') != 'chars4':
                raise Difference('the one estimator is chars4')
            for key in [key for key, value in options.items() if value is None]:
                del options[key]
        self.refused = sorted({call['mechanism'] for call in self.data.get('aux', []) if call['reply'].get('refused')})

    def key(self):
        """Equal for cases that can share a pipeline."""
        return json.dumps([self.nodes, self.options, self.refused], sort_keys=True)

    def agent(self, event):
        return event.get('agent', 'agent') + self.suffix

    def calls(self):
        calls = []
        for call in self.data.get('aux', []):
            event = self.data['input'][call['at']]
            source = {'bash': lambda: cleaned(event['text']), 'amnesia': lambda: event['text'], 'write': lambda: event['input']['content']}[call['mechanism']]()
            wanted = {key: call[key] for key in ('maxTokens', 'model', 'authorization') if key in call}
            if call['shownUnits'] > units(source):
                raise Difference(f'the call at {call["at"]} shows more than there is')
            calls.append(Call(call['mechanism'], source, call['reply'], call['shownUnits'], call.get('match', ''), **wanted))
        return calls

    def lines(self):
        """Its events for the asker, (index, line); those of one round begin with +."""
        for index, event in enumerate(self.data['input']):
            yield index, ('+' if self.group_of(index) else '') + json.dumps({**event, 'agent': self.agent(event)}) + '\n'

    def group_of(self, index):
        return next((group for group in self.data.get('together', []) if index in group), [])


def closed_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def topology(place, case, model, prices):
    lines = ['version: 1', f'run_dir: {place.root}/r', f'state_dir: {place.state}', *([f'prices: {prices}'] if prices else []), 'nodes:', '  collector: {daemon: collector, ingest: [ipc://ingest.sock]}']
    for node in case.nodes:
        options = dict(case.options[node])
        if options.get('engine') == 'aux':
            url = f'http://127.0.0.1:{closed_port()}/v1' if node in case.refused else model.url(node)
            options = {'url': url, 'model': 'scripted', **options}
        lines.append(f'  {node}: {{daemon: {DAEMONS[node]}, subscribe: [collector], options: {json.dumps(options)}}}')
    lines += [f'  fold: {{daemon: fold, subscribe: [{", ".join(["collector", *case.nodes])}]}}',
              '  log: {daemon: sink-log, subscribe: [fold], from: start, options: {path: events.jsonl}}',
              '  snapshot: {daemon: sink-snapshot, subscribe: [fold], options: {dir: snapshots}}']
    return place.write('case.yaml', '\n'.join(lines) + '\n')


# ---- comparing ----

def same_line(at, got, expected):
    differ(f'{at}: kind', got['kind'], expected['kind'])
    for key, value in expected.items():
        if key == 'reason' and value == '*':
            differ(f'{at}: there is a reason', bool(got.get('reason')), True)
        elif key != 'applied':
            differ(f'{at}: {key}', got.get(key), value)
    differ(f'{at}: applied', got.get('applied', True), expected.get('applied', True))


def moments(case):
    """Inputs by what tells their log lines apart: the agent and the time."""
    found = {}
    for index, event in enumerate(case.data['input']):
        found.setdefault((case.agent(event), event['ts']), []).append(index)
    return found


def compare_log(case, log, answers):
    mine = [line for line in log if line['kind'] in LISTED and line['agent'].endswith(case.suffix)]
    when = moments(case)
    for line in mine:
        if (line['agent'], line['ts']) not in when:
            raise Difference(f'a line that no input has caused: {line!r}')
    for (agent, ts), indices in when.items():
        got = [line for line in mine if line['agent'] == agent and line['ts'] == ts]
        expects = [case.data['expect'][index] for index in indices]
        at = f'input {indices[0]}'
        if any(expect is None for expect in expects):
            continue
        if any('check' in expect for expect in expects):
            compare_check(at, expects[0]['check'], got, answers.get(indices[0]))
            continue
        expected = [line for expect in expects for line in expect.get('log', [])]
        for number, line in enumerate(expected):
            if number >= len(got):
                raise Difference(f'{at}: nothing in the log for {line!r}')
            same_line(at, got[number], line)
        differ(f'{at}: lines too many', got[len(expected):], [])


def compare_check(at, check, got, answer):
    differ(f'{at}: number of lines', len(got), 1)
    line, text = got[0], (answer or {}).get('replace', {}).get('text', '')
    tokens, original = (units(text) + 3) // 4, check['originalTokens']
    lines = text.split('\n')
    differ(f'{at}: kind', line['kind'] in check['kinds'], True)
    differ(f'{at}: originalTokens', line['originalTokens'], original)
    differ(f'{at}: its tokens', line['summaryTokens' if line['kind'] == 'bash' else 'fallbackTokens'], tokens)
    differ(f'{at}: saved', line['saved'], original - tokens)
    differ(f'{at}: it is smaller', 0 < tokens < original, True)
    differ(f'{at}: it is within maxTokens', tokens <= check.get('maxTokens', tokens), True)
    differ(f'{at}: lines that it lacks', [want for want in check.get('contains', []) if want not in lines], [])
    differ(f'{at}: what it may not say', [word for word in check.get('lacks', []) if word in text], [])
    if 'exitCode' in check:
        differ(f'{at}: the exit code stands in it', any(re.search(rf'exit\b.*\b{check["exitCode"]}\b', line) for line in lines), True)


def compare_answers(case, out):
    answers = {line['line'] - 1: line['answer'] for line in map(json.loads, out.splitlines())}
    asks = [index for index, event in enumerate(case.data['input']) if event.get('ask')]
    differ('asks that were answered', sorted(answers), asks)
    for index in asks:
        expect = case.data['expect'][index]
        if expect is not None and 'check' not in expect:
            differ(f'answer to input {index}', answers[index], expect.get('answer', {'unchanged': True}))
    return answers


def totals_of(case):
    """(agent, session, expected) in order of first appearance."""
    if not case.data['totals']:
        return []
    keys = list(dict.fromkeys((event.get('agent', 'agent'), event['session']) for event in case.data['input']))
    differ('sessions', [(total['agent'], total['session']) for total in case.data['totals']], keys)
    return [(total['agent'] + case.suffix, total['session'], total) for total in case.data['totals']]


def compare_stats(place, file, agent, session, total):
    select = ('-f', file, '--agent', agent, '--session', session)
    rows = place.ctxpipe('stats', '--json', *select).json()['sessions']
    differ(f'{session}: sessions in stats', len(rows), 1)
    differ(f'{session}: cumulative', rows[0]['cumulative'], total['cumulative'])
    differ(f'{session}: widget', place.ctxpipe('stats', '--line', *select).out.rstrip('\n'), total['widget'])


def compare_totals(case, log, snapshots):
    for agent, session, total in totals_of(case):
        lines = [line for line in log if line['kind'] == 'turn' and line['agent'] == agent and line['session'] == session]
        differ(f'{session}: turns', [{key: line[key] for key in FIGURES} for line in lines], total['turns'])
        mine = next((shot for shot in snapshots if shot['agent'] == agent and shot['session'] == session), None)
        if mine is not None:
            mine = {'cumulative': mine['cumulative'], 'turns': [{key: turn[key] for key in FIGURES} for turn in mine['turns']]}
        differ(f'{session}: snapshot', mine, total['snapshot'])


# ---- running ----

def send(place, model, case):
    """Sends the case's events, the next when the calls of the one before are made, but for those of one round; returns the answers."""
    calls = case.calls()
    model.play(calls)
    asker = place.start(ASKER, f'ipc://{place.root}/r/ingest.sock', f'case{case.suffix}', '60000', stdin=subprocess.PIPE)
    with asker.process.stdin as pipe:
        for index, line in case.lines():
            pipe.write(line.encode())
            pipe.flush()
            if index == (case.group_of(index) or [index])[-1]:
                model.wait_for([call for call, at in zip(calls, case.data.get('aux', [])) if at['at'] <= index], PATIENCE)
    code = asker.finish(PATIENCE)
    differ('exit code of the agent', (code, '' if code == 0 else asker.text), (0, ''))
    return asker.text


def play(place, file, model, case):
    out = send(place, model, case)
    for agent, session, total in totals_of(case):
        compare_stats(place, file, agent, session, total)
    if not case.data['totals']:
        place.ctxpipe('stats', '-f', file)  # waits for the fold, and so for the mechanisms
    missing = model.missing()
    differ('calls of the model', missing, [])
    return out


def run_group(cases, say):
    """say(case, None or the first difference)."""
    place, model, outputs, failed = harness.Place(), Model(), {}, {}
    prices = next((file for file in (cases[0].path.parent / 'prices.json', cases[0].path.parent.parent / 'prices.json') if file.exists()), None)
    try:
        file = topology(place, cases[0], model, prices)
        place.ctxpipe('up', '-f', file, '--detach')
        for case in cases:
            try:
                outputs[case] = play(place, file, model, case)
            except (Difference, AssertionError) as difference:
                failed[case] = difference
        place.ctxpipe('down', '-f', file)
        log = harness.lines_of(place.state / 'events.jsonl')
        snapshots = [json.loads(path.read_text()) for path in sorted((place.state / 'snapshots').glob('*.json'))]
        for case in cases:
            try:
                if case in failed:
                    raise failed[case]
                compare_log(case, log, compare_answers(case, outputs[case]))
                compare_totals(case, log, snapshots)
                say(case, None)
            except (Difference, AssertionError) as difference:
                say(case, difference)
    finally:
        place.leave()
        model.stop()


def run_all(paths, say):
    groups = {}
    for number, path in enumerate(paths):
        case = Case(path, number)
        groups.setdefault(case.key(), []).append(case)
    for cases in groups.values():
        run_group(cases, say)
