"""Promises 1 and 2: whatever is killed and whenever, nothing is lost, nothing counts twice, and log and snapshots are byte for byte
what `ctxpipe replay` makes of the collector's stream."""
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from harness import PATIENCE, SOURCE, check, gone, lines_of, main, same, test
from load import Load

TURNS = 1120  # three agents: 3 * (1120 * 6 + 28 * 5) = 20,580 events


class Feeder(threading.Thread):
    """Feeds a sender in pieces, each when it is told to go on, so that a kill falls into the middle."""

    def __init__(self, place, work):
        super().__init__(daemon=True)
        self.work, self.lines = work, list(work.lines())
        self.child = place.start('ctxpipe', 'send', '--agent', work.agent, '--key', work.agent, stdin=subprocess.PIPE)
        self.go, self.error = threading.Semaphore(0), None

    def run(self):
        try:
            with self.child.process.stdin as pipe:
                for start in range(0, len(self.lines), 100):
                    self.go.acquire()
                    pipe.write(('\n'.join(self.lines[start:start + 100]) + '\n').encode())
                    pipe.flush()
        except OSError as error:
            self.error = error

    def release(self, pieces):
        self.go.release(pieces)

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


@test
def each_daemon_is_killed_in_the_middle_of_a_load(place):
    supervisor = up(place)
    loads = [Load(name, TURNS) for name in ('pi@one', 'pi@two', 'claude@three')]
    feeders = [Feeder(place, work) for work in loads]
    check(sum(len(feeder.lines) for feeder in feeders) >= 20000, 'the load is too small')
    for feeder in feeders:
        feeder.start()
    nodes = list(pids_of(supervisor.text))
    share = min(len(feeder.lines) for feeder in feeders) // 100 // (len(nodes) + 1)
    for node in nodes:
        for feeder in feeders:
            feeder.release(share)
        os.kill(pids_of(supervisor.text)[node], signal.SIGKILL)
        line = supervisor.wait_for('ready again')
        same(line.split()[0], node, 'the node that was started again')
    for feeder in feeders:
        feeder.finish()
    down(place, supervisor)
    complete(place, loads)
    same_as_replay(place)


@test
def everything_is_killed_at_once_and_goes_on(place):
    loads = [Load(name, 280) for name in ('pi@one', 'pi@two')]
    supervisor = up(place)
    feeders = [Feeder(place, work) for work in loads]
    for feeder in feeders:
        feeder.start()
    for _ in range(2):
        for feeder in feeders:
            feeder.release(4)
        greeted(place, loads)
        pids = [supervisor.process.pid, *pids_of(supervisor.text).values()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        supervisor.process.wait()
        check(all(gone(pid) for pid in pids[1:]), 'a killed daemon still runs')
        supervisor = up(place)
    for feeder in feeders:
        feeder.finish()
    down(place, supervisor)
    complete(place, loads)
    same_as_replay(place)


@test
def the_supervisor_is_killed_alone_and_its_daemons_do_not_stay(place):
    supervisor = up(place)
    pids = pids_of(supervisor.text).values()
    os.kill(supervisor.process.pid, signal.SIGKILL)
    check(all(gone(pid) for pid in pids), 'a daemon outlived its supervisor')
    supervisor = up(place)
    down(place, supervisor)


@test
def a_sender_is_killed_and_sends_its_events_again(place):
    supervisor = up(place)
    work = Load('pi@one', 280)
    first = Feeder(place, work)
    first.start()
    first.release(5)
    first.child.process.kill()
    first.child.process.wait()
    first.release(len(first.lines))
    first.join()
    place.ctxpipe('send', '--agent', work.agent, '--key', work.agent, input='\n'.join(first.lines) + '\n')
    down(place, supervisor)
    complete(place, [work])
    same_as_replay(place)


main()
