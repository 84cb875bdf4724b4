"""A load on a pipeline, and what must be true of the figures when it has gone through."""
import pathlib
import re
import subprocess
import threading
import time

from harness import PATIENCE, SOURCE, check, lines_of, same


class Feeder(threading.Thread):
    """Feeds a sender in pieces, each when it is told to go on, so that what is done to the pipeline falls into the middle."""

    PIECE = 100  # lines

    def __init__(self, place, work, command=None):
        super().__init__(daemon=True)
        self.work, self.lines = work, list(work.lines())
        self.child = place.start(*(command or ('ctxpipe', 'send', '--agent', work.agent, '--key', work.agent)), stdin=subprocess.PIPE)
        self.go, self.error, self.released = threading.Semaphore(0), None, 0

    def run(self):
        try:
            with self.child.process.stdin as pipe:
                for start in range(0, len(self.lines), self.PIECE):
                    self.go.acquire()
                    pipe.write(('\n'.join(self.lines[start:start + self.PIECE]) + '\n').encode())
                    pipe.flush()
        except OSError as error:
            self.error = error

    def release(self, pieces):
        self.released += pieces
        self.go.release(pieces)

    def kill(self):
        self.child.process.kill()
        self.child.process.wait()
        self.release(len(self.lines))
        self.join()

    def finish(self):
        self.release(len(self.lines))
        self.join()
        same(self.child.finish(PATIENCE), 0, f'exit code of the sender of {self.work.agent} ({self.error}): {self.child.text}')


def snapshot_files(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())}


def same_as_replay(place):
    out = place.root / 'replayed'
    place.ctxpipe('replay', place.state, '--out', out)
    live, again = (place.state / 'events.jsonl').read_bytes(), (out / 'events.jsonl').read_bytes()
    if live != again:
        for number, (a, b) in enumerate(zip(live.splitlines(), again.splitlines()), 1):
            check(a == b, f'events.jsonl differs from the replay in line {number}:\nlive   {a[:600]!r}\nreplay {b[:600]!r}')
        check(False, f'events.jsonl has {len(live)} bytes, the replay {len(again)}')
    a, b = snapshot_files(place.state / 'snapshots'), snapshot_files(out / 'snapshots')
    same(sorted(a), sorted(b), 'the files of the snapshots')
    for name in a:
        check(a[name] == b[name], f'snapshot {name} differs from the replay:\nlive   {a[name][:600]!r}\nreplay {b[name][:600]!r}')


def complete(place, loads):
    """Every event of every agent, once: in the ledger, in the bill, turn by turn."""
    log = lines_of(place.state / 'events.jsonl')
    for work in loads:
        turns = [(line['session'], line['turn']) for line in log if line['kind'] == 'turn' and line['agent'] == work.agent]
        same(len(turns), work.requests, f'turns of {work.agent} in the log')
        same(len(set(turns)), len(turns), f'different turns of {work.agent}')
        finals = [line for line in log if line['kind'] == 'spend' and line['agent'] == work.agent and line.get('final')]
        same(len(finals), work.sessions, f'ended sessions of {work.agent}')
        same(sum(line['billed'] for line in finals), work.billed, f'billed tokens of {work.agent}')
        same(sum(line['requests'] for line in finals), work.requests, f'requests of {work.agent}')


def up(place):
    supervisor = place.start('ctxpipe', 'up', '-f', SOURCE / 'config' / 'default.yaml')
    supervisor.wait_for('ready: ')
    return supervisor


def pids_of(text):
    """The last pid that the supervisor said of each node."""
    return {name: int(pid) for name, pid in re.findall(r'^(\S+)\s+\S+\s+ready(?: again)?, pid (\d+)', text, re.M)}


def down(place, supervisor):
    place.ctxpipe('down')
    same(supervisor.finish(), 0, f'exit code of up: {supervisor.text}')


def greeted(place, loads):
    """Waits until the collector has taken events of every sender; one that has not found the pipeline yet would give up, rightly."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        heard = {agent['agent'] for agent in place.status()['agents'] if agent['events']}
        if all(work.agent in heard for work in loads):
            return
    check(False, 'the senders were not heard')
