"""scripts/bench: what the README says of speed and size, measured; ratios are taken within one run, medians over runs.

CPU is user + system time of all processes of the program, as the kernel accounts it at their end. Memory is anonymous memory: the
mapped pages of the streams are the kernel's cache."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path.cwd()
BUILD = ROOT / 'build-bench'
sys.path.insert(0, str(ROOT / 'tests' / 'integration'))
os.environ['CTXP_BUILD'] = str(BUILD)
os.environ.setdefault('CTXP_PATIENCE', '600')
import harness  # noqa: E402
import load  # noqa: E402

CCUSAGE = '20.0.24'
CACHE = pathlib.Path(os.environ.get('XDG_CACHE_HOME', pathlib.Path.home() / '.cache')) / 'ctxpipe-bench'
ROWS = []


def row(what, figure, how):
    ROWS.append((what, figure, how))
    print(f'{what}: {figure}', file=sys.stderr)


def skip(what, reason):
    row(what, 'not measured', reason)


def cpu_of(command, data='', **more):
    """CPU and wall seconds of a command with all its descendants, and its output."""
    before, started = os.times(), time.monotonic()
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    after = os.times()
    if done.returncode:
        sys.exit(f'bench: {" ".join(map(str, command))} failed with {done.returncode}: {done.stderr[-2000:]}')
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, time.monotonic() - started, done.stdout


def ccusage():
    """The program, installed in a cache outside the tree; None with the reason."""
    program = CACHE / 'node_modules' / '.bin' / 'ccusage'
    package = CACHE / 'node_modules' / 'ccusage' / 'package.json'
    if package.exists() and json.loads(package.read_text())['version'] == CCUSAGE:
        return program, ''
    if not shutil.which('npm'):
        return None, f'npm is not installed, so ccusage {CCUSAGE} could not be'
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(['npm', 'install', '--silent', '--prefix', str(CACHE), f'ccusage@{CCUSAGE}'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return (program, '') if done.returncode == 0 and program.exists() else (None, f'npm could not install ccusage {CCUSAGE}: {done.stdout.strip()[-200:]}')


def sums(text):
    """input, cache read, cache write, output of either program's JSON."""
    totals = json.loads(text)['totals']
    if 'billed' in totals:
        return totals['input'], totals['cacheRead'], totals['cacheWrite5m'] + totals['cacheWrite1h'], totals['output']
    return totals['inputTokens'], totals['cacheReadTokens'], totals['cacheCreationTokens'], totals['outputTokens']


def tree_of(place, megabytes):
    tree = place.root / 'tree'
    if not tree.exists():
        subprocess.run([BUILD / 'tests/bench/tree', tree, str(megabytes), '1'], check=True, stdout=subprocess.DEVNULL)
    return tree


def bench_import(place, megabytes, runs):
    tree = tree_of(place, megabytes)
    peer, reason = ccusage()
    ours, theirs, wall, ratios = [], [], [], []
    for number in range(runs + 1):  # the first fills the page cache and is thrown away
        cpu, seconds, text = cpu_of([harness.CTXPIPE, 'report', tree, '--json'], env=place.env)
        peer_cpu = None
        if peer:
            peer_cpu, _, peer_text = cpu_of([peer, 'daily', '--json', '--offline'], env={**place.env, 'CLAUDE_CONFIG_DIR': str(tree)})
            if sums(text) != sums(peer_text):
                sys.exit(f'bench: the sums differ, so the speeds mean nothing: {sums(text)} here, {sums(peer_text)} of ccusage')
        if number:
            ours.append(cpu)
            wall.append(seconds)
            if peer_cpu:
                theirs.append(peer_cpu)
                ratios.append(cpu / peer_cpu)
    how = f'median of {runs} runs, {megabytes} MB of generated Claude Code transcripts, all processes'
    row('`ctxpipe report`, CPU', f'{statistics.median(ours):.2f} s', how)
    row('`ctxpipe report`, wall clock', f'{statistics.median(wall):.2f} s', how)
    if ratios:
        row(f'ccusage {CCUSAGE}, CPU', f'{statistics.median(theirs):.2f} s', 'the same files, runs taken in turn, the same sums')
        row('ratio of the two', f'{statistics.median(ratios):.2f}', f'median of the runs\' ratios ({min(ratios):.2f} to {max(ratios):.2f})')
    else:
        skip('ratio to ccusage', reason)


def anonymous(pid):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith('RssAnon:'):
            return int(line.split()[1]) * 1024
    return 0


def ticks(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return int(fields[11]) + int(fields[12])


def bench_idle(place, seconds):
    ready = []
    for number in range(5):
        started = time.monotonic()
        place.ctxpipe('up', '-f', ROOT / 'config/default.yaml', '--detach')
        ready.append(time.monotonic() - started)
        if number < 4:
            place.ctxpipe('down')
    pids = [place.status()['pid'], *place.pids().values()]
    before = sum(map(ticks, pids))
    time.sleep(seconds)  # what is measured is that nothing happens
    used = (sum(map(ticks, pids)) - before) / os.sysconf('SC_CLK_TCK')
    row('time to ready', f'{statistics.median(ready) * 1000:.0f} ms', 'median of 5 times `ctxpipe up --detach`, the default topology')
    row(f'idle pipeline of {len(pids)} processes, anonymous memory', f'{sum(map(anonymous, pids)) / 1e6:.1f} MB', 'sum of RssAnon, the supervisor included')
    row('idle pipeline, CPU', f'{100 * used / seconds:.2f} % of one core', f'user and system time over {seconds} s')
    place.ctxpipe('down')


def bench_events(place, turns):
    work = load.Load('bench', turns)
    data = '\n'.join(work.lines()) + '\n'
    pipeline = place.start('ctxpipe', 'up', '-f', ROOT / 'config/default.yaml')
    pipeline.wait_for('ready: ')
    before, started = os.times(), time.monotonic()
    cpu_send, _, _ = cpu_of([harness.CTXPIPE, 'send', '--agent', 'bench'], data, env=place.env)
    place.ctxpipe('down')  # everything is on disk when it ends
    pipeline.finish()
    seconds, after = time.monotonic() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system - cpu_send
    size = len(data) / work.events
    row('main path, events from `ctxpipe send` to the log on disk', f'{work.events / seconds:,.0f} events/s', f'{work.events} events of {size:.0f} bytes of JSON on average, one sender')
    row('main path, CPU of the pipeline', f'{1e6 * used / work.events:.0f} µs an event', 'all daemons together, the sender not counted')


def bench_json(place, megabytes):
    tree = tree_of(place, megabytes)
    files = sorted(str(path) for path in tree.rglob('*.jsonl'))
    size = sum(os.path.getsize(path) for path in files)
    for what, command in (('simdjson, as `common/codec` calls it', [BUILD / 'tests/bench/json', *files]),
                          ('node, JSON.parse', ['node', '-e', 'for (const f of process.argv.slice(1)) for (const l of require("fs").readFileSync(f, "utf8").split("\\n")) if (l) JSON.parse(l)', *files]),
                          ('python, json.loads', ['/usr/bin/python3', '-c', 'import json, sys\nfor f in sys.argv[1:]:\n  for l in open(f): json.loads(l)', *files])):
        if not shutil.which(str(command[0])):
            skip(f'JSON lines: {what}', f'{command[0]} is not installed')
            continue
        cpu = min(cpu_of(command)[0] for _ in range(3))
        row(f'JSON lines: {what}', f'{size / 1e6 / cpu:.0f} MB/s', 'of CPU time, best of 3, every line parsed whole, start of the program included')


def fold_of(requests, sizes, runs, *more):
    """Of some runs the least CPU seconds of the fold and of its bill, and the bytes that it holds."""
    told = [json.loads(cpu_of([BUILD / 'tests/bench/bench_fold', str(requests), sizes, *map(str, more)])[2]) for _ in range(runs)]
    return min(t['fold'] for t in told), min(t['bill'] for t in told), told[0]['bytes']


def bench_fold(place, runs):
    for sizes in ('ledger', 'estimate'):
        thousand, ten, hundred = (fold_of(10 ** n, sizes, runs) for n in (3, 4, 5))
        row(f'the fold alone, 100,000 requests, `sizes: {sizes}`, CPU', f'{hundred[0]:.2f} s',
            f'best of {runs} runs; a recorded session over an append-only window of 100,000 messages, both splits of the cost, saved every 8,192 events; events decoded before; its whole bill by message {hundred[1]:.2f} s more')
        row(f'ten times the requests, `sizes: {sizes}`', f'{ten[0] / thousand[0]:.1f} and {hundred[0] / ten[0]:.1f} times the CPU', '1,000 to 10,000 and 10,000 to 100,000 requests, over as many messages each')
    few, many = fold_of(10 ** 5, 'ledger', 1, 1000)[2], fold_of(10 ** 5, 'ledger', 1)[2]
    row('memory of the fold, a request more', f'{(few - fold_of(10 ** 4, "ledger", 1, 1000)[2]) / 90000:.0f} bytes', f'10,000 to 100,000 requests over 1,000 messages, its store in memory included; a message more: {(many - few) / 99000:.0f} bytes')


PARTS = ('import', 'json', 'idle', 'events', 'fold')


def main():
    parser = argparse.ArgumentParser(prog='scripts/bench', description='Measures import, idle pipeline, main path, JSON reading and the fold.')
    parser.add_argument('--only', choices=PARTS, action='append', help='this part; more than one may be named (all)')
    parser.add_argument('--megabytes', type=int, default=200, help='size of the generated tree (200)')
    parser.add_argument('--runs', type=int, default=5, help='of the import (5)')
    parser.add_argument('--turns', type=int, default=8000, help='of the main path, six events each (8000)')
    parser.add_argument('--seconds', type=int, default=20, help='to look at the idle pipeline (20)')
    options = parser.parse_args()
    place = harness.Place()
    try:
        for part in options.only or PARTS:
            {'import': lambda: bench_import(place, options.megabytes, options.runs), 'json': lambda: bench_json(place, options.megabytes), 'idle': lambda: bench_idle(place, options.seconds),
             'events': lambda: bench_events(place, options.turns), 'fold': lambda: bench_fold(place, options.runs)}[part]()
    finally:
        place.leave()
    print('| what | figure | how |\n|---|---|---|')
    for what, figure, how in ROWS:
        print(f'| {what} | {figure} | {how} |')


main()
