"""Bad input: one clear sentence and a non-zero exit, or a counted refusal that `status` shows; what was good is kept; nothing hangs."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import PATIENCE, SOURCE, Skip, check, gone, lines_of, main, same, test
from load import Load


def sentence(done, *parts):
    """One line on standard error, that holds the parts, and no success."""
    check(done.code not in (0, None) and done.code > 0, f'no error exit: {done}')
    lines = done.err.strip().splitlines()
    same(len(lines), 1, f'lines of the error: {done}')
    for part in parts:
        check(str(part) in lines[0], f'the sentence does not name {part!r}: {done}')
    check('\x1b' not in done.err, f'control characters: {done!r}')


def bill(place):
    return place.ctxpipe('spend', '--json').json()['totals']


# ---- the topology ----

@test
def all_faults_of_a_topology_are_named_in_one_run_and_nothing_is_started(place):
    text = (SOURCE / 'config/default.yaml').read_text().replace('daemon: bash-digest', 'daemon: bash-diggest').replace('daemon: sink-log', 'daemon: sink-lgo')
    file = place.topology(name='broken.yaml')
    file.write_text(text)
    for command in ('check', 'up'):
        done = place.ctxpipe(*(('check', file) if command == 'check' else ('up', '-f', file, '--detach')), code=None)
        check(done.code != 0, f'{command} took it: {done}')
        errors = (done.err + done.out).strip().splitlines()
        check(sum('broken.yaml:' in line for line in errors) >= 2, f'{command} does not name two places: {done}')
        check(any("'bash-digest'" in line for line in errors), f'{command} suggests nothing: {done}')
    same(place.processes(), [], 'processes after a refused start')


@test
def a_topology_that_is_not_there_is_named(place):
    sentence(place.ctxpipe('up', '-f', place.root / 'none.yaml', '--detach', code=None), 'none.yaml')


@test
def a_port_in_use_is_named(place):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = place.topology(**{'ipc://ingest.sock': f'tcp://127.0.0.1:{port}'})
        done = place.ctxpipe('up', '-f', file, '--detach', code=None)
        check(done.code not in (0, None), f'it came up: {done}')
        check(str(port) in done.err and 'in use' in done.err, f'the port is not named: {done}')
    same(place.processes(), [], 'processes after a refused start')


@test
def a_second_up_on_the_same_directories_is_refused(place):
    with place.pipeline():
        done = place.ctxpipe('up', '--detach', code=None)
        sentence(done)
        check('already runs' in done.err, f'it does not say why: {done}')
        same(len(place.status()['nodes']), 8, 'nodes of the first, which goes on')


@test
def a_state_directory_that_cannot_be_written_is_named(place):
    place.uid = 65534
    for path in (place.root, place.home, place.root / 'run'):
        os.chown(path, place.uid, place.uid)
    os.chmod(place.root, 0o755)
    place.state.parent.mkdir(parents=True)  # of root, not of the user
    done = place.ctxpipe('up', '--detach', code=None)
    check(done.code not in (0, None), f'it came up: {done}')
    check('ermission denied' in done.err and str(place.state) in done.err, f'the directory is not named: {done}')
    same(place.processes(), [], 'processes after a refused start')


# ---- events ----

@test
def refused_events_are_counted_and_what_was_good_is_kept(place):
    work = Load('pi@one', 10)
    good = list(work.lines())
    bad = ['{"kind":"turn_end"}', '{"kind":"nix"}', '{"kind":"turn_end","turn":"three"}', 'no json at all', '{"kind":"turn_end","turn":3', '', '   ',
           '{"kind":"bash","toolCallId":"x","command":"y","originalTokens":1,"summaryTokens":1,"saved":0}']
    with place.pipeline():
        done = place.ctxpipe('send', '--agent', work.agent, input='\n'.join(good[:20] + bad + good[20:]) + '\n', code=None)
        check(done.code != 0, f'send says that all was well: {done}')
        check('turn' in done.err and 'required' in done.err, f'the missing field is not named: {done}')
        same(bill(place)['billed'], work.billed, 'billed tokens')
        agent = next(row for row in place.status()['agents'] if row['agent'] == work.agent)
        same(agent['events'], work.events, 'accepted events')
        place.running()


@test
def an_event_that_is_too_large_is_refused_by_name(place):
    work = Load('pi@one', 5)
    lines = list(work.lines())
    big = json.dumps({'kind': 'tool_result', 'toolCallId': 'big', 'tool': 'bash', 'isError': False, 'text': 'x' * (17 << 20), 'session': 's'})
    with place.pipeline():
        done = place.ctxpipe('send', '--agent', work.agent, input='\n'.join(lines[:10] + [big] + lines[10:]) + '\n', code=None)
        check(done.code not in (0, None) and ('16777216' in done.err or 'max_event_bytes' in done.err or '16 MiB' in done.err), f'the limit is not named: {done}')
        same(bill(place)['billed'], work.billed, 'billed tokens')


@test
def a_frame_of_another_version_is_refused_and_the_collector_goes_on(place):
    work = Load('pi@one', 5)
    with place.pipeline():
        reply = dealer(f'{place.env["XDG_RUNTIME_DIR"]}/ctxpipe/ingest.sock', bytes([0x93, 2, 0xa5]) + b'hello' + bytes([0x80]))
        check(b'refused' in reply and b'protocol' in reply, f'the answer does not refuse the version: {reply!r}')
        for garbage in (b'', b'\xff' * 100, b'\xdd\xff\xff\xff\xff', bytes(5000)):
            dealer(f'{place.env["XDG_RUNTIME_DIR"]}/ctxpipe/ingest.sock', garbage, answer=False)
        place.ctxpipe('send', '--agent', work.agent, input='\n'.join(work.lines()) + '\n')
        same(bill(place)['billed'], work.billed, 'billed tokens')


def dealer(path, message, answer=True, wanted=b'refused'):
    """A ZMTP 3.0 DEALER by hand, so that the frame is exactly ours: sends one message, returns the next one that holds what is wanted."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(path)
        link.sendall(b'\xff' + bytes(8) + b'\x7f\x03\x00' + b'NULL'.ljust(20, b'\0') + bytes(32))
        read_exact(link, 64)
        ready = b'\x05READY' + b'\x0bSocket-Type' + (6).to_bytes(4, 'big') + b'DEALER'
        link.sendall(bytes([4, len(ready)]) + ready)
        read_frame(link)
        link.sendall(bytes([2]) + len(message).to_bytes(8, 'big') + message)
        while answer:
            frame = read_frame(link)
            if wanted in frame:
                return frame
            check(b'refused' not in frame, f'refused: {frame!r}')
    return b''


def read_exact(link, count):
    data = b''
    while len(data) < count:
        block = link.recv(count - len(data))
        check(block, 'the collector closed the connection without a word')
        data += block
    return data


def read_frame(link):
    flags = read_exact(link, 1)[0]
    return read_exact(link, int.from_bytes(read_exact(link, 8), 'big') if flags & 2 else read_exact(link, 1)[0])


# ---- transcripts ----

def sample():
    """Lines of the project's own Claude Code sample."""
    files = sorted(path for path in (SOURCE / 'samples').rglob('*.jsonl') if b'"sessionId"' in path.read_bytes()[:4000] and 'subagents' not in path.parts)
    check(files, 'samples/ holds no session in the format of Claude Code')
    return files[0].read_bytes().splitlines()


def transcript(place, lines, name='s.jsonl', end=b'\n'):
    return place.write(f'transcripts/{name}', b'\n'.join(lines) + end)


def totals(place, *paths, code=0):
    done = place.ctxpipe('report', '--json', *paths, code=code)
    return json.loads(done.out)['totals'], done


@test
def torn_blank_garbage_and_non_utf8_lines_are_passed_over_and_counted(place):
    lines = sample()
    right, _ = totals(place, transcript(place, lines, 'right.jsonl'))
    middle = len(lines) // 2
    broken = lines[:middle] + [b'', b'   ', b'{"type":"assistant","message":{', b'garbage', b'\xff\xfe\x00\x01', b'[1,2,3]', b'"text"', b'null',
                               b'{"type":"user","message":{"role":"user","content":"\xff\xfe bytes"},"uuid":"bad-utf8"}'] + lines[middle:]
    path = transcript(place, broken, 'broken.jsonl')
    got, done = totals(place, path, code=1)
    check(f'{path}:{middle + 3}: ' in done.err, f'the first broken line is not named: {done}')
    same(got, right, 'totals with broken lines in between')
    passed = json.loads(done.out)['passedOver']
    check(sum(row['count'] for row in passed) >= 5, f'passedOver does not count them: {passed}')


@test
def a_last_line_that_is_torn_waits_and_counts_when_it_is_whole(place):
    lines = sample()
    whole, _ = totals(place, transcript(place, lines, 'whole.jsonl'))
    before, _ = totals(place, transcript(place, lines[:-1], 'before.jsonl'))
    torn, _ = totals(place, transcript(place, lines[:-1] + [lines[-1][:len(lines[-1]) // 2]], 'torn.jsonl', end=b''), code=1)
    same(torn, before, 'totals with a torn last line')
    check(whole['billed'] >= before['billed'], 'the whole file has less than its part')


@test
def a_line_of_many_megabytes_is_read_or_passed_over(place):
    lines = sample()
    right, _ = totals(place, transcript(place, lines, 'right.jsonl'))
    got, _ = totals(place, transcript(place, lines + [b'{"type":"progress","data":"' + b'x' * (40 << 20) + b'"}'], 'long.jsonl'))
    same(got, right, 'totals with an over-long line')


@test
def an_empty_file_and_a_file_of_nul_bytes_are_no_transcripts_and_say_so(place):
    empty, nul = place.write('empty.jsonl', b''), place.write('nul.jsonl', bytes(100000))
    for path in (empty, nul):
        done = place.ctxpipe('report', path, code=None)
        check(done.code != 0 and path.name in done.err, f'the file is not named: {done}')
        same(done.out, '', 'a bill of nothing')


@test
def a_folder_without_a_transcript_is_named_and_no_bill_of_zeros_is_printed(place):
    empty = place.mkdir('empty')
    for command in (['report', empty], ['report', '--json', empty], ['report', place.root / 'none']):
        done = place.ctxpipe(*command, code=1)
        sentence(done, command[-1])
        same(done.out, '', 'a bill of nothing')
    with place.pipeline():
        done = place.ctxpipe('import', empty, code=1)
        sentence(done, empty)
        same(done.out, '', 'an import of nothing')
        path = transcript(place, sample())
        place.ctxpipe('import', path)
        same(place.ctxpipe('import', path).out, "0 new events of 1 session from 1 file; 'ctxpipe spend' shows the bill\n", 'the same file again')


@test
def an_event_of_a_transcript_that_is_refused_is_told_by_every_import(place):
    def reply(n, output):
        return json.dumps({'type': 'assistant', 'uuid': f'a{n}', 'parentUuid': None, 'sessionId': 's', 'timestamp': '2026-01-02T00:00:00Z', 'requestId': f'r{n}',
                           'message': {'id': f'm{n}', 'model': 'm', 'content': [], 'usage': {'input_tokens': 10, 'output_tokens': output}}}).encode()
    path = transcript(place, [reply(1, 1), reply(2, 1 << 40), reply(3, 1)])
    wanted = 'ctxpipe: the collector refused 1 event; the first of them: prompt: usage.output is '
    with place.pipeline():
        for turn in range(2):
            done = place.ctxpipe('import', path, code=1)
            check(wanted in done.err, f'import {turn + 1} does not tell of the refused event: {done}')
            same(place.status()['agents'][0]['refused'], 1, 'refused events of the agent')
        place.ctxpipe('import', transcript(place, [reply(4, 1).replace(b'"s"', b'"t"')], 'good.jsonl'))


@test
def a_session_that_is_not_known_is_named_with_those_that_are(place):
    path = transcript(place, sample())
    name = place.ctxpipe('report', '--json', path).json()['sessions'][0]['session']
    done = place.ctxpipe('report', path, '--session', 'nosuch', code=1)
    sentence(done, "no session 'nosuch' is known", name)
    same(done.out, '', 'a bill of nothing')
    with place.pipeline():
        place.ctxpipe('import', path)
        for command in ('spend', 'stats'):
            sentence(place.ctxpipe(command, '--session', 'nosuch', code=1), "no session 'nosuch' is known", name)
            sentence(place.ctxpipe(command, '--agent', 'nosuch', code=1), "no agent 'nosuch' is known", 'claude-code')
            same(place.ctxpipe(command, '--session', 'nosuch', '--json', code=1).out, '', 'figures of nothing')


@test
def a_model_without_a_price_is_named(place):
    lines = [line.replace(b'claude-sonnet-4-5-20250929', b'nobody-knows-1') for line in sample()]
    done = place.ctxpipe('report', transcript(place, lines))
    check([line.split() for line in done.out.splitlines() if 'unpriced models' in line] == [['unpriced', 'models', 'nobody-knows-1']], f'the model is not named: {done}')
    check('unpriced models' not in place.ctxpipe('report', transcript(place, sample(), 'priced.jsonl')).out, 'a model with a price is named')


@test
def a_path_that_is_not_there_is_named_and_nothing_is_started(place):
    sentence(place.ctxpipe('report', '--json', transcript(place, sample()), place.root / 'none.jsonl', code=None), 'none.jsonl')


@test
def a_directory_without_permission_is_named_and_the_others_are_read(place):
    place.uid = 65534
    good = transcript(place, sample(), 'open/a.jsonl')
    transcript(place, sample(), 'shut/b.jsonl')
    for path in (place.root, *place.root.rglob('*')):
        os.chown(path, place.uid, place.uid)
    right, _ = totals(place, good)
    os.chmod(place.root / 'transcripts/shut', 0)
    done = place.ctxpipe('report', '--json', place.root / 'transcripts', code=None)
    os.chmod(place.root / 'transcripts/shut', 0o755)
    check(done.code != 0 and 'shut' in done.err and 'ermission' in done.err, f'the directory is not named: {done}')
    same(json.loads(done.out)['totals'], right, 'totals of what could be read')


@test
def a_file_that_shrinks_or_vanishes_while_it_is_read_ends_in_a_sentence(place):
    lines = sample()
    for how in ('shrinks', 'vanishes'):
        folder = place.mkdir(f'moving-{how}')
        for number in range(40):
            (folder / f'{number}.jsonl').write_bytes((b'\n'.join(lines) + b'\n') * 30)
        child = place.start('ctxpipe', 'report', '--json', folder, merge=False)
        for path in sorted(folder.iterdir(), reverse=True):
            if how == 'shrinks':
                os.truncate(path, 1000)
            else:
                path.unlink()
        out, err = child.process.communicate(timeout=60)
        check(child.process.returncode >= 0, f'ended by signal {-child.process.returncode}: {err.decode(errors="replace")[-2000:]}')
        if out:
            json.loads(out)
    same(place.processes(), [], 'processes after report')


# ---- resources ----

@contextlib.contextmanager
def small_disk(place, size):
    """A file system of that size for the state; skips where none may be mounted."""
    folder = place.mkdir('disk')
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Skip(f'no file system could be mounted: {done.stdout.strip()}')
    try:
        yield folder
    finally:
        subprocess.run(['umount', '-l', folder], check=False)


@test
def a_full_disk_loses_nothing_that_was_acknowledged(place):
    work = Load('pi@one', 1200)
    lines = '\n'.join(work.lines()) + '\n'
    with small_disk(place, '6m') as disk:
        file = place.topology(**{'~/.local/state/ctxpipe': str(disk / 'state')})
        place.ctxpipe('up', '-f', file, '--detach')
        sender = place.start('ctxpipe', 'send', '-f', file, '--agent', work.agent, '--key', 'k', stdin=subprocess.PIPE)
        writer = threading.Thread(target=feed, args=(sender.process.stdin, lines), daemon=True)
        writer.start()
        says_full(place, file)
        subprocess.run(['mount', '-o', 'remount,size=400m', disk], check=True)
        writer.join()
        same(sender.finish(), 0, f'exit code of the sender, which waited for room: {sender.text}')
        place.ctxpipe('down', '-f', file)  # maybe while a node that had met the full disk waits for its next start
        place.ctxpipe('up', '-f', file, '--detach')
        place.ctxpipe('spend', '-f', file)
        place.ctxpipe('down', '-f', file)
        log = lines_of(disk / 'state/events.jsonl')
        same(sum(line['billed'] for line in log if line['kind'] == 'spend' and line.get('final')), work.billed, 'billed tokens after the disk was full')


@test
def the_reason_of_a_node_that_met_a_full_disk_reaches_the_supervisor(place):
    lines = '\n'.join(Load('pi@one', 1200).lines()) + '\n'
    with small_disk(place, '6m') as disk:  # the nodes' own logs are on it, too
        file = place.topology(**{'~/.local/state/ctxpipe': str(disk / 'state')})
        supervisor = place.start('ctxpipe', 'up', '-f', file)
        supervisor.wait_for('ready: ')
        sender = place.start('ctxpipe', 'send', '-f', file, '--agent', 'pi@one', stdin=subprocess.PIPE)
        threading.Thread(target=feed, args=(sender.process.stdin, lines), daemon=True).start()
        line = supervisor.wait_for('started again in')
        check('no space is left on the disk' in line or 'No space left' in line, f'the line does not say why: {line}')
        subprocess.run(['mount', '-o', 'remount,size=400m', disk], check=True)
        supervisor.wait_for('ready again')
        place.ctxpipe('down', '-f', file)


@test
def a_node_that_could_not_drain_is_named_and_the_next_up_completes(place):
    work = Load('pi@one', 400)
    with small_disk(place, '64k') as disk:
        file = place.topology(**{'path: events.jsonl': f'path: {disk}/events.jsonl'})
        place.ctxpipe('up', '-f', file, '--detach')
        place.ctxpipe('send', '-f', file, '--agent', work.agent, input='\n'.join(work.lines()) + '\n')
        says_full(place, file)
        begun = time.monotonic()
        done = place.ctxpipe('down', '-f', file, code=1)
        sentence(done, 'not drained: log;', 'ctxpipe up', 'No space left')
        check(time.monotonic() - begun < 20, f'it took {time.monotonic() - begun:.1f} s to say so')
        same(place.processes(), [], 'processes after down')
        subprocess.run(['mount', '-o', 'remount,size=40m', disk], check=True)
        place.ctxpipe('up', '-f', file, '--detach')
        place.ctxpipe('down', '-f', file)
        same(sum(line['billed'] for line in lines_of(disk / 'events.jsonl') if line['kind'] == 'spend' and line.get('final')), work.billed, 'billed tokens in the log')


@test
def a_node_whose_trouble_is_over_is_drained_though_it_waits_for_its_next_start(place):
    work = Load('pi@one', 400)
    with small_disk(place, '64k') as disk:
        file = place.topology(**{'path: events.jsonl': f'path: {disk}/events.jsonl'})
        place.ctxpipe('up', '-f', file, '--detach')
        place.ctxpipe('send', '-f', file, '--agent', work.agent, input='\n'.join(work.lines()) + '\n')
        says_full(place, file)
        subprocess.run(['mount', '-o', 'remount,size=40m', disk], check=True)
        place.ctxpipe('down', '-f', file)
        same(sum(line['billed'] for line in lines_of(disk / 'events.jsonl') if line['kind'] == 'spend' and line.get('final')), work.billed, 'billed tokens in the log')


@test
def a_node_that_was_given_up_is_drained_when_its_trouble_is_over(place):
    work = Load('pi@one', 400)
    with small_disk(place, '64k') as disk:
        file = place.topology(**{'path: events.jsonl': f'path: {disk}/events.jsonl'})
        supervisor = place.start('ctxpipe', 'up', '-f', file)
        supervisor.wait_for('ready: ')
        place.ctxpipe('send', '-f', file, '--agent', work.agent, input='\n'.join(work.lines()) + '\n')
        supervisor.wait_for('it is not started again')
        subprocess.run(['mount', '-o', 'remount,size=40m', disk], check=True)
        place.ctxpipe('down', '-f', file)
        same(sum(line['billed'] for line in lines_of(disk / 'events.jsonl') if line['kind'] == 'spend' and line.get('final')), work.billed, 'billed tokens in the log')


@test
def a_stream_that_was_deleted_is_named_and_all_is_there_when_it_is_back(place):
    work = Load('pi@one', 400)
    lines = list(work.lines())
    with place.pipeline():
        place.ctxpipe('send', '--agent', work.agent, '--key', 'k', input='\n'.join(lines[:1000]) + '\n')
    shutil.move(place.state / 'write', place.root / 'backup')
    supervisor = place.start('ctxpipe', 'up', '-f', SOURCE / 'config' / 'default.yaml')
    if 'it is not started again' in supervisor.wait_for("cannot go on behind 'write'"):  # all was ready before the fold had asked
        done = place.ctxpipe('spend', code=1)
        sentence(done, "node 'fold' cannot go on behind 'write'", 'was deleted or replaced', 'backup', 'state_dir')
        place.ctxpipe('down', code=1)
    same(supervisor.finish(), 1, f'exit code of up: {supervisor.text}')
    shutil.rmtree(place.state / 'write')
    shutil.move(place.root / 'backup', place.state / 'write')
    with place.pipeline():
        place.ctxpipe('send', '--agent', work.agent, '--key', 'k', input='\n'.join(lines) + '\n')
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], work.billed, 'billed tokens after the stream is back')
    out = place.root / 'replayed'
    place.ctxpipe('replay', place.state, '--out', out)
    same((out / 'events.jsonl').read_bytes(), (place.state / 'events.jsonl').read_bytes(), 'the log of the replay')


@test
def stopped_daemons_do_not_hold_up_status_one_after_another(place):
    with place.pipeline():
        pids = [pid for node, pid in place.pids().items() if node in ('bash', 'amnesia', 'log', 'fold')]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        done = place.ctxpipe('status', '--json', code=1)
        took = time.monotonic() - begun
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        rows = {row['node']: row for row in done.json()['nodes']}
        same(sorted(name for name, row in rows.items() if row['state'] == 'silent'), ['amnesia', 'bash', 'fold', 'log'], 'silent nodes')
        check('does not answer' in rows['bash']['lastError'], f'it does not say so: {rows["bash"]}')
        check(took < 3, f'it took {took:.1f} s')  # one second for all, and what a busy machine adds; four of one second each would not fit


@test
def made_up_names_do_not_fill_the_status(place):
    work = Load('pi@one', 2)
    with place.pipeline():
        place.ctxpipe('send', '--agent', work.agent, input='\n'.join(work.lines()) + '\n')
        path = f'{place.env["XDG_RUNTIME_DIR"]}/ctxpipe/ingest.sock'
        for number in range(60):
            hello(path, f'made-up-{number}')
        done = place.ctxpipe('status')
        check(work.agent in done.out, f'the agent that did something is not shown: {done}')
        same(sum('made-up-' in line for line in done.out.splitlines()), 19, f'made-up names shown: {done}')
        check('41 more, 41 of them without an event' in done.out, f'the others are not counted: {done}')
        check(len(place.status()['agents']) == 61, 'not all are in the JSON')


def hello(path, agent):
    """A client that says its name, and nothing else."""
    def text(value):
        return bytes([0xd9, len(value)]) + value.encode()
    pairs = [('client', 'test'), ('key', agent), ('agent', agent), ('product', 'test')]
    body = bytes([0x80 + len(pairs)]) + b''.join(text(key) + text(value) for key, value in pairs)
    return dealer(path, bytes([0x93, 1]) + text('hello') + body, wanted=b'welcome')


def feed(pipe, lines):
    with contextlib.suppress(OSError), pipe:
        pipe.write(lines.encode())


def says_full(place, file):
    """Asks until a node's last error, or that of a node being started again, names the disk."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        status = place.ctxpipe('status', '-f', file, '--json', code=None)
        if any('space' in (row['lastError'] or '') for row in status.json()['nodes']):
            return
    check(False, f'status says nothing of the disk: {status}')


@test
def output_that_cannot_be_written_is_an_error(place):
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([place.start('ctxpipe', 'help').process.args[0], 'help'], stdout=full, stderr=subprocess.PIPE, env=place.env)
    check(done.returncode != 0 and b'output' in done.stderr, f'exit code {done.returncode}, {done.stderr!r}')


@test
def a_long_tmpdir_is_named_with_what_to_set(place):
    place.env['TMPDIR'] = str(place.mkdir('x' * 90))
    sentence(place.ctxpipe('report', SOURCE / 'samples', code=1), f"TMPDIR is '{place.env['TMPDIR']}'", 'set TMPDIR')
    same(list((place.root / ('x' * 90)).iterdir()), [], 'what is left in it')


@test
def a_pipeline_of_another_user_is_said_to_be_his(place):
    with place.pipeline():
        os.chmod(place.root, 0o755)
        os.chmod(place.root / 'run', 0o755)
        place.uid = 65534
        for command in (['status'], ['spend'], ['down'], ['send']):
            done = place.ctxpipe(*command, code=1)
            sentence(done, 'belongs to', f'user {os.getuid()}')
        place.uid = None


@test
def a_report_of_a_part_says_what_is_counted(place):
    done = place.ctxpipe('report', transcript(place, sample()), place.root / 'none.jsonl', code=1)
    sentence(done, 'none.jsonl', 'what could be read is counted: 1 session from 1 file')
    check('The bill by band' in done.out, f'no bill of what could be read: {done}')


@test
def an_event_that_is_refused_is_not_among_those_acknowledged(place):
    with place.pipeline():
        done = place.ctxpipe('send', input='{"kind":"turn_end","turn":1}\n{"kind":"turn_end","turn":1,"session":"s"}\n', code=1)
        check('line 1: refused by the collector: turn_end.session: is missing' in done.err, f'{done}')
        check('2 events sent, 1 acknowledged, 1 refused' in done.err, f'{done}')


@test
def a_report_that_was_killed_leaves_a_folder_that_the_next_one_removes(place):
    place.env['TMPDIR'] = str(place.mkdir('tmp'))
    for number in range(60):  # enough to be killed in the middle
        transcript(place, sample() * 30, f'{number}.jsonl')
    child = place.start('ctxpipe', 'report', place.root / 'transcripts')
    end = time.monotonic() + PATIENCE
    while not any((folder / 'run/supervisor.json').exists() for folder in (place.root / 'tmp').iterdir()):
        check(time.monotonic() < end and child.process.poll() is None, 'the private pipeline did not come up')
    for pid, line in place.processes():  # the command and its supervisor; the nodes see the end of their pipe
        if 'ctxpipe report' in line:
            os.kill(pid, signal.SIGKILL)
    same(child.finish(), -signal.SIGKILL, f'exit code of the report: {child.text}')
    check(list((place.root / 'tmp').iterdir()), 'nothing is left of it, so that there is nothing to test')
    for pid, _ in place.processes():
        check(gone(pid), f'node {pid} did not see that its supervisor is gone')
    place.ctxpipe('report', SOURCE / 'samples')
    same(list((place.root / 'tmp').iterdir()), [], 'folders after the next report')


@test
def a_report_whose_supervisor_is_killed_says_so(place):
    place.env['TMPDIR'] = str(place.mkdir('tmp'))
    for number in range(60):
        transcript(place, sample() * 30, f'{number}.jsonl')
    child = place.start('ctxpipe', 'report', place.root / 'transcripts')
    end = time.monotonic() + PATIENCE
    while not any((folder / 'run/supervisor.json').exists() for folder in (place.root / 'tmp').iterdir()):
        check(time.monotonic() < end and child.process.poll() is None, 'the private pipeline did not come up')
    for pid, line in place.processes():
        if 'ctxpipe report' in line and pid != child.process.pid:
            os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    same(child.finish(), 1, f'exit code of the report: {child.text}')
    check('ctxpipe: ' in child.text and 'The bill' not in child.text, f'it says nothing, or prints figures: {child.text}')
    check(time.monotonic() - begun < 30, f'it took {time.monotonic() - begun:.1f} s')  # a collector that is silent is waited for for 60
    for pid, _ in place.processes():
        check(gone(pid), f'node {pid} did not see that its supervisor is gone')
    place.ctxpipe('report', SOURCE / 'samples')  # which removes what an ending node may have left
    same(list((place.root / 'tmp').iterdir()), [], 'folders after the next report')


@test
def a_command_without_a_pipeline_says_what_to_do(place):
    for command in (['status'], ['spend'], ['stats'], ['tail'], ['down'], ['send']):
        sentence(place.ctxpipe(*command, code=None), 'ctxpipe up')


@test
def an_unknown_command_or_option_is_named_with_the_nearest(place):
    sentence(place.ctxpipe('statu', code=2), 'status')
    done = place.ctxpipe('status', '--jsno', code=2)
    check('--json' in done.err, f'no suggestion: {done}')


@test
def a_wrong_command_line_has_an_exit_code_of_its_own(place):
    samples = SOURCE / 'samples'
    for words in (['spend', '--by', 'bogus'], ['spend', '--top', '0'], ['report', '--by', 'bogus', samples], ['report', '--csv', '--json', samples], ['report', '--csv', '--top', '3', samples], ['spend', '--json', '--sort', 'own'],
                  ['spend', '--sort', 'bogus'], ['send', '--keys', 'x'], ['prices', '--json', '--yaml'], ['keys'], ['report', '--format', 'nosuch', samples], ['report', '--sizes', 'bogus', samples], ['import', '--format', 'nosuch', samples],
                  ['replay', '--top', 'x', place.state], ['tail', '--count', '0'], ['logs', '--lines', '0', 'fold'], ['down', '--timeout', 'x'], ['send', '--timeout', 'x'],
                  ['up', '--log-level', 'loud'], ['help', 'nosuch'], ['completion', 'zsh'], ['options', 'nosuch'], ['report']):
        sentence(place.ctxpipe(*words, code=2))
    sentence(place.ctxpipe('spend', code=1))  # understood, and cannot be done


main()
