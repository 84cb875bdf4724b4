"""scripts/cases: cases of any kind, told by their form, through the real pipeline.

  a .json file with `input` and `expect`       mechanisms and ledger: sent event by event, log lines and answers compared
  a folder with truth.json {product, files}    transcripts: `ctxpipe report`, token sums, cost and requests compared
  NAME.truth.json beside NAME.jsonl, or a truth.json beside a tree: the totals alone"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests' / 'integration'))
sys.path.insert(0, str(ROOT / 'tests' / 'support'))
import harness  # noqa: E402
import oracle  # noqa: E402
from oracle import Difference, differ  # noqa: E402

PRODUCTS = {'claude': 'claude-code', 'claude-code': 'claude-code', 'pi': 'pi'}
TAP = '--tap' in sys.argv
COUNTS = {'passed': 0, 'failed': 0, 'skipped': 0}


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
    if not TAP:
        print(', '.join(f'{count} {what}' for what, count in COUNTS.items()))
    sys.exit(1 if COUNTS['failed'] else 0)


main()
