"""Faults at random, from a seed, under a load of three agents: processes are killed, stopped and gone on with, the pipeline is drained and
started again, senders die and come back. At the end every event that was acknowledged is counted once, and log and snapshots are, byte for
byte, what `ctxpipe replay` makes of the collector's stream.

    python3 tests/chaos/chaos.py [--seed N] [--faults N] [--turns N]

The seed is printed; the same seed does the same faults in the same order (not at the same microsecond). Its result is TAP."""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'integration'))
from feeding import Feeder, complete, greeted, same_as_replay, up  # noqa: E402
from harness import AGENT, PATIENCE, Place, check, gone, same  # noqa: E402
from load import Load  # noqa: E402

ASKER = str(pathlib.Path(AGENT).parent / 'asker')
NODES = ('collector', 'bash', 'amnesia', 'write', 'lazy', 'fold', 'log', 'snapshot')
ASK_MS = 400  # how long the asking agent waits: short, so that some answers are missed
BIG = 3_000_000  # bytes of a result


class BigLoad(Load):
    """One result of three megabytes in each session."""

    def result(self, session, turn, call):
        for line in super().result(session, turn, call):
            if turn == 7 and '"tool_result"' in line:
                event = json.loads(line)
                event['text'] = (event['text'] + '\n') * (BIG // len(event['text']) + 1)
                line = json.dumps(event, ensure_ascii=False)
            yield line


class AskingLoad(Load):
    """An agent that asks before each result enters its window and before each request, for the asker."""

    def prompt(self, session, turn, kept, added):
        self.window = [] if kept == 0 else self.window
        self.window += [(i, 'assistant' if f'{session}-a' in i else 'tool' if f'{session}-t' in i else 'user') for i in added]
        return super().prompt(session, turn, kept, added)

    def result(self, session, turn, call):
        for line in super().result(session, turn, call):
            event = json.loads(line)
            if event['kind'] == 'tool_result':
                event['ask'] = True
            yield json.dumps(event)
        messages = []
        for name, role in self.window:
            message = {'id': name, 'role': role, 'hasText': True, 'tokens': 25}
            if role == 'tool':
                message['toolCallId'] = name.replace('-t', '-c')
            messages.append(message)
        yield self.line('context', session, turn=turn, ask=True, model='claude-sonnet-4-5-20250929', messages=messages)


class Chaos:
    def __init__(self, place, seed, turns):
        self.place, self.random = place, random.Random(seed)
        self.loads = [BigLoad('pi@one', turns), Load('claude@two', turns), AskingLoad('pi@asking', turns)]
        self.supervisor = up(place)
        self.feeders = [self.feeder(work) for work in self.loads]
        for feeder in self.feeders:
            feeder.start()
            feeder.release(1)
        greeted(place, self.loads[:2])  # the asker waits for ever for its pipeline

    def feeder(self, work):
        fresh = type(work)(work.agent, work.turns)
        asking = ('sh', '-c', f'exec {ASKER} {self.place.endpoint} {work.agent} {ASK_MS} >answers')  # which nobody reads while it goes on
        command = asking if isinstance(work, AskingLoad) else None
        feeder = Feeder(self.place, fresh, command)
        self.loads[self.loads.index(work)] = fresh
        return feeder

    def pids(self):
        try:
            state = json.loads((self.place.root / 'run' / 'ctxpipe' / 'supervisor.json').read_text())
        except FileNotFoundError:
            return {}  # it has ended
        return {row['node']: row['pid'] for row in state['nodes'] if row['pid']}

    def send(self, nodes, number):
        pids = self.pids()
        for node in nodes:
            if node in pids:
                try:
                    os.kill(pids[node], number)
                except ProcessLookupError:
                    pass  # it has died by itself just now, of an earlier fault
        return pids

    def some(self, most):
        return self.random.sample(NODES, self.random.randint(1, most))

    # ---- faults ----
    def kill_nodes(self, nodes):
        self.send(nodes, signal.SIGKILL)

    def kill_and_kill_while_it_catches_up(self, nodes):
        self.send(nodes, signal.SIGKILL)
        self.supervisor.wait_for('ready again')
        self.send(nodes, signal.SIGKILL)

    def stop_nodes(self, nodes):
        self.send(nodes, signal.SIGSTOP)
        time.sleep(self.random.random())
        self.send(nodes, signal.SIGCONT)

    def kill_supervisor(self, nodes):
        self.end(lambda: os.kill(self.supervisor.process.pid, signal.SIGKILL))

    def kill_everything(self, nodes):
        def kill():
            for pid in (self.supervisor.process.pid, *self.pids().values()):
                os.kill(pid, signal.SIGKILL)
        self.end(kill)

    def kill_while_it_drains(self, nodes):
        def drain():
            self.supervisor.process.terminate()
            time.sleep(self.random.random() / 10)
            self.send(nodes, signal.SIGKILL)
        self.end(drain)

    def drain(self, nodes):
        self.end(self.supervisor.process.terminate)

    def kill_a_sender(self, nodes):
        number = self.random.randrange(2)  # one of those whose lines a new one recognises
        old = self.feeders[number]
        released = min(old.released, len(old.lines) // old.PIECE)
        old.kill()
        self.feeders[number] = self.feeder(old.work)
        self.feeders[number].start()
        self.feeders[number].release(released)

    def end(self, how):
        """The pipeline ends in some way, leaves no process, and is started again."""
        pids = list(self.pids().values())
        how()
        self.supervisor.finish(PATIENCE)
        check(all(gone(pid) for pid in pids), 'a node outlived its supervisor')
        self.supervisor = up(self.place)

    FAULTS = {kill_nodes: 8, kill_and_kill_while_it_catches_up: 3, stop_nodes: 3, kill_supervisor: 1, kill_everything: 1, kill_while_it_drains: 2, drain: 1,
              kill_a_sender: 1}

    def fault(self):
        fault, = self.random.choices(list(self.FAULTS), list(self.FAULTS.values()))
        nodes = self.some(3)
        print(f'# {fault.__name__} {" ".join(nodes)}', flush=True)
        fault(self, nodes)

    def run(self, faults):
        pieces = max(1, min(len(feeder.lines) for feeder in self.feeders) // Feeder.PIECE // (faults + 1))
        for _ in range(faults):
            for feeder in self.feeders:
                feeder.release(self.random.randint(1, 2 * pieces))
            time.sleep(self.random.random() / 5)
            self.fault()
        for feeder in self.feeders:
            feeder.finish()
        self.place.ctxpipe('status', '--json', code=None)
        spend = self.place.ctxpipe('spend', '--json').json()
        self.supervisor.process.terminate()
        same(self.supervisor.finish(), 0, f'exit code of up: {self.supervisor.text[-2000:]}')
        loads = [feeder.work for feeder in self.feeders]
        same(spend['totals']['billed'], sum(work.billed for work in loads), 'billed tokens that spend says')
        complete(self.place, loads)
        same_as_replay(self.place)


def one(options, seed):
    place = Place()
    try:
        Chaos(place, seed, options.turns).run(options.faults)
        return None
    except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
        return ''.join(traceback.format_exception(error)) + place.logs()
    finally:
        place.leave()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--seed', type=int, help='default: a new one')
    parser.add_argument('--faults', type=int, default=200, metavar='N')
    parser.add_argument('--turns', type=int, default=2000, metavar='N', help='of each agent')
    options = parser.parse_args()
    seed = random.randrange(10 ** 6) if options.seed is None else options.seed
    print(f'1..1\n# seed {seed}', flush=True)
    trouble = one(options, seed)
    if trouble:
        print('\n'.join('# ' + line for line in trouble.splitlines()))
    print(f'{"not " if trouble else ""}ok 1 - {options.faults} faults of seed {seed} lose nothing, count nothing twice, and replay to the same bytes')
    sys.exit(1 if trouble else 0)


main()
