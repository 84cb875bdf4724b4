"""scripts/cases: cases of any kind, told by their form, through the real pipeline.

  a .json file with `input` and `expect`       mechanisms and ledger: sent event by event, log lines and answers compared
  a folder with truth.json {product, files}    transcripts: `ctxpipe report`, token sums, cost and requests compared
  NAME.truth.json beside NAME.jsonl or NAME.json, or a truth.json beside a tree: the totals, and where there is a NAME.rows.json the
    shares of its rows, within half a percent of what is billed. Closes with the error of the next request's size before it is known,
    a product each: the sum of |error| over the sum of |growth|, which must not be above its bound
  NAME.expected.json beside NAME.jsonl: worked examples of the fold, by the sizes that the producer says"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'integration'))
sys.path.insert(0, str(ROOT / 'tests' / 'support'))
import harness  # noqa: E402
import oracle  # noqa: E402
from oracle import Difference, differ  # noqa: E402

PRODUCTS = {'claude': 'claude-code', 'claude-code': 'claude-code', 'claude-tree': 'claude-code', 'pi': 'pi', 'codex': 'codex', 'gemini': 'gemini-cli', 'opencode': 'opencode', 'gg': 'gg'}
SHARE = 0.005  # of what is billed, by which a row may differ
ERRORS = {'claude-code': 0.25, 'pi': 0.20, 'codex': 0.15}  # of the prediction, over all transcripts of a product
PREDICTED = {}  # product: [wrong, growth]
TAP = '--tap' in sys.argv
COUNTS = {'passed': 0, 'failed': 0, 'skipped': 0}


# ---- transcripts ----

def report(place, *arguments):
    done = place.ctxpipe('report', '--json', *arguments, code=None)
    if done.code not in (0, 1) or (not done.out and 'is no transcript' not in done.err):
        raise Difference(f'exit code {done.code}: {done.err[-300:]}')
    return done.json() if done.out else None


def import_case(place, folder):
    truth = json.loads((folder / 'truth.json').read_text(), parse_float=harness.Decimal)
    if truth['product'] not in PRODUCTS:
        raise harness.Skip(f'there is no reader for {truth["product"]}')
    prices = next((path for path in (folder / 'prices.json', folder.parent / 'prices.json', folder.parent.parent / 'prices.json') if path.exists()), None)
    totals = report(place, *(['--prices', prices] if prices else []), *[folder / name for name in truth['files']])['totals']
    got = {**totals, 'turns': totals['requests'], 'costUsd': harness.money(totals['cost'])}
    for key, value in truth['expect'].items():
        if key != 'why':
            differ(key, got.get(key), value)


def ledger_rows(out):
    """What the bill has by the names of a NAME.rows.json: what is no message stands in its band, and apart."""
    parts = {row['part']: row['billed'] for row in out['parts']}
    beside = sum(value for name, value in parts.items() if name != 'thinking')
    rows = {('bands', row['band']): row['billed'] for row in out['bands']} | {('tools', row['tool']): row['billed'] for row in out['tools']}
    for band, part in (('system', beside), ('assistant', parts.get('thinking', 0))):
        rows['bands', band] = rows.get(('bands', band), 0) - part
    return rows | {('parts', 'not recorded'): beside, ('parts', 'thinking'): parts.get('thinking', 0)}


def compare_shares(out, expect):
    wanted = {(grain, name): billed for grain in ('bands', 'tools') for name, billed in expect[grain].items()}
    wanted |= {('parts', 'not recorded'): expect['systemNotRecorded'] + expect['cameInNotRecorded'], ('parts', 'thinking'): expect['thinking']}
    got, billed = ledger_rows(out), out['totals']['billed']
    differ('billed', billed, expect['billed'])
    for key in sorted(got.keys() | wanted.keys()):
        mine, theirs = got.get(key, 0), wanted.get(key, 0)
        if abs(mine - theirs) > SHARE * billed:
            raise Difference(f'{key[0]} {key[1]}: billed {mine}, expected {theirs}: {abs(mine - theirs) / billed:.2%} of {billed}')


def transcript_case(place, truth_file):
    truth = json.loads(truth_file.read_text())
    names = [truth_file.parent / (truth_file.name.removesuffix('.truth.json') + end) for end in ('.jsonl', '.json')]
    subject = truth_file.parent if truth_file.name == 'truth.json' else next((path for path in names if path.exists()), names[0])
    agent = truth.get('agent') or next((name for name in reversed(subject.parts) if name in PRODUCTS), '')
    if agent not in PRODUCTS:
        raise harness.Skip(f'there is no reader for {agent or "it"}')
    side, expect = truth.get('cost', {}), truth['totals']
    if side.get('side_input'):  # compactions and summaries: in the session's totals, in no window
        expect = {key: expect[key] + side[f'side_{key}'] for key in ('input', 'cache_read', 'cache_write', 'output')}
    out = report(place, subject)
    if not out:  # a file in which nothing is of any format
        return differ('totals', {key: value for key, value in expect.items() if value}, {})
    totals = out['totals']
    got = {'calls': totals['requests'], 'input': totals['input'], 'cache_read': totals['cacheRead'], 'output': totals['output'],
           'cache_write': totals['cacheWrite5m'] + totals['cacheWrite1h']}
    for key, value in expect.items():
        if key in got:
            differ(key, got[key], value)
    rows = truth_file.parent / (truth_file.name.removesuffix('.truth.json') + '.rows.json')
    if not rows.exists():
        return
    sum_up = PREDICTED.setdefault(PRODUCTS[agent], [0, 0])
    for session in out['sessions']:
        sum_up[0] += session['calibration']['predictionError']
        sum_up[1] += session['calibration']['growth']
    compare_shares(out, json.loads(rows.read_text()))


def predictions():
    """One line a product; False: one is above its bound."""
    fine = True
    for product, (wrong, growth) in sorted(PREDICTED.items()):
        error = wrong / growth if growth else 0
        bound = ERRORS.get(product)
        over = bound is not None and error > bound
        fine &= not over
        words = f'prediction of the next request, {product}: off by {wrong} of {growth} tokens of growth, {error:.3f}'
        print(('# ' if TAP else 'FAIL ' if over else '') + words + (f', at most {bound}' if bound else ''), flush=True)
    return fine


def gg_case(place, path):
    agents = json.loads(path.read_text())['agents']
    out = report(place, '--by', 'message', '--sizes', 'estimate', path.parent / (path.name.split('.')[0] + '.jsonl'))
    for agent, expect in agents.items():
        rows = [row for row in out['sessions'] if row['thread'] == ('' if agent == 'root' else agent)]
        got = {'turns': sum(row['requests'] for row in rows), 'billed': sum(row['billed'] for row in rows)}
        for key, value in (expect or {'turns': 0, 'billed': 0}).items():  # nothing: nothing was recorded
            if key in got:
                differ(f'{agent}: {key}', got[key], value)
    for row in agents['root']['bands'] if list(agents) == ['root'] else []:
        mine = next((band for band in out['bands'] if band['band'] == row['key']), {'billed': 0, 'own': 0, 'messages': 0})
        for key in ('billed', 'own', 'messages'):
            if abs(mine[key] - row[key]) > 1:
                differ(f'{row["key"]}: {key}', mine[key], row[key])


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
                cases.append((path, None))  # run together, see oracle.py
        elif path.name.endswith('.expected.json'):
            cases.append((path, gg_case))
    return cases


def say(result, path, words=''):
    """For people the failures and what was skipped; with --tap every case."""
    if TAP and result == 'skip':
        print(f'ok - {path} # SKIP {words}', flush=True)
    elif TAP:
        print(f'{result} - {path}' + (f'\n# {words}' if words else ''), flush=True)
    elif result != 'ok':
        print(f'{"SKIP" if result == "skip" else "FAIL"} {path}: {words}', flush=True)


def oracle_said(case, difference):
    COUNTS['failed' if difference else 'passed'] += 1
    say('not ok' if difference else 'ok', case.path, difference or '')


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
    oracle.run_all([path for path, function in cases if function is None], oracle_said)
    for path, function in cases:
        if function:
            run(path, function)
    fine = predictions()
    if not TAP:
        print(', '.join(f'{count} {what}' for what, count in COUNTS.items()))
    sys.exit(1 if COUNTS['failed'] or not fine else 0)


main()
