"""Agents that ask, through the C client: whatever becomes of an answer, the agent goes on, and what was not applied is counted nowhere."""
import json
import os
import signal

from harness import Asker, check, lines_of, main, same, test

NODES = {'bash': 'bash-digest', 'amnesia': 'amnesia-tagger', 'write': 'write-compressor'}
PATIENT = 60000  # longer than a test waits: who waits for a silent node fails


def topology(place, nodes=('bash', 'amnesia', 'write'), grace_ms=PATIENT):
    lines = ['version: 1', f'run_dir: {place.root}/r', f'state_dir: {place.state}', f'answer_grace_ms: {grace_ms}', 'nodes:',
             '  collector: {daemon: collector, ingest: [ipc://ingest.sock]}']
    lines += [f'  {node}: {{daemon: {NODES[node]}, subscribe: [collector]}}' for node in nodes]
    lines += [f'  fold: {{daemon: fold, subscribe: [collector, {", ".join(nodes)}]}}', '  log: {daemon: sink-log, subscribe: [fold], options: {path: events.jsonl}}',
              '  snapshot: {daemon: sink-snapshot, subscribe: [fold], options: {dir: snapshots}}']
    return place.write('asking.yaml', '\n'.join(lines) + '\n')


def event(kind, session='s1', **more):
    return {'kind': kind, 'agent': 'pi@test', 'session': session, **more}


def output(call, session='s1'):
    text = '\n'.join(f'compiling part {number} of the whole thing' for number in range(400))
    return event('tool_result', session, toolCallId=call, tool='bash', input={'command': 'make'}, isError=False, exitCode=0, text=text, ask=True)


def pid(place, file, node):
    return next(row['pid'] for row in place.ctxpipe('status', '-f', file, '--json').json()['nodes'] if row['node'] == node)


def figures(place, file, session='s1'):
    """What log, stats and snapshot say, which must be the same: saved in all, and net."""
    stats = next(row for row in place.ctxpipe('stats', '-f', file, '--json').json()['sessions'] if row['session'] == session)
    place.ctxpipe('down', '-f', file)
    turns = [line for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'turn' and line['session'] == session]
    snapshot = json.loads(next((place.state / 'snapshots').glob(f'{session}-*.json')).read_text())
    said = (stats['cumulative']['total'], stats['net'], stats['turns'])
    same((turns[-1]['cumulative']['total'], sum(turn['net'] for turn in turns), len(turns)), said, 'the log, against stats')
    same((snapshot['cumulative']['total'], snapshot['net'], snapshot['turnCount']), said, 'the snapshot, against stats')
    out = place.root / 'replayed'
    place.ctxpipe('replay', '-f', file, place.state, '--out', out)
    same((out / 'events.jsonl').read_bytes(), (place.state / 'events.jsonl').read_bytes(), 'the log of the replay')
    same(json.loads(next((out / 'snapshots').glob(f'{session}-*.json')).read_text()), snapshot, 'the snapshot of the replay')
    return said[:2]


def digests(place):
    return {line['toolCallId']: line['saved'] for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'bash' and line['applied']}


def taken_back(place):
    return {line['toolCallId']: line['tokens'] for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'regret'}


def reasons(place, file):
    lines = place.ctxpipe('tail', '-f', file, '--node', 'collector', '--from-start', '--no-follow', 'answer_missed').out.splitlines()
    return [json.loads(line)['reason'] for line in lines]


@test
def what_changes_nothing_is_answered_at_once_whatever_the_patience(place):
    file = topology(place)
    place.ctxpipe('up', '-f', file, '--detach')
    agent = Asker(place, 'quick', PATIENT // 3)  # less than the grace: who waits for that has no answer
    same(agent.ask(event('tool_result', toolCallId='a', tool='bash', input={'command': 'true'}, isError=False, text='small', ask=True)), {'unchanged': True}, 'a small result')
    messages = [{'id': 'm1', 'role': 'user', 'hasText': True, 'tokens': 10}]
    same(agent.ask(event('context', ask=True, messages=messages)), {'unchanged': True}, 'a request')
    check('replace' in agent.ask(output('b')), 'a large one is digested')
    agent.end()


@test
def an_agent_that_was_there_before_the_pipeline_goes_on_and_is_answered_when_it_comes(place):
    file = topology(place)
    place.mkdir('r', 0o700)
    agent = Asker(place, 'early', 5000)
    same(agent.ask(output('away')), None, 'no answer without a collector')
    place.ctxpipe('up', '-f', file, '--detach')
    check('replace' in agent.ask(output('there')), 'the answer of a collector that is there')
    agent.say(event('turn_end', turn=0))
    agent.end()
    same(reasons(place, file), ['timeout'], 'what was told of the answer')
    total, net = figures(place, file)
    same((sorted(digests(place)), sorted(taken_back(place))), (['away', 'there'], ['away']), 'claimed, and taken back')
    same(net, digests(place)['there'], 'what was applied')
    check(net <= total <= net + digests(place)['away'], f'{total} claimed in all')


@test
def an_answer_that_comes_too_late_is_taken_back_behind_the_sessions_end_too(place):
    file = topology(place)
    place.ctxpipe('up', '-f', file, '--detach')
    agent = Asker(place, 'late', 500)
    node = pid(place, file, 'bash')
    agent.say(event('session_start', product='pi'))
    os.kill(node, signal.SIGSTOP)
    try:
        waiting = agent.say(output('late'), '+')
        agent.say(event('session_end'), '+')
        agent.say(event('session_start', 's2', product='pi'))
        same(agent.answer(waiting), None, 'no answer in time')
        agent.end()
    finally:
        os.kill(node, signal.SIGCONT)
    same(reasons(place, file), ['timeout'], 'what was told of the answer')
    total, net = figures(place, file)
    saved = digests(place)['late']
    same((total, net, taken_back(place)), (saved, 0, {'late': saved}), 'claimed by the turn that the end closed, and taken back by one behind it')
    turns = [(line['turn'], line['bash'], line['net']) for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'turn']
    same(turns, [(0, saved, saved), (1, 0, -saved)], 'the turns')


@test
def an_answer_that_the_agent_could_not_apply_is_taken_back(place):
    file = topology(place)
    place.ctxpipe('up', '-f', file, '--detach')
    agent = Asker(place, 'refusing', PATIENT)
    check('replace' in agent.ask(output('a'), '-'), 'the answer that is refused')
    check('replace' in agent.ask(output('b')), 'the one that is applied')
    agent.say(event('turn_end', turn=0))
    agent.end()
    same(reasons(place, file), ['refused'], 'what was told of the answer')
    same(figures(place, file), (digests(place)['b'],) * 2, 'what counts')


@test
def a_mechanism_that_is_silent_beyond_its_grace_is_passed_over_and_claims_nothing(place):
    file = topology(place, grace_ms=200)
    place.ctxpipe('up', '-f', file, '--detach')
    agent = Asker(place, 'patient', PATIENT)
    node = pid(place, file, 'bash')
    os.kill(node, signal.SIGSTOP)
    try:
        same(agent.ask(output('silent')), {'unchanged': True}, 'the answer without it')
    finally:
        os.kill(node, signal.SIGCONT)
    check('replace' in agent.ask(output('awake')), 'the answer when it speaks again')
    agent.say(event('turn_end', turn=0))
    agent.end()
    same(reasons(place, file), ['timeout'], 'what was told of the answer')
    same(figures(place, file), (digests(place)['awake'],) * 2, 'what counts')


@test
def a_collector_that_dies_before_the_answer_was_confirmed_takes_it_back(place):
    file = topology(place)
    place.ctxpipe('up', '-f', file, '--detach')
    agent = Asker(place, 'cut', 4000)
    node, collector = pid(place, file, 'bash'), pid(place, file, 'collector')
    os.kill(node, signal.SIGSTOP)
    try:
        waiting = agent.say(output('cut'))
        place.ctxpipe('tail', '-f', file, '--node', 'collector', '--from-start', '--no-follow', 'tool_result')
        os.kill(collector, signal.SIGKILL)
        check(agent.answer(waiting) in (None, {'unchanged': True}), 'the agent goes on unchanged')
    finally:
        os.kill(node, signal.SIGCONT)
    after = Asker(place, 'after', PATIENT)
    check('replace' in after.ask(output('after')), 'the collector is there again')
    after.say(event('turn_end', turn=0))
    agent.end()
    after.end()
    total, net = figures(place, file)
    same(net, digests(place)['after'], 'what was applied')
    same(taken_back(place), {'cut': digests(place)['cut']}, 'taken back')
    check(total >= net, f'{total} claimed in all')


main()
