"""Integration tests: the real binaries, real sockets, real files, in a place of their own.

A test file defines functions with @test (the name is a sentence) and ends with main(). Results are TAP. Nothing sleeps to wait
for another process: a test waits for a line of output, for an exit, or for a command that itself waits."""
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from decimal import Decimal

SOURCE = pathlib.Path(os.environ.get('CTXP_SOURCE', pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get('CTXP_BUILD', SOURCE / 'build')).resolve()
SHARED = pathlib.Path(os.environ.get('CTXP_SHARED', SOURCE.parent / 'shared'))
CTXPIPE = str(BUILD / 'daemons' / 'ctxpipe' / 'ctxpipe')
AGENT = str(BUILD / 'tests' / 'integration' / 'agent')
PATIENCE = float(os.environ.get('CTXP_PATIENCE', '60'))  # seconds that one command may take; a test that needs it is wrong
TESTS = []


class Skip(Exception):
    """Raised with the reason."""


def test(function):
    TESTS.append(function)
    return function


def check(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def same(got, expected, what):
    check(got == expected, f'{what}: got {got!r}, expected {expected!r}')


def shared(*parts):
    path = SHARED.joinpath('cases', *parts)
    if not path.exists():
        raise Skip(f'{path} is not there (CTXP_SHARED names the folder that holds cases/)')
    return path


class Output:
    """A child whose output is read line by line, with a deadline."""

    def __init__(self, process):
        self.process, self.text, self.pending = process, '', b''

    def wait_for(self, wanted, seconds=PATIENCE):
        """Reads until a line holds `wanted`; returns that line."""
        end, fd = time.monotonic() + seconds, self.process.stdout.fileno()
        while True:
            while b'\n' in self.pending:
                line, _, self.pending = self.pending.partition(b'\n')
                self.text += line.decode(errors='replace') + '\n'
                if wanted in line.decode(errors='replace'):
                    return line.decode(errors='replace')
            left = end - time.monotonic()
            check(left > 0 and select.select([fd], [], [], left)[0], f'no line with {wanted!r} within {seconds} s; so far:\n{self.text}')
            block = os.read(fd, 65536)
            check(block, f'ended before a line with {wanted!r}:\n{self.text}{self.pending.decode(errors="replace")}')
            self.pending += block

    def finish(self, seconds=PATIENCE):
        """Waits for the exit; returns the code. The rest of the output is in .text."""
        if self.process.stdin and self.process.stdin.closed:
            self.process.stdin = None
        rest, _ = self.process.communicate(timeout=seconds)
        self.text += (self.pending + rest).decode(errors='replace')
        self.pending = b''
        return self.process.returncode


class Done:
    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    def json(self):
        """Its output, decimals as Decimal."""
        try:
            return json.loads(self.out, parse_float=Decimal)
        except ValueError as error:
            raise AssertionError(f'{self}: is not JSON: {error}') from None

    def __str__(self):
        return f'{" ".join(map(str, self.arguments))} (exit code {self.code})\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}'


class Place:
    """A home of its own; everything that was started in it is gone when it is left."""

    def __init__(self, uid=None):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='ctxp-'))  # short: a socket's path has 107 bytes
        self.uid = uid
        self.children = []
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(('XDG_', 'CTXPIPE_')) and key != 'HOME'}
        self.env.update(HOME=str(self.root / 'home'), XDG_RUNTIME_DIR=str(self.root / 'run'), TERM='dumb', LC_ALL='C.UTF-8', NO_COLOR='1')
        self.home = self.mkdir('home')
        self.mkdir('run', 0o700)
        self.state = self.home / '.local' / 'state' / 'ctxpipe'
        if uid is not None:
            for path in (self.root, self.home, self.root / 'run'):
                os.chown(path, uid, uid)

    def mkdir(self, name, mode=0o755):
        path = self.root / name
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        return path

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _drop(self):
        os.setgroups([])
        os.setgid(self.uid)
        os.setuid(self.uid)

    def start(self, *arguments, stdin=subprocess.DEVNULL, merge=True, before=None):
        command = [CTXPIPE if arguments[0] == 'ctxpipe' else str(arguments[0]), *map(str, arguments[1:])]
        child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merge else subprocess.PIPE, env=self.env, cwd=self.root,
                                 start_new_session=True, preexec_fn=before or (self._drop if self.uid is not None else None))
        self.children.append(child)
        return Output(child)

    def run(self, *arguments, input='', code=0, timeout=PATIENCE, before=None):
        """Runs to the end. code None: any exit code."""
        child = self.start(*arguments, stdin=subprocess.PIPE, merge=False, before=before).process
        data = input if isinstance(input, bytes) else input.encode()
        try:
            out, err = child.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            raise AssertionError(f'took longer than {timeout} s: {Done(arguments, None, out.decode(errors="replace"), err.decode(errors="replace"))}') from None
        done = Done(arguments, child.returncode, out.decode(errors='replace'), err.decode(errors='replace'))
        check(code is None or child.returncode == code, f'exit code {child.returncode}, expected {code}: {done}')
        return done

    def ctxpipe(self, *arguments, **more):
        return self.run('ctxpipe', *arguments, **more)

    def topology(self, name='t.yaml', source='default.yaml', **replace):
        """A copy of a shipped topology (with its prices), some texts replaced."""
        text = (SOURCE / 'config' / source).read_text()
        for old, new in replace.items():
            check(old in text, f'{source} does not hold {old!r}')
            text = text.replace(old, new)
        if (SOURCE / 'config' / 'prices.yaml').exists():
            shutil.copy(SOURCE / 'config' / 'prices.yaml', self.root / 'prices.yaml')
        return self.write(name, text)

    @contextlib.contextmanager
    def pipeline(self, topology=None):
        """up --detach, which returns when the collector accepts events; down at the end."""
        self.ctxpipe('up', '-f', topology or SOURCE / 'config' / 'default.yaml', '--detach')
        try:
            yield self
        except BaseException:
            self.ctxpipe('down', code=None)
            raise
        self.ctxpipe('down')

    def status(self):
        return self.ctxpipe('status', '--json').json()

    @property
    def endpoint(self):
        return f'ipc://{self.env["XDG_RUNTIME_DIR"]}/ctxpipe/ingest.sock'

    def running(self):
        """Fails unless every node runs; returns the status."""
        status = self.status()
        check(all(row['state'] in ('running', 'catching up') for row in status['nodes']), f'a node does not run: {status}')
        return status

    def pids(self):
        return {row['node']: row['pid'] for row in self.status()['nodes'] if row.get('pid')}

    def processes(self):
        """Everything that still runs with a file or argument in this place."""
        found = []
        for entry in pathlib.Path('/proc').iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    line = (entry / 'cmdline').read_bytes()
                    if str(self.root).encode() in line:
                        found.append((int(entry.name), line.replace(b'\0', b' ').decode(errors='replace')))
        return found

    def logs(self):
        texts = []
        for path in sorted(self.root.rglob('*.log')):
            texts.append(f'--- {path}\n' + path.read_text(errors='replace')[-3000:])
        return '\n'.join(texts)

    def leave(self):
        for child in self.children:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream:
                    stream.close()
        for pid, _ in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


class Watch:
    """`ctxpipe watch` in the background."""

    def __init__(self, place, *arguments):
        self.place = place
        self.output = place.start('ctxpipe', 'watch', *arguments)
        self.output.wait_for('following')

    def until(self, input_tokens):
        """Waits for lines of the watch until the pipeline has billed so much."""
        while True:
            got = int(self.place.ctxpipe('spend', '--json').json()['totals']['input'])
            if got >= input_tokens:
                same(got, input_tokens, 'billed tokens')
                return
            self.output.wait_for('new event')

    def kill(self, how=signal.SIGKILL):
        self.output.process.send_signal(how)
        return self.output.finish()


class Asker:
    """An agent that is talked to line by line."""

    def __init__(self, place, key, timeout_ms=60000):
        self.child = place.start(str(pathlib.Path(AGENT).parent / 'asker'), f'ipc://{place.root}/r/ingest.sock', key, timeout_ms, stdin=subprocess.PIPE)
        self.lines = 0

    def say(self, event, mark=''):
        self.child.process.stdin.write((mark + json.dumps(event) + '\n').encode())
        self.child.process.stdin.flush()
        self.lines += 1
        return self.lines

    def answer(self, line):
        return json.loads(self.child.wait_for(f'{{"line":{line},'))['answer']

    def ask(self, event, mark=''):
        return self.answer(self.say(event, mark))

    def end(self):
        self.child.process.stdin.close()
        same(self.child.finish(PATIENCE), 0, f'exit code of the agent: {self.child.text}')


def gone(pid, seconds=PATIENCE):
    """Waits until a process that is no child of ours has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def lines_of(path):
    """The JSON lines of a log; every line must be whole."""
    data = pathlib.Path(path).read_bytes()
    check(data == b'' or data.endswith(b'\n'), f'{path} does not end with a whole line')
    return [json.loads(line) for line in data.splitlines()]


CLASSES = ('input', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h')
VIEW_BANDS = ('file_view', 'text_view', 'docs_view', 'search_results')


def money(value):
    """null: nothing in it has a price."""
    return Decimal(0) if value is None else Decimal(value)


def closes(out, what):
    """Promise 3 in one object of `report` or `spend`, numbers read as Decimal: the parts are the whole, at every grain."""
    totals = out['totals']
    same(sum(totals[key] for key in CLASSES), totals['billed'], f'{what}: the four input classes')
    for rows, cost in (('sessions', 'cost'), ('sessions', 'costInput'), ('bands', 'cost'), ('bands', 'costTiered'), ('messages', 'cost'), ('messages', 'costTiered')):
        if rows in out:
            same(sum(row['billed'] for row in out[rows]), totals['billed'], f'{what}: billed tokens of the {rows}')
            same(sum(money(row[cost]) for row in out[rows]), money(totals['cost' if cost == 'cost' and rows == 'sessions' else 'costInput']), f'{what}: {cost} of the {rows}')
    for band in out['bands']:
        views = [row for row in out['views'] if row['band'] == band['band']]
        if band['band'] == 'docs_view':  # documentation without a label is no view
            check(sum(row['billed'] for row in views) <= band['billed'], f'{what}: the views of {band["band"]} bill more than the band')
        elif views or band['band'] in VIEW_BANDS:
            for key in ('billed', 'cost', 'costTiered', 'own'):
                same(sum(money(row[key]) for row in views), money(band[key]), f'{what}: {key} of the views of {band["band"]}')


def main():
    wanted = sys.argv[1:]
    tests = [t for t in TESTS if not wanted or t.__name__ in wanted]
    print(f'1..{len(tests)}', flush=True)
    failed = 0
    for number, function in enumerate(tests, 1):
        place = Place()
        try:
            function(place)
            print(f'ok {number} - {function.__name__}', flush=True)
        except Skip as reason:
            print(f'ok {number} - {function.__name__} # SKIP {reason}', flush=True)
        except BaseException as error:
            failed += 1
            print(f'not ok {number} - {function.__name__}', flush=True)
            text = ''.join(traceback.format_exception(error)) + place.logs()
            print('\n'.join('# ' + line for line in text.splitlines()), flush=True)
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            place.leave()
    sys.exit(1 if failed else 0)
