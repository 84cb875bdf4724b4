"""Engine aux against a scripted model: hostile replies, the key, deaths in the middle of a call, and a replay that asks nobody."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

from harness import AGENT, PATIENCE, SOURCE, check, gone, lines_of, main, same, test

sys.path.insert(0, str(SOURCE / 'tests' / 'support'))
from model_server import Call, Model  # noqa: E402

ASKER = str(pathlib.Path(AGENT).parent / 'asker')
NODES = {'bash': 'bash-digest', 'amnesia': 'amnesia-tagger', 'write': 'write-compressor'}


def topology(place, model, **options):
    place.nodes = {node: {'engine': 'aux', 'url': model.url(node), 'model': 'scripted', 'timeout_ms': 20000, **options.get(node, {})} for node in NODES}
    place.nodes['bash'].setdefault('errors', 'keep')
    lines = ['version: 1', f'run_dir: {place.root}/r', f'state_dir: {place.state}', 'answer_grace_ms: 20000', 'nodes:', '  collector: {daemon: collector, ingest: [ipc://ingest.sock]}']
    lines += [f'  {node}: {{daemon: {NODES[node]}, subscribe: [collector], options: {json.dumps(place.nodes[node])}}}' for node in NODES]
    lines += ['  fold: {daemon: fold, subscribe: [collector, bash, amnesia, write]}', '  log: {daemon: sink-log, subscribe: [fold], options: {path: events.jsonl}}',
              '  snapshot: {daemon: sink-snapshot, subscribe: [fold], options: {dir: snapshots}}']
    return place.write('aux.yaml', '\n'.join(lines) + '\n')


def result(call, text, session='s1', **more):
    return {'kind': 'tool_result', 'agent': 'pi@test', 'session': session, 'toolCallId': call, 'tool': 'bash', 'input': {'command': 'make'}, 'isError': False,
            'text': text, 'ask': True, **more}


def output(name):
    return '\n'.join(f'{name} compiling part {number} of the whole thing' for number in range(400))


class Asker:
    """An agent that is talked to line by line."""

    def __init__(self, place, key, timeout_ms=60000):
        self.child = place.start(ASKER, f'ipc://{place.root}/r/ingest.sock', key, timeout_ms, stdin=subprocess.PIPE)
        self.lines = 0

    def say(self, event):
        self.child.process.stdin.write((json.dumps(event) + '\n').encode())
        self.child.process.stdin.flush()
        self.lines += 1
        return self.lines

    def answer(self, line):
        return json.loads(self.child.wait_for(f'{{"line":{line},'))['answer']

    def ask(self, event):
        return self.answer(self.say(event))

    def end(self):
        self.child.process.stdin.close()
        same(self.child.finish(PATIENCE), 0, f'exit code of the agent: {self.child.text}')


def log(place):
    return lines_of(place.state / 'events.jsonl')


def aux_lines(place):
    return [(line['mechanism'], line['outcome']) for line in log(place) if line['kind'] == 'aux']


def same_as_replay(place, file, model):
    model.play([])
    out = place.root / 'replayed'
    place.ctxpipe('replay', '-f', file, place.state, '--out', out)
    same((out / 'events.jsonl').read_bytes(), (place.state / 'events.jsonl').read_bytes(), 'the log of the replay')
    same({path.name: path.read_bytes() for path in (out / 'snapshots').iterdir()}, {path.name: path.read_bytes() for path in (place.state / 'snapshots').iterdir()},
         'the snapshots of the replay')
    same((model.faults, model.requests), ([], []), 'calls that the replay made')


@test
def a_hostile_reply_is_a_failed_call_and_each_is_made_once(place):
    model = Model()
    replies = [({'status': 302, 'location': f'http://127.0.0.1:{model.port}/bash/v1/chat/completions'}, 'failed'), ({'body': b'x' * (2 << 20)}, 'failed'),
               ({'text': '- late', 'drip': 0.05}, 'timeout'), ({'body': '<html>'}, 'failed'), ({'body': b''}, 'failed'), ({'reset': True}, 'failed'),
               ({'text': '- digest', 'stream': True}, 'ok')]
    try:
        file = topology(place, model, bash={'timeout_ms': 1000})
        place.ctxpipe('up', '-f', file, '--detach')
        model.play([Call('bash', output(f'o{number}'), reply) for number, (reply, _) in enumerate(replies)])
        agent = Asker(place, 'hostile')
        for number, (reply, outcome) in enumerate(replies):
            answer = agent.ask(result(f'c{number}', output(f'o{number}')))
            same(answer['replace']['details']['add']['summarized'], outcome == 'ok', f'a digest from {str(reply)[:60]}')
        agent.end()
        place.ctxpipe('down', '-f', file)
        same(model.missing(), [], 'calls')
        same(aux_lines(place), [('bash', outcome) for _, outcome in replies], 'aux events')
        same_as_replay(place, file, model)
    finally:
        model.stop()


@test
def the_key_is_sent_and_stands_in_no_file(place):
    model, secret = Model(), 'sk-very-secret-1234567890'
    try:
        place.env['AUX_TEST_KEY'] = secret
        key_file = place.write('key', secret + '\n')
        file = topology(place, model, bash={'api_key_env': 'AUX_TEST_KEY'}, amnesia={'api_key_file': str(key_file)}, write={'api_key_env': 'AUX_TEST_UNSET'})
        place.ctxpipe('up', '-f', file, '--detach')
        text, content = output('keyed'), 'y' * 1000
        model.play([Call('bash', text, {'status': 401}), Call('amnesia', 'r' * 2000, {'text': '{"decision":"DROP"}'})])
        agent = Asker(place, 'keyed')
        agent.ask(result('b', text))
        agent.ask({**result('r', 'r' * 2000), 'tool': 'read', 'input': {'path': 'a'}})
        agent.ask({**result('w', 'ok'), 'tool': 'write', 'input': {'path': 'a', 'content': content}})
        agent.end()
        place.ctxpipe('down', '-f', file)
        same(model.missing(), [], 'calls')
        same([headers.get('Authorization') for _, headers, _ in model.requests], [f'Bearer {secret}'] * 2, 'what was sent')
        same(sorted(aux_lines(place)), [('amnesia', 'ok'), ('bash', 'failed'), ('write', 'failed')], 'a key that is not there is a failed call')
        key_file.unlink()
        found = [str(path) for path in place.root.rglob('*') if path.is_file() and secret.encode() in path.read_bytes()]
        same(found, [], 'files with the key')
    finally:
        model.stop()


@test
def a_key_that_is_none_is_a_failed_call_that_was_not_made(place):
    model = Model()
    try:
        place.env['AUX_TEST_KEY'] = 'k' * 5000
        place.write('blank', '\nkey\n')
        place.write('words', 'two words\n')
        files = {node: {'api_key_file': str(place.root / name)} for node, name in (('amnesia', 'blank'), ('write', 'words'))}
        file = topology(place, model, bash={'api_key_env': 'AUX_TEST_KEY'}, **files)
        place.ctxpipe('up', '-f', file, '--detach')
        model.play([])
        agent = Asker(place, 'keyless')
        agent.ask(result('b', output('keyless')))
        agent.ask({**result('r', 'r' * 2000), 'tool': 'read', 'input': {'path': 'a'}})
        agent.say({**result('w', 'ok'), 'tool': 'write', 'input': {'path': 'a', 'content': 'y' * 1000}, 'ask': True})
        agent.say({'kind': 'write_injected', 'agent': 'pi@test', 'session': 's1', 'toolCallId': 'w', 'ok': True})
        agent.end()
        place.ctxpipe('down', '-f', file)
        same(model.requests, [], 'calls without a key')
        lines = log(place)
        same([(line['mechanism'], line['outcome'], line['inputTokens'], line['outputTokens']) for line in lines if line['kind'] == 'aux'],
             [(mechanism, 'failed', 0, 0) for mechanism in ('bash', 'amnesia', 'write')], 'what a call that was not made cost')
        reasons = {line['kind']: line.get('reason', '') for line in lines}
        check('longer than 4094 bytes' in reasons['bash-fallback'], f'the reason of bash: {reasons["bash-fallback"]}')
        check('first line' in reasons['amnesia-tag'], f'the reason of amnesia: {reasons["amnesia-tag"]}')
        same([line['toolCallId'] for line in lines if line['kind'] == 'write'], ['w'], 'the file describes itself')
    finally:
        model.stop()


@test
def no_more_calls_are_under_way_than_the_option_says(place):
    model, gates = Model(), [threading.Event() for _ in range(5)]
    names = [f'bounded{number}' for number in range(5)]
    try:
        file = topology(place, model, bash={'max_inflight': 2})
        place.ctxpipe('up', '-f', file, '--detach')
        calls = [Call('bash', output(name), {'text': f'- {name}', 'gate': gate, 'usage': None, 'finish': 'length' if name == names[4] else 'stop'})
                 for name, gate in zip(names, gates)]
        model.play(calls)
        agents = [Asker(place, name) for name in names]
        waiting = [agent.say(result('a', output(name), name)) for agent, name in zip(agents, names) if name != names[4]]
        model.wait_for(calls[:2], PATIENCE)
        quick = Asker(place, 'quick')
        same(quick.ask(result('q', 'small', 'quick')), {'unchanged': True}, 'an ask behind them, which shows that they were read')
        for number in range(4):
            same(sum(call.made for call in calls), min(number + 2, 4), f'calls that were begun when {number} had ended')
            gates[number].set()
            same(agents[number].answer(waiting[number])['replace']['text'], f'- {names[number]}', 'the answer')
            if number < 2:
                model.wait_for(calls[:number + 3], PATIENCE)
        gates[4].set()
        agents[4].ask(result('a', output(names[4]), names[4]))
        for agent in (*agents, quick):
            agent.end()
        place.ctxpipe('down', '-f', file)
        same(model.missing(), [], 'calls')
        said = [(line['outcome'], line['outputTokens']) for line in log(place) if line['kind'] == 'aux']
        same(said, [('ok', 3)] * 4 + [('failed', 3)], 'estimates of what was written, of use or not: "- bounded0" has 10 units')
        same_as_replay(place, file, model)
    finally:
        for gate in gates:
            gate.set()
        model.stop()


@test
def a_window_that_waits_for_a_model_holds_no_other(place):
    model, gate = Model(), threading.Event()
    try:
        file = topology(place, model)
        place.ctxpipe('up', '-f', file, '--detach')
        slow, quick = output('slow'), output('quick')
        calls = [Call('bash', slow, {'text': '- slow', 'gate': gate}), Call('bash', quick, {'text': '- quick'})]
        model.play(calls)
        one, other = Asker(place, 'one'), Asker(place, 'other')
        waiting = one.say(result('a', slow, 'one'))
        model.wait_for(calls[:1], PATIENCE)
        same(other.ask(result('b', quick, 'other'))['replace']['text'], '- quick', 'the answer of the window that does not wait')
        same(other.ask(result('c', 'small', 'other')), {'unchanged': True}, 'an ask without a call')
        gate.set()
        same(one.answer(waiting)['replace']['text'], '- slow', 'the answer of the one that waited')
        one.end()
        other.end()
        place.ctxpipe('down', '-f', file)
        same([line['toolCallId'] for line in log(place) if line['kind'] == 'bash'], ['a', 'b'], 'the log is in the order of causes')
        same_as_replay(place, file, model)
    finally:
        gate.set()
        model.stop()


@test
def a_node_that_dies_in_a_call_asks_again_and_counts_the_lost_one(place):
    model, gate = Model(), threading.Event()
    try:
        file = topology(place, model)
        place.ctxpipe('up', '-f', file, '--detach')
        text = output('lost')
        first, second = Call('bash', text, {'text': '- first', 'gate': gate}), Call('bash', text, {'text': '- second'})
        model.play([first, second])
        agent = Asker(place, 'dying')
        waiting = agent.say(result('a', text))
        model.wait_for([first], PATIENCE)
        pid = next(row['pid'] for row in place.ctxpipe('status', '-f', file, '--json').json()['nodes'] if row['node'] == 'bash')
        os.kill(pid, signal.SIGKILL)
        check(gone(pid), 'the node ended')
        same(agent.answer(waiting)['replace']['text'], '- second', 'the answer after the death')
        gate.set()
        agent.end()
        place.ctxpipe('stats', '-f', file)
        place.ctxpipe('down', '-f', file)
        same(model.missing(), [], 'calls')
        same(aux_lines(place), [('bash', 'lost'), ('bash', 'ok')], 'aux events')
        same_as_replay(place, file, model)
    finally:
        gate.set()
        model.stop()


@test
def an_agent_outlives_a_pipeline_that_dies_in_its_ask_and_the_saving_is_not_counted(place):
    model, gate = Model(), threading.Event()
    try:
        file = topology(place, model)
        place.ctxpipe('up', '-f', file, '--detach')
        text = output('cut')
        first = Call('bash', text, {'text': '- first', 'gate': gate})
        model.play([first, Call('bash', text, {'text': '- again'}), Call('bash', output('next'), {'text': '- next'})])
        agent = Asker(place, 'living', 3000)
        agent.say({'kind': 'session_start', 'agent': 'pi@test', 'session': 's1', 'product': 'pi'})
        waiting = agent.say(result('a', text))
        model.wait_for([first], PATIENCE)
        for pid, command in place.processes():
            if 'asker' not in command:
                os.kill(pid, signal.SIGKILL)
                gone(pid)
        same(agent.answer(waiting), None, 'no answer: the agent goes on unchanged')
        gate.set()
        place.ctxpipe('up', '-f', file, '--detach')
        same(agent.ask(result('b', output('next')))['replace']['text'], '- next', 'the ask after the pipeline came back')
        agent.say({'kind': 'turn_end', 'agent': 'pi@test', 'session': 's1', 'turn': 0})
        agent.end()
        place.ctxpipe('stats', '-f', file)
        place.ctxpipe('down', '-f', file)
        lines = log(place)
        tokens = {line['toolCallId']: line['saved'] for line in lines if line['kind'] == 'bash'}
        same([(line['toolCallId'], line['reason'], line['tokens']) for line in lines if line['kind'] == 'regret'], [('a', 'not applied', tokens['a'])], 'what was taken back')
        turn = [line for line in lines if line['kind'] == 'turn'][-1]
        same((turn['bash'], turn['net']), (tokens['b'], tokens['b'] - turn['aux']), 'the turn counts what was applied, and every call')
        same_as_replay(place, file, model)
    finally:
        gate.set()
        model.stop()


main()
