"""The extension in the real pi: what it reports and applies, and that pi is never harmed by it."""
import json
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rig import HOME, RIG, Rig, calls, extension, plain, results, texts, topology  # noqa: E402
from harness import check, lines_of, main, same, test  # noqa: E402

SCRIPT_A = RIG / 'script-A.json'
PROMPTS = ('First task: explore and build', 'Second task: pdf', 'Third task: finish')
AGAIN = [{'calls': [{'id': 'c1', 'name': 'read', 'args': {'path': 'src/big_keep.py'}}]}, {'calls': [{'id': 'c2', 'name': 'read', 'args': {'path': 'src/big_keep.py'}}]},
         {'text': 'Read twice.'}, {'text': 'Again.'}, {'text': 'Resumed.'}, {'text': 'Forked.'}]
BIG = [{'text': 'One.', 'calls': [{'id': 'b1', 'name': 'bash', 'args': {'command': 'seq 1 20000'}}]},
       {'text': 'Two.', 'calls': [{'id': 'b2', 'name': 'bash', 'args': {'command': 'seq 1 9000'}}]},
       {'text': 'Three.', 'calls': [{'id': 'b3', 'name': 'bash', 'args': {'command': 'seq 1 8000'}}]},
       {'text': 'Four.', 'calls': [{'id': 'b4', 'name': 'bash', 'args': {'command': 'seq 1 7000'}}, {'id': 'b5', 'name': 'bash', 'args': {'command': 'seq 1 7500'}}]},
       {'text': 'Done.'}]


BARE = {}  # requests without the extension


def unharmed(place, with_extension, prompts, script):
    """The same requests as without the extension."""
    key = json.dumps([prompts, script])
    if key not in BARE:
        bare = Rig(place, script, 'bare')
        bare.pi(*prompts)
        BARE[key] = [plain(body) for body in bare.requests()]
    expected, got = BARE[key], [plain(body) for body in with_extension.requests()]
    same(len(got), len(expected), 'number of requests')
    for number, (a, b) in enumerate(zip(expected, got), 1):
        check(a == b, f'request {number} differs from the one without the extension:\n{a[-600:]}\n{b[-600:]}')


def log_of(place):
    return lines_of(place.state / 'events.jsonl')


def settled(place):
    """The log once everything is in it: down drains."""
    place.ctxpipe('down')
    return log_of(place)


@test
def what_a_session_of_pi_did_is_reported_and_what_is_answered_is_applied(place):
    rig = Rig(place, SCRIPT_A)
    place.ctxpipe('up', '-f', topology(place), '--detach')
    rig.pi(*PROMPTS, extension=extension(place))
    stats = place.ctxpipe('stats', '--json').json()['sessions'][0]
    totals = place.ctxpipe('spend', '--json').json()['totals']
    refused = place.status()['agents'][0]['refused']
    log, requests, usage = settled(place), rig.requests(), rig.usage()
    same(refused, 0, 'events that the collector refused')
    same((totals['requests'], totals['input'], totals['cacheRead'], totals['output']), (usage['requests'], usage['input'], usage['cacheRead'], usage['output']), 'the bill')
    same([line['turn'] for line in log if line['kind'] == 'turn'], list(range(1, len(requests) + 1)), 'turns')
    digested = {line['toolCallId']: line for line in log if line['kind'] == 'bash'}
    same(sorted(digested), ['c_bash1', 'c_bash2', 'c_bash4'], 'digested results')
    last = requests[-1]
    for call, line in digested.items():
        check(line['applied'], f'{call} was digested in theory only')
        same(-(-len(results(last)[call]) // 4), line['summaryTokens'], f'tokens of what is in the window for {call}')
    check('pi-bash-' not in results(last)['c_bash1'], 'the digest points at the discarded output')
    check('exit' in results(last)['c_bash2'] and 'boom' in results(last)['c_bash2'], 'the failed command lost its verdict')
    for line in [line for line in log if line['kind'] == 'write']:
        check('content' not in calls(last)[line['toolCallId']], f'{line["path"]}: the content is still there')
        check(('user', line['fact']) in texts(last), f'{line["path"]}: the fact is not there')
    same(len([line for line in log if line['kind'] == 'regret']), 0, 'savings taken back')
    entries = [line['data'] for line in rig.sessions()[0] if line.get('customType') == 'ctxpipe-stats']
    same(entries[-1]['cumulative'], {key: stats['cumulative'][key] for key in ('bash', 'amnesia', 'lazy', 'write', 'total')}, 'the snapshot in the session')
    same(len(entries[-1]['turns']), len(requests), 'turns of the snapshot')


@test
def each_request_is_the_one_before_and_a_tail_unless_a_removal_is_in_the_log(place):
    rig = Rig(place, SCRIPT_A)
    place.ctxpipe('up', '-f', topology(place), '--detach')
    rig.pi(*PROMPTS, extension=extension(place))
    log, requests = settled(place), [body['messages'] for body in rig.requests()]
    breaks = sum(1 for before, after in zip(requests, requests[1:]) if after[:len(before)] != before)
    same(breaks, len([line for line in log if line['kind'] == 'amnesia-remove']), 'requests that are not the one before and a tail')
    check(breaks > 0, 'nothing was removed')


@test
def what_was_removed_stays_out_after_a_resume_and_in_a_fork(place):
    rig, ext = Rig(place, AGAIN), extension(place)
    place.ctxpipe('up', '-f', topology(place, amnesia={'cache_ttl_s': 0}), '--detach')
    rig.pi('Read it twice', 'And again', extension=ext)
    same([sorted(results(body)) for body in rig.requests()], [[], ['c1'], ['c2'], ['c2']], 'results in the requests')
    place.ctxpipe('down')
    rig.pi('Resumed', extension=ext, more=['--continue'])  # and nobody answers
    same(sorted(results(rig.requests()[4])), ['c2'], 'results in the request after the resume')
    place.ctxpipe('up', '-f', place.root / 't.yaml', '--detach')
    lines = rig.rpc([{'type': 'get_fork_messages', 'pick': 'data.messages.-1.entryId'}, {'type': 'fork', 'entryId': '$LAST'},
                     {'type': 'prompt', 'message': 'Forked', 'wait': 'agent_settled'}], extension=ext, more=['--continue'])
    check(any(line.get('command') == 'fork' and line.get('success') for line in lines), 'the fork failed')
    same(len(rig.sessions()), 2, 'sessions')
    forked = rig.requests()[5]
    same(sorted(results(forked)), ['c2'], 'results in the request of the fork')
    same(forked['messages'][:len(forked['messages']) - 1], rig.requests()[4]['messages'][:len(forked['messages']) - 1], 'the fork and what it was forked from')
    removed = [line for line in settled(place) if line['kind'] == 'amnesia-remove' and line.get('applied', True)]
    same(len(removed), 1, 'removals that count')


@test
def an_auxiliary_model_answers_through_the_pipeline_and_its_tokens_are_in_the_ledger(place):
    rig = Rig(place, [BIG[0], {'text': 'Done.'}])
    engine = {'engine': 'aux', 'url': f'{rig.url}/aux/digest/v1', 'model': 'small'}
    place.ctxpipe('up', '-f', topology(place, ('bash',), bash=engine), '--detach')
    rig.pi('Go', extension=extension(place), CTXPIPE_TIMEOUT_MS='20000')
    stats = place.ctxpipe('stats', '--json').json()['sessions'][0]
    log, digest = settled(place), results(rig.requests()[1])['b1']
    check('chars' in digest and '- last line: ' in digest, f'the digest is not the model\'s: {digest[:300]!r}')
    line = next(line for line in log if line['kind'] == 'bash')
    same((line['engine'], line['applied'], line['summaryTokens']), ('aux', True, -(-len(digest) // 4)), 'the digest in the log')
    check(stats['aux'] > 0, 'the model call is not in the ledger')
    same(stats['net'], line['saved'] - stats['aux'], 'net of the call')


@test
def the_widget_and_ctx_stats_show_what_the_pipeline_says(place):
    rig = Rig(place, [BIG[0], {'text': 'Done.'}])
    place.ctxpipe('up', '-f', topology(place), '--detach')
    lines = rig.rpc([{'type': 'prompt', 'message': 'Go', 'wait': 'agent_settled'}, {'type': 'prompt', 'message': '/ctx-stats'}], extension=extension(place))
    saved = place.ctxpipe('stats', '--json').json()['sessions'][0]['cumulative']['bash']
    shown = f'{saved / 1000:.1f}k'
    widgets = [line['widgetLines'] for line in lines if line.get('method') == 'setWidget' and line.get('widgetLines')]
    same(widgets[-1], [f'ctxwm saved {shown} tok (bash {shown} · amnesia 0 · lazy 0 · write 0)'], 'the widget')
    told = [line['message'] for line in lines if line.get('method') == 'notify' and 'saved' in line.get('message', '')]
    same(len(told), 1, 'answers of /ctx-stats')
    check(f'bash     {shown:>8}' in told[0] and '0 not answered in time' in told[0], f'/ctx-stats says: {told[0]}')


@test
def a_resumed_session_goes_on_from_its_snapshot_where_the_pipeline_has_forgotten_it(place):
    rig, ext = Rig(place, [BIG[0], {'text': 'Done.'}, {'text': 'Resumed.'}]), extension(place)
    place.ctxpipe('up', '-f', topology(place), '--detach')
    rig.pi('Go', extension=ext)
    before = [line for line in settled(place) if line['kind'] == 'turn'][-1]
    check(before['cumulative']['bash'] > 0, 'nothing was saved')
    shutil.rmtree(place.state)
    place.ctxpipe('up', '-f', place.root / 't.yaml', '--detach')
    rig.pi('Again', extension=ext, more=['--continue'])
    after = [line for line in settled(place) if line['kind'] == 'turn']
    same([line['turn'] for line in after], [before['turn'] + 1], 'turns after the resume')
    same(after[0]['cumulative'], before['cumulative'], 'what was saved so far')


@test
def a_compaction_is_reported_with_what_its_summary_cost(place):
    rig = Rig(place, [BIG[0], {'text': 'Long.'}, {'text': 'Read.'}, {'text': 'After.'}])
    place.ctxpipe('up', '-f', topology(place), '--detach')
    lines = rig.rpc([{'type': 'prompt', 'message': 'Go', 'wait': 'agent_settled'}, {'type': 'prompt', 'message': 'word ' * 20000, 'wait': 'agent_settled'}, {'type': 'compact'},
                     {'type': 'prompt', 'message': 'On', 'wait': 'agent_settled'}], extension=extension(place))
    check(any(line.get('command') == 'compact' and line.get('success') for line in lines), 'the compaction failed')
    out = place.ctxpipe('spend', '--json').json()
    usage, entry = rig.usage(), next(line for line in rig.sessions()[0] if line['type'] == 'compaction')
    same(out['totals']['billed'], usage['input'] + usage['cacheRead'] + entry['usage']['input'] + entry['usage']['cacheRead'], 'billed tokens')
    same(out['totals']['requests'], usage['requests'] + 1, 'requests')
    check(any(row['band'] == 'history' and row['billed'] > 0 for row in out['bands']), 'the summary is not in the bill')


@test
def what_nobody_acknowledged_before_pi_ended_is_told_as_a_gap_when_the_session_comes_back(place):
    rig, ext = Rig(place, [BIG[0], {'text': 'Done.'}, {'text': 'Back.'}]), extension(place)
    rig.pi('Go', extension=ext)
    place.ctxpipe('up', '-f', topology(place), '--detach')
    rig.pi('Again', extension=ext, more=['--continue'])
    kept = [line['data']['count'] for line in rig.sessions()[0] if line.get('customType') == 'ctxpipe-lost']
    same([line['count'] for line in settled(place) if line['kind'] == 'gap'], kept[:1], 'gaps in the log')
    check(kept[0] > 0 and kept[1:] == [0], f'what the session kept: {kept}')


@test
def without_a_collector_pi_goes_on_as_without_the_extension(place):
    rig = Rig(place, BIG)
    rig.pi('Go', extension=extension(place))
    unharmed(place, rig, ['Go'], BIG)


@test
def without_its_modules_pi_goes_on_as_without_the_extension(place):
    rig, ext = Rig(place, BIG), extension(place)
    (ext / 'node_modules').unlink()
    said = rig.pi('Go', extension=ext)
    check('ctxpipe: off: ' in said and 'npm install' in said, f'it does not say what is missing: {said!r}')
    unharmed(place, rig, ['Go'], BIG)


@test
def a_wrong_setting_is_named_and_pi_goes_on_as_without_the_extension(place):
    rig = Rig(place, BIG)
    (rig.agent / 'ctxpipe.json').write_text('{"timeoutms": 5}')
    said = rig.pi('Go', extension=extension(place))
    check("ctxpipe.json: unknown setting 'timeoutms'; there are endpoint, agent, timeoutMs" in said, f'it does not say what is wrong: {said!r}')
    unharmed(place, rig, ['Go'], BIG)


def with_peer(place, mode, **env):
    rig = Rig(place, BIG)
    place.mkdir('run/ctxpipe')
    peer = place.start(rig.node, pathlib.Path(__file__).parent / 'peer.mjs', HOME / 'node_modules', place.endpoint, mode)
    peer.wait_for('bound')
    rig.pi('Go', extension=extension(place), **env)
    peer.process.terminate()
    peer.finish()
    return rig, [json.loads(line) for line in peer.text.splitlines() if line.startswith('{')]


@test
def garbage_from_the_socket_changes_nothing(place):
    rig, _ = with_peer(place, 'garbage', CTXPIPE_TIMEOUT_MS='500')
    unharmed(place, rig, ['Go'], BIG)


@test
def answers_that_cannot_be_applied_change_nothing_and_are_told(place):
    rig, said = with_peer(place, 'wrong')
    unharmed(place, rig, ['Go'], BIG)
    check(any(line['kind'] == 'outcome' and line['outcome'] == 'refused' for line in said), 'nothing was told of the answers')


@test
def after_three_time_outs_in_a_row_nothing_is_asked_and_everything_is_told(place):
    rig, said = with_peer(place, 'silent', CTXPIPE_TIMEOUT_MS='300')
    unharmed(place, rig, ['Go'], BIG)
    same(len([line for line in said if line.get('ask')]), 3, 'asks')
    same([line['outcome'] for line in said if line['kind'] == 'outcome'], ['timeout'] * 3, 'what was told of them')
    same([line['toolCallId'] for line in said if line['kind'] == 'tool_result'], ['b1', 'b2', 'b3', 'b4', 'b5'], 'results')
    same(len([line for line in said if line['kind'] == 'prompt']), 5, 'requests')


@test
def a_full_buffer_drops_says_how_much_and_the_next_request_is_whole(place):
    """Nothing is acknowledged before the collector is there: the buffer of 64 KiB overflows."""
    steps = [{'text': f'{n}.', 'calls': [{'id': f'b{n}', 'name': 'bash', 'args': {'command': f'seq {n}000 {n + 4}000'}}]} for n in range(1, 13)]
    place.ctxpipe('check', '-f', topology(place))
    up = {'text': 'Up.', 'calls': [{'id': 'up', 'name': 'bash', 'args': {'command': f'"$CTXPIPE" up -f {place.root}/t.yaml --detach'}}]}
    wait = {'text': 'Wait.', 'calls': [{'id': 'w', 'name': 'bash', 'args': {'command': 'until "$CTXPIPE" status --json | grep -q \'"agent":"pi-a"\'; do :; done'}}]}
    rig = Rig(place, [*steps, up, wait, {'text': 'More.', 'calls': [{'id': 'm', 'name': 'bash', 'args': {'command': 'echo more'}}]}, {'text': 'Done.'}])
    rig.pi('Go', extension=extension(place), CTXPIPE_BUFFER_BYTES='65536')
    tail = place.ctxpipe('spend', '--json').json()['totals']
    same(place.status()['agents'][0]['refused'], 0, 'events that did not fit behind the gap')
    log = settled(place)
    gaps = [line for line in log if line['kind'] == 'gap']
    check(gaps and sum(line['count'] for line in gaps) > 0, 'what was dropped is not told')
    check(0 < tail['requests'] <= 16, f'{tail["requests"]} requests are told')


@test
def a_pipeline_killed_in_the_middle_of_an_ask_harms_nobody_and_nothing_is_lost_or_double(place):
    file = place.root / 'pids'
    stop = f'kill -STOP $(sed -n 1p {file}); seq 1 9000'
    kill = f'kill -KILL $(cat {file}); seq 1 8000'
    up = f'"$CTXPIPE" up -f {place.root}/t.yaml --detach; until "$CTXPIPE" status --json | grep -q \'"agent":"pi-a"\'; do :; done; seq 1 7000'
    told = 'until "$CTXPIPE" tail --node collector --from-start --no-follow answer_missed | grep -q timeout; do :; done; seq 1 20000'  # that b2 was not applied
    commands = {'b1': 'seq 1 20000', 'b2': stop, 'b3': kill, 'b4': up, 'b5': told}
    script = [*[{'text': f'{call}.', 'calls': [{'id': call, 'name': 'bash', 'args': {'command': command}}]} for call, command in commands.items()], {'text': 'Done.'}]
    rig = Rig(place, script)
    place.ctxpipe('up', '-f', topology(place), '--detach')
    status = place.status()
    pids = [row['pid'] for row in sorted(status['nodes'], key=lambda row: row['node'] != 'collector')]
    supervisor = int(subprocess.run(['ps', '-o', 'ppid=', '-p', str(pids[0])], capture_output=True, text=True, check=True).stdout)
    file.write_text('\n'.join(map(str, [pids[0], supervisor, *pids[1:]])) + '\n')
    rig.pi('Go', extension=extension(place), CTXPIPE_TIMEOUT_MS='2500')
    last, usage = results(rig.requests()[-1]), rig.usage()
    totals = place.ctxpipe('spend', '--json').json()['totals']
    log = settled(place)
    for call, end in (('b2', 9000), ('b3', 8000)):
        check(f'\n{end}\n' in last[call] and f'\n{end - 1}\n' in last[call], f'{call} was not left as it is: {last[call][-200:]!r}')
    same([line['turn'] for line in log if line['kind'] == 'turn'], [1, 2, 3, 4, 5, 6], 'turns')
    same((totals['requests'], totals['input'], totals['cacheRead'], totals['output']), (usage['requests'], usage['input'], usage['cacheRead'], usage['output']), 'the bill')
    bash = [line for line in log if line['kind'] == 'bash']
    same(sorted(line['toolCallId'] for line in bash), ['b1', 'b2', 'b3', 'b4', 'b5'], 'results that were looked at')
    taken_back = {line['toolCallId']: line['tokens'] for line in log if line['kind'] == 'regret'}
    inside = {line['toolCallId'] for line in bash if -(-len(last[line['toolCallId']]) // 4) == line['summaryTokens']}
    check('b1' in inside and not inside & {'b2', 'b3'}, f'digests in the window: {sorted(inside)}')
    saved = sum(line['saved'] for line in bash if line['applied']) - sum(taken_back.values())
    same(saved, sum(line['saved'] for line in bash if line['toolCallId'] in inside), 'what is claimed, against what is in the window')
    out = place.root / 'replayed'
    place.ctxpipe('replay', place.state, '--out', out)
    check((out / 'events.jsonl').read_bytes() == (place.state / 'events.jsonl').read_bytes(), 'the log differs from the replay')


main()
