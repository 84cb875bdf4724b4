"""scripts/cases: cases of any kind, told by their form, through the real pipeline.

  a .json file with `input` and `expect`       mechanisms and ledger: sent event by event, log lines and answers compared
  a folder with truth.json {product, files}    transcripts: `ctxpipe report`, token sums, cost and requests compared
  NAME.truth.json beside NAME.jsonl, or a truth.json beside a tree: the totals alone"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'integration'))
import harness  # noqa: E402

PRODUCTS = {'claude': 'claude-code', 'claude-code': 'claude-code', 'pi': 'pi'}
DAEMONS = {'bash': 'bash-digest', 'amnesia': 'amnesia-tagger', 'write': 'write-compressor', 'lazy': 'lazy-estimator'}
LISTED = ('bash', 'bash-fallback', 'amnesia-tag', 'amnesia-remove', 'write', 'write-inject-failed', 'lazy', 'turn')
OF_ENGINE = ('engine', 'estimator', 'max_chars', 'max_content_chars', 'fact_max_tokens', 'timeout_ms', 'aux_recorded')  # of model calls; the rules know none
TAP = '--tap' in sys.argv
COUNTS = {'passed': 0, 'failed': 0, 'skipped': 0}


class Difference(Exception):
    pass


def differ(what, got, expected):
    if got != expected:
        raise Difference(f'{what}: got {got!r}, expected {expected!r}')


# ---- transcripts ----

def report(place, *arguments):
    done = place.ctxpipe('report', '--json', *arguments, code=None)
    if done.code not in (0, 1):
        raise Difference(f'exit code {done.code}: {done.err[-300:]}')
    return done.json()['totals']


def import_case(place, folder):
    truth = json.loads((folder / 'truth.json').read_text(), parse_float=harness.Decimal)
    if truth['product'] not in PRODUCTS:
        raise harness.Skip(f'there is no reader for {truth["product"]}')
    prices = next((path for path in (folder / 'prices.json', folder.parent / 'prices.json', folder.parent.parent / 'prices.json') if path.exists()), None)
    totals = report(place, *(['--prices', prices] if prices else []), *[folder / name for name in truth['files']])
    got = {**totals, 'turns': totals['requests'], 'costUsd': harness.money(totals['cost'])}
    for key, value in truth['expect'].items():
        if key != 'why':
            differ(key, got.get(key), value)


def transcript_case(place, truth_file):
    truth = json.loads(truth_file.read_text())
    subject = truth_file.parent if truth_file.name == 'truth.json' else truth_file.parent / (truth_file.name.removesuffix('.truth.json') + '.jsonl')
    agent = truth.get('agent') or next((name for name in reversed(subject.parts) if name in PRODUCTS or name == 'claude-tree'), '')
    if agent not in PRODUCTS and agent != 'claude-tree':
        raise harness.Skip(f'there is no reader for {agent or "it"}')
    totals = report(place, subject)
    got = {'calls': totals['requests'], 'input': totals['input'], 'cache_read': totals['cacheRead'], 'output': totals['output'],
           'cache_write': totals['cacheWrite5m'] + totals['cacheWrite1h']}
    for key, value in truth['totals'].items():
        if key in got:
            differ(key, got[key], value)


# ---- mechanisms and ledger ----

def known_options():
    sections = re.split(r'^## ', (ROOT / 'docs/options.md').read_text(), flags=re.M)
    return {part.split('\n')[0].strip(): set(re.findall(r'^\| `(\w+)` \|', part, re.M)) for part in sections}


def oracle_topology(place, case, parity):
    nodes, known = case.get('nodes') or list(DAEMONS), known_options()
    lines = ['version: 1', 'state_dir: ' + str(place.state), 'nodes:', '  collector: {daemon: collector, ingest: [ipc://ingest.sock]}']
    for node in nodes:
        options = {**parity.get(node, {}), **case.get('options', {}).get(node, {})}
        options = {key: value for key, value in options.items() if key not in OF_ENGINE}
        unknown = set(options) - known[DAEMONS[node]]
        if unknown:
            raise harness.Skip(f'{DAEMONS[node]} has no option {sorted(unknown)[0]}')
        lines.append(f'  {node}: {{daemon: {DAEMONS[node]}, subscribe: [collector], options: {json.dumps(options)}}}')
    lines += [f'  fold: {{daemon: fold, subscribe: [{", ".join(["collector", *nodes])}]}}', '  log: {daemon: sink-log, subscribe: [fold], from: start, options: {path: events.jsonl}}']
    return place.write('case.yaml', '\n'.join(lines) + '\n')


def same_line(at, got, expected):
    differ(f'{at}: kind', got['kind'], expected['kind'])
    for key, value in expected.items():
        if key == 'reason' and value == '*':
            differ(f'{at}: there is a reason', bool(got.get('reason')), True)
        elif key != 'applied':
            differ(f'{at}: {key}', got.get(key), value)
    differ(f'{at}: applied', got.get('applied', True), expected.get('applied', True))


def compare_log(place, case):
    got = [line for line in harness.lines_of(place.state / 'events.jsonl') if line['kind'] in LISTED]
    expected = [(index, line) for index, expect in enumerate(case['expect']) for line in (expect or {}).get('log', [])]
    for number, (index, line) in enumerate(expected):
        if number >= len(got):
            raise Difference(f'input {index}: no more lines in the log, expected {line!r}')
        same_line(f'input {index}', got[number], line)
    differ('lines behind the last', got[len(expected):], [])


def compare_answers(out, case):
    answers = [json.loads(line) for line in out.splitlines()]
    asks = [(index, expect) for index, (event, expect) in enumerate(zip(case['input'], case['expect'])) if event.get('ask')]
    differ('number of answers', len(answers), len(asks))
    for answer, (index, expect) in zip(answers, asks):
        if expect is not None:
            differ(f'answer to input {index}', answer.get('answer', answer), expect.get('answer', {'unchanged': True}))


def oracle_case(place, path):
    case = json.loads(path.read_text())
    parity = next((json.loads(file.read_text())['options'] for file in (path.parent / 'parity.json', path.parent.parent / 'parity.json') if file.exists()), {})
    if case.get('aux'):
        raise harness.Skip('it calls an auxiliary model, which this version does not')
    if any(expect is None or 'check' in expect for expect in case['expect']):
        raise harness.Skip('its inputs have to be told apart in the log, which one run does not')
    file = oracle_topology(place, case, parity)
    place.ctxpipe('up', '-f', file, '--detach')
    done = place.ctxpipe('send', '-f', file, '--ask', input='\n'.join(json.dumps(event) for event in case['input']) + '\n', code=None)
    place.ctxpipe('down', '-f', file)
    differ('refused lines', done.code, 0)
    compare_log(place, case)
    compare_answers(done.out, case)


# ---- finding and running ----

def find(folder):
    """(name, function, path) of the cases in a folder, sorted by name."""
    if (folder / 'truth.json').exists() and 'files' in json.loads((folder / 'truth.json').read_text()):
        return [(folder, import_case)]
    cases = []
    for path in sorted(folder.iterdir()):
        if path.name.endswith('truth.json'):
            cases.append((path, transcript_case))
        elif path.is_dir():
            cases += find(path)
        elif path.suffix == '.json' and path.name.count('.') == 1:
            content = json.loads(path.read_text())
            if isinstance(content, dict) and 'input' in content and 'expect' in content:
                cases.append((path, oracle_case))
        elif path.name.endswith('.expected.json'):
            cases.append((path, gg_case))
    return cases


def gg_case(place, path):
    raise harness.Skip('there is no reader for gg')


def say(result, path, words=''):
    """For people the failures and what was skipped; with --tap every case."""
    if TAP and result == 'skip':
        print(f'ok - {path} # SKIP {words}', flush=True)
    elif TAP:
        print(f'{result} - {path}' + (f'\n# {words}' if words else ''), flush=True)
    elif result != 'ok':
        print(f'{"SKIP" if result == "skip" else "FAIL"} {path}: {words}', flush=True)


def run(path, function):
    place = harness.Place()
    try:
        function(place, path)
        COUNTS['passed'] += 1
        say('ok', path)
    except harness.Skip as reason:
        COUNTS['skipped'] += 1
        say('skip', path, reason)
    except (Difference, AssertionError) as difference:
        COUNTS['failed'] += 1
        say('not ok', path, difference)
    finally:
        place.leave()


def main():
    folders = [pathlib.Path(word) for word in sys.argv[1:] if word != '--tap']
    missing = [folder for folder in folders if not folder.is_dir()]
    if not folders:
        sys.exit('usage: scripts/cases DIR...')
    if missing and TAP:
        return print(f'1..0 # SKIP {missing[0]} is not there (CTXP_SHARED names the folder that holds cases/)')
    if missing:
        sys.exit(f'scripts/cases: {missing[0]} is no folder')
    cases = [case for folder in folders for case in find(folder.resolve())]
    if TAP:
        print(f'1..{len(cases)}')
    for path, function in cases:
        run(path, function)
    if not TAP:
        print(', '.join(f'{count} {what}' for what, count in COUNTS.items()))
    sys.exit(1 if COUNTS['failed'] else 0)


main()
