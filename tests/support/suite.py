"""scripts/test: every check of the project, in legs; one closing line over all of them.

A leg is a build with suites run in it, or a tool run over the sources. Results of single cases are read from the TAP that the
tests print, so the numbers are cases, not programs; a program that dies counts as one failure more."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path.cwd()
OUT = ROOT / 'build-test'
GCC = {'CC': 'gcc', 'CXX': 'g++'}
CLANG = {'CC': 'clang', 'CXX': 'clang++'}
SANITIZE = ['-Db_sanitize=address,undefined', '-Db_lundef=false', '-Dfuzz=true']
STRICT = {'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}
TAP_LINE = re.compile(r'^(not )?ok\b(?: \d+)?(?: - )?([^#\n]*?)\s*(?:# (SKIP|TODO)\b\s*(.*))?$', re.I | re.M)


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def ok(self, count=1):
        self.passed += count

    def fail(self, name, detail=''):
        self.failed += 1
        self.failures.append(name)
        print(f'FAIL {name}')
        if detail:
            print('\n'.join('     ' + line for line in detail.rstrip().splitlines()[-60:]))

    def skip(self, name, reason):
        self.skipped += 1
        print(f'SKIP {name}: {reason or "no reason given"}')

    def line(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


TALLY = Tally()
WERROR = False


def run(arguments, **more):
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', **more)


def read_tap(leg, name, entry):
    """The cases of one program; its own failure counts once, if no case has it already."""
    output, failed = entry.get('stdout', ''), False
    plan = re.search(r'^1\.\.(\d+)\s*(?:# SKIP\s*(.*))?$', output, re.M)
    if plan and plan[1] == '0':
        return TALLY.skip(f'[{leg}] {name}', plan[2])
    cases = TAP_LINE.findall(output)
    for negated, case, directive, reason in cases:
        title = f'[{leg}] {name}: {case}'
        if directive.upper() == 'SKIP':
            TALLY.skip(title, reason)
        elif negated:
            failed = True
            TALLY.fail(title)
        else:
            TALLY.ok()
    missing = int(plan[1]) - len(cases) if plan else 0
    if missing or not plan or (entry['result'] not in ('OK', 'SKIP') and not failed):
        TALLY.fail(f'[{leg}] {name}', f'result {entry["result"]}, exit code {entry.get("returncode")}, {missing} cases did not report')
    if failed or entry['result'] not in ('OK', 'SKIP'):
        print(output[-6000:])
        print(entry.get('stderr', '')[-6000:])


def read_log(leg, build):
    """Counts what meson's log of a run says."""
    paths = list((build / 'meson-logs').glob('testlog*.json'))  # with a wrapper its name is in the file's
    if len(paths) != 1:
        return TALLY.fail(f'[{leg}] meson test', f'it left {len(paths)} logs')
    for line in paths[0].read_text().splitlines():
        entry = json.loads(line)
        name = entry['name']
        if re.search(r'^(1\.\.\d+|TAP version)', entry.get('stdout', ''), re.M):
            read_tap(leg, name, entry)
        elif entry['result'] == 'OK':
            TALLY.ok()
        elif entry['result'] == 'SKIP':
            TALLY.skip(f'[{leg}] {name}', entry.get('stdout', '').strip().splitlines()[-1:][0] if entry.get('stdout', '').strip() else '')
        else:
            TALLY.fail(f'[{leg}] {name}: {entry["result"]}', entry.get('stdout', '') + entry.get('stderr', ''))


def build(leg, compiler, options):
    folder = OUT / leg
    options = [f'-Dwerror={"true" if WERROR else "false"}', *options]
    env = {**os.environ, **compiler}
    setup = ['meson', 'setup', str(folder), *options] + (['--reconfigure'] if (folder / 'build.ninja').exists() else [])
    for command in (setup, ['ninja', '-C', str(folder)]):
        done = run(command, env=env)
        if done.returncode:
            TALLY.fail(f'[{leg}] build', done.stdout)
            return None
    TALLY.ok()
    return folder


def meson_tests(leg, folder, suites, *more, env=None):
    for path in (folder / 'meson-logs').glob('testlog*.json'):
        path.unlink()
    suite = [word for name in suites for word in ('--suite', name)]
    done = run(['meson', 'test', '-C', str(folder), '--no-rebuild', *suite, *more], env={**os.environ, **(env or {})})
    if 'No suitable tests defined' in done.stdout:
        return TALLY.fail(f'[{leg}] meson test', 'there are no tests in ' + ', '.join(suites))
    read_log(leg, folder)


# ---- legs ----

def leg_checks():
    for name, command in (('layers', ['scripts/layers']), ('format', ['scripts/format', '--check'])):
        done = run(command)
        TALLY.ok() if done.returncode == 0 else TALLY.fail(name, done.stdout)


def leg_gcc():
    folder = build('gcc', GCC, [])
    if folder:
        meson_tests('gcc', folder, ['unit', 'golden', 'fuzz', 'case', 'integration', 'quickstart', 'agents'])


def leg_lint():
    folder = OUT / 'gcc'
    if not (folder / 'compile_commands.json').exists() and not build('gcc', GCC, []):
        return
    done = run(['scripts/lint'], env={**os.environ, 'CTXP_LINT_BUILD': str(folder)})
    parts = re.split(r'^(?=(?:not )?ok - )', done.stdout, flags=re.M)
    for part in parts:
        if part.startswith('ok - '):
            TALLY.ok()
        elif part.strip():
            TALLY.fail('lint: ' + part.split('\n')[0].removeprefix('not ok - '), part.partition('\n')[2])


def leg_debug():
    """gcc -O0, and the unit tests under valgrind in it."""
    folder = build('debug', GCC, ['--buildtype=debug'])
    if folder:
        meson_tests('debug', folder, ['unit', 'golden'])
        wrap = 'valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect'
        meson_tests('valgrind', folder, ['unit'], '--wrapper', wrap, '-t', '10', env={'CTXP_SEEDS': '3'})


def leg_release():
    folder = build('release', CLANG, ['--buildtype=release', '-Db_ndebug=true'])
    if folder:
        meson_tests('release', folder, ['unit', 'golden', 'fuzz', 'integration'])


def leg_sanitize():
    folder = build('sanitize', CLANG, SANITIZE)
    if folder:
        meson_tests('sanitize', folder, ['unit', 'golden', 'fuzz', 'integration'], '-t', '4')


def leg_fuzz(seconds):
    """A bounded live fuzz of each target, from its corpus; a crash is left in the folder and belongs into the corpus."""
    folder = OUT / 'sanitize'
    if not (folder / 'build.ninja').exists():
        folder = build('sanitize', CLANG, SANITIZE)
    targets = sorted(p for p in (folder / 'tests/fuzz').glob('fuzz_*') if p.is_file()) if folder else []
    commands = []
    for target in targets:
        name = target.name.removeprefix('fuzz_')
        found = OUT / 'fuzz' / name
        found.mkdir(parents=True, exist_ok=True)
        command = [str(target), f'-max_total_time={seconds}', '-rss_limit_mb=2048', '-timeout=10', '-print_final_stats=1', f'-artifact_prefix={found}/',
                   str(found), str(ROOT / 'tests/fuzz/corpus' / name)]
        commands.append((name, command))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda item: (item[0], run(item[1], env={**os.environ, **STRICT})), commands)
    for name, result in done:
        if result.returncode:
            TALLY.fail(f'[fuzz] {name}', result.stdout)
            continue
        TALLY.ok()
        runs = re.search(r'number_of_executed_units:\s*(\d+)', result.stdout)
        print(f'     {name}: {runs[1] if runs else "?"} inputs in {seconds} s')


def main():
    global WERROR
    legs = {'checks': leg_checks, 'gcc': leg_gcc, 'lint': leg_lint, 'debug': leg_debug, 'release': leg_release, 'sanitize': leg_sanitize,
            'fuzz': lambda: leg_fuzz(options.fuzz_seconds)}
    parser = argparse.ArgumentParser(prog='scripts/test', description='Runs all tests, or the legs that are named.',
                                     epilog='checks: layers, format. gcc: all suites. lint: clang-tidy, cppcheck. debug: -O0, and valgrind. '
                                            'release: clang, NDEBUG. sanitize: clang, ASan and UBSan. fuzz: live, bounded.')
    parser.add_argument('legs', nargs='*', metavar='LEG', help=f'of {", ".join(legs)}; default: all of them')
    parser.add_argument('--werror', action='store_true', help='warnings of the compilers are errors')
    parser.add_argument('--fuzz-seconds', type=int, default=20, metavar='N', help='of live fuzzing for each target (20)')
    options = parser.parse_args()
    unknown = [leg for leg in options.legs if leg not in legs]
    if unknown:
        parser.error(f'{unknown[0]} is no leg; there are {", ".join(legs)}')
    WERROR = options.werror
    for name in options.legs or legs:
        started, before = time.monotonic(), (TALLY.passed, TALLY.failed, TALLY.skipped)
        legs[name]()
        now = (TALLY.passed, TALLY.failed, TALLY.skipped)
        print(f'{name}: {now[0] - before[0]} passed, {now[1] - before[1]} failed, {now[2] - before[2]} skipped ({time.monotonic() - started:.0f} s)', flush=True)
    for name in TALLY.failures:
        print(f'FAILED {name}')
    print(TALLY.line())
    sys.exit(1 if TALLY.failed else 0)


sys.stdout.reconfigure(line_buffering=True)
main()
