"""What a topology can ask for beyond the defaults, over the real pipeline, with figures: parts of a log, a stream that may drop its
oldest events, a mechanism that is passed over, a sink that begins now."""
import json
import os
import re
import signal
from decimal import Decimal

from harness import check, lines_of, main, same, test
from load import Load



def send(place, file, work):
    place.ctxpipe('send', '-f', file, '--agent', work.agent, '--key', work.agent, input='\n'.join(work.lines()) + '\n')


def replayed(place):
    out = place.root / 'replayed'
    place.ctxpipe('replay', place.state, '--out', out)
    return (out / 'events.jsonl').read_bytes()


def parts_of(place):
    return sorted(place.state.glob('events-[0-9]*.jsonl'))


def rotating(place, keep):
    file = place.topology(**{'path: events.jsonl': f'path: events.jsonl\n      rotate_bytes: 20000\n      rotate_keep: {keep}'})
    work = Load('pi@one', 200)
    with_a_kill = Load('pi@two', 200)
    supervisor = place.start('ctxpipe', 'up', '-f', file)
    supervisor.wait_for('ready: ')
    send(place, file, work)
    os.kill(int(re.search(r'^log\s.*pid (\d+)', supervisor.text, re.M)[1]), signal.SIGKILL)
    send(place, file, with_a_kill)
    supervisor.wait_for('ready again')
    place.ctxpipe('down', '-f', file)
    same(supervisor.finish(), 0, f'exit code of up: {supervisor.text}')
    return work, with_a_kill


@test
def a_log_in_parts_is_the_whole_log_though_its_sink_is_killed(place):
    loads = rotating(place, 0)
    parts, current = parts_of(place), place.state / 'events.jsonl'
    check(len(parts) > 5, f'only {len(parts)} parts')
    same([part.name for part in parts], [f'events-{n:06}.jsonl' for n in range(1, len(parts) + 1)], 'names of the parts')
    for part in (*parts, current):
        check(part.stat().st_size <= 20000, f'{part.name} has {part.stat().st_size} bytes')
        check(lines_of(part), f'{part.name} is empty')
    for part, after in zip(parts, (*parts[1:], current)):
        first = after.read_bytes().split(b'\n', 1)[0]
        check(part.stat().st_size + len(first) + 1 > 20000, f'{part.name} could have held the line after it')
    whole = b''.join(part.read_bytes() for part in (*parts, current))
    same(whole, replayed(place), 'the parts in order, and the log that replay makes in one')
    finals = [line for line in map(json.loads, whole.splitlines()) if line['kind'] == 'spend' and line.get('final')]
    same(sum(line['billed'] for line in finals), sum(work.billed for work in loads), 'billed tokens in all parts')


@test
def of_a_log_in_parts_the_newest_are_kept(place):
    rotating(place, 2)
    with place.pipeline(place.root / 't.yaml'):  # what the last save before the end could still have needed goes at the next start
        pass
    parts = parts_of(place)
    whole = replayed(place)
    kept = b''.join(part.read_bytes() for part in (*parts, place.state / 'events.jsonl'))
    same(len(parts), 2, 'parts that are kept')
    check(whole.endswith(kept) and len(kept) < len(whole), 'what is kept is not the end of the log')


def survivors(lines, gaps):
    """The lines that the fold was given; the topology is event 1 of the stream, and the lines follow in their order."""
    lost = {number for gap in gaps for number in range(gap['from'], gap['to'] + 1)}
    return [json.loads(line) for number, line in enumerate(lines, 2) if number not in lost], lost


@test
def a_stream_that_may_drop_never_holds_its_agent_and_says_what_is_missing(place):
    file = place.topology(**{'durability: power': 'durability: process\ncommit_batch: 1', 'retain_hours: 168':
                             'retain_hours: 0\nmax_bytes: 2097152\nmax_event_bytes: 1048576\nwhen_full: drop'})
    work = Load('pi@one', 2400)
    lines = list(work.lines())
    with place.pipeline(file):
        fold = place.pids()['fold']
        os.kill(fold, signal.SIGSTOP)
        said = place.ctxpipe('send', '-f', file, '--agent', work.agent, '--key', 'k', input='\n'.join(lines) + '\n').err
        check(f'{len(lines)} acknowledged' in said, f'the agent was held: {said}')
        os.kill(fold, signal.SIGCONT)
        totals = place.ctxpipe('spend', '--json').json()['totals']
        rows = {row['node']: row for row in place.status()['nodes']}
    gaps = [line for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'gap' and 'from' in line]
    check(gaps, 'nothing was dropped: the stream is too large for this test')
    left, lost = survivors(lines, gaps)
    same(sum(gap['count'] for gap in gaps), len(lost), 'events that the gaps count')
    same(rows['fold']['dropped'], len(lost), 'events that status counts as dropped')
    prompts = [line for line in left if line['kind'] == 'prompt']
    same(totals['requests'], len(prompts), 'requests of what was left')
    same(totals['billed'], sum(sum(p['usage'][key] for key in ('input', 'cacheRead', 'cacheWrite5m')) for p in prompts), 'billed tokens of what was left')


@test
def a_mechanism_that_is_down_is_passed_over_and_what_it_says_late_counts_nowhere(place):
    file = place.topology(**{'retain_hours: 168': 'retain_hours: 168\nmax_hold_s: 1'})
    before, held, after = (Load(name, 40) for name in ('pi@before', 'pi@held', 'pi@after'))
    with place.pipeline(file):
        send(place, file, before)
        place.ctxpipe('spend', '--json')
        bash = place.pids()['bash']
        os.kill(bash, signal.SIGSTOP)
        send(place, file, held)
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], before.billed + held.billed, 'the bill, though a mechanism is down')
        os.kill(bash, signal.SIGCONT)
        send(place, file, after)
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], before.billed + held.billed + after.billed, 'the bill when it is back')
        rows = {row['node']: row for row in place.status()['nodes']}
    log = lines_of(place.state / 'events.jsonl')
    holds = [line for line in log if line['kind'] == 'hold']
    check(holds and all(hold['mechanism'] == 'bash' for hold in holds), f'holds: {holds}')
    said = {work.agent: sum(line['kind'].startswith('bash') and line['agent'] == work.agent for line in log) for work in (before, held, after)}
    check(said['pi@before'] > 0, 'the load gives the digest nothing to do')
    check(said['pi@held'] < said['pi@before'], f'nothing was passed over: {said}')
    check(rows['fold']['late'] > 0, f'nothing is counted as late: {rows["fold"]}')
    same(log, [json.loads(line) for line in replayed(place).splitlines()], 'the log and its replay')


PRICES = """models:
  claude-sonnet-4-5-20250929: {{input: {input}, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6, date: 2026-01-01, source: a test}}
"""


def input_cost(work, dollars):
    """In dollars, of what a load reports: its requests have no long context."""
    return (work.input * Decimal(dollars) + work.cache_read * Decimal('0.3') + work.cache_write * Decimal('3.75')) / 1000000


@test
def prices_hold_as_they_were_at_the_start_through_kills_and_change_with_the_next_up(place):
    file = place.topology()
    place.write('prices.yaml', PRICES.format(input=3))
    works = [Load(f'pi@{n}', 20) for n in range(4)]
    supervisor = place.start('ctxpipe', 'up', '-f', file)
    supervisor.wait_for('ready: ')
    send(place, file, works[0])
    expected = input_cost(works[0], 3)
    for work, node, text in zip(works[1:], ('fold', 'collector', 'collector'), (PRICES.format(input=6), PRICES.format(input=6), 'models: nonsense')):
        place.write('prices.yaml', text)
        os.kill(int(re.findall(rf'^{node}\s.*pid (\d+)', supervisor.text, re.M)[-1]), signal.SIGKILL)
        supervisor.wait_for('ready again')
        place.write('prices.yaml', PRICES.format(input=6))
        send(place, file, work)
        expected += input_cost(work, 3)
        same(place.ctxpipe('spend', '--json').json()['totals']['costInput'], expected, f'cost after {node} was killed')
    place.ctxpipe('down', '-f', file)
    same(supervisor.finish(), 0, f'exit code of up: {supervisor.text}')
    place.write('prices.yaml', PRICES.format(input=6))
    later = Load('pi@later', 20)
    with place.pipeline(file):
        send(place, file, later)
        same(place.ctxpipe('spend', '--json').json()['totals']['costInput'], expected + input_cost(later, 6), 'cost with the prices of the next up')
    same((place.state / 'events.jsonl').read_bytes(), replayed(place), 'the log and its replay')


@test
def a_sink_that_begins_now_has_what_comes_from_there_on(place):
    earlier, later = Load('pi@earlier', 20), [Load(f'pi@later{n}', 20) for n in range(2)]
    file = place.topology()
    with place.pipeline(file):
        send(place, file, earlier)
    whole = place.state / 'events.jsonl'
    begun = whole.stat().st_size
    file = place.topology(**{'\nnodes:\n': '\nnodes:\n  late: {daemon: sink-log, subscribe: [fold], from: now, options: {path: late.jsonl}}\n'
                                            '  all: {daemon: sink-log, subscribe: [fold], from: start, options: {path: all.jsonl}}\n'})
    for work in later:  # the second time it goes on where it was
        with place.pipeline(file):
            send(place, file, work)
    same((place.state / 'all.jsonl').read_bytes(), whole.read_bytes(), 'a sink that begins at the start')
    same((place.state / 'late.jsonl').read_bytes(), whole.read_bytes()[begun:], 'a sink that begins now')
    agents = {line['agent'] for line in lines_of(place.state / 'late.jsonl')}
    same(agents, {work.agent for work in later}, 'agents in the log of the sink that begins now')


main()
