#!/usr/bin/env python3
"""Every broken topology in topology/ gives exactly the faults in its .expected; every good_* one is taken, and what `check --resolved`
prints of it reads back as the same text.

topology.py CTXPIPE [--update]"""
import os
import pathlib
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).resolve().parent / 'topology'
ENV = {'PATH': os.environ['PATH'], 'HOME': '/home/user', 'LC_ALL': 'C.UTF-8',
       **{name: value for name, value in os.environ.items() if name.endswith('SAN_OPTIONS')}}


def check(ctxpipe, *arguments):
    done = subprocess.run([ctxpipe, 'check', *arguments], cwd=CASES, env=ENV, capture_output=True, timeout=30)
    done.stderr = done.stderr.replace(str(CASES).encode(), b'HERE')  # the one part of a sentence that differs from place to place
    return done


def broken(ctxpipe, name, update):
    done = check(ctxpipe, '-f', name + '.yaml')
    expected = CASES / (name + '.expected')
    if update:
        expected.write_bytes(done.stderr)
    if done.returncode != 1:
        return f'exit code {done.returncode}, expected 1'
    if done.stdout:
        return f'it printed {done.stdout!r}'
    if not expected.exists():
        return f'{expected.name} is missing; --update writes it'
    if done.stderr != expected.read_bytes():
        return f'expected\n{expected.read_text()}got\n{done.stderr.decode(errors="replace")}'
    return None


def good(ctxpipe, name):
    first = check(ctxpipe, '--resolved', '-f', name + '.yaml')
    if first.returncode != 0 or first.stderr:
        return f'it was refused: {first.stderr.decode(errors="replace")}'
    with tempfile.TemporaryDirectory() as folder:
        again = pathlib.Path(folder) / 'again.yaml'
        again.write_bytes(first.stdout)
        second = check(ctxpipe, '--resolved', '-f', str(again))
    if second.stdout != first.stdout:
        return f'read back as\n{second.stdout.decode()}{second.stderr.decode()}instead of\n{first.stdout.decode()}'
    return None


def main():
    ctxpipe, update = os.path.abspath(sys.argv[1]), '--update' in sys.argv
    names = sorted(path.stem for path in CASES.glob('*.yaml'))
    print(f'1..{len(names)}')
    failed = 0
    for number, name in enumerate(names, 1):
        wrong = good(ctxpipe, name) if name.startswith('good_') else broken(ctxpipe, name, update)
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in (wrong or '').splitlines():
            print('# ' + line)
        failed += bool(wrong)
    stale = [path.name for path in CASES.glob('*.expected') if path.stem not in names]
    if stale:
        print(f'# no topology for {", ".join(stale)}')
    return 1 if failed or stale else 0


sys.exit(main())
