"""Three agents feed one collector at the same time; every command and every file then says the same."""
import json
import os
import pathlib
import re
import socket
import subprocess
import threading

from harness import AGENT, BUILD, CTXPIPE, SOURCE, check, closes, lines_of, main, same, test
from load import Load


def feed(child, lines):
    """Writes the lines from a thread of its own; a sender that is not read from does not hold the others."""
    def write():
        with child.process.stdin as pipe:
            pipe.write(('\n'.join(lines) + '\n').encode())
    thread = threading.Thread(target=write)
    thread.start()
    return thread


def three_agents(place, turns=60):
    """Two through `ctxpipe send`, one through the C client; returns the loads of the first two, and the totals of the third."""
    loads = [Load('pi@one', turns), Load('pi@two', turns)]
    senders = [place.start('ctxpipe', 'send', '--agent', work.agent, '--product', 'pi', stdin=subprocess.PIPE) for work in loads]
    client = place.start(AGENT, place.endpoint, 'c-agent', str(turns))
    threads = [feed(child, list(work.lines())) for child, work in zip(senders, loads)]
    for thread in threads:
        thread.join()
    for child in (*senders, client):
        same(child.finish(), 0, f'exit code of {child.process.args}: {child.text}')
    return loads, json.loads(client.text.strip().splitlines()[-1])


@test
def three_agents_at_once_and_every_command_agrees(place):
    with place.pipeline():
        loads, client = three_agents(place)
        status = place.running()
        agents = {row['agent']: row for row in status['agents']}
        for work in loads:
            same(agents[work.agent]['events'], work.events, f'events of {work.agent} in status')
            same(agents[work.agent]['refused'], 0, f'refused events of {work.agent}')
        same(agents['c-agent']['events'], client['events'], 'events of the C client in status')
        spend = place.ctxpipe('spend', '--json').json()
        billed = sum(work.billed for work in loads) + client['billed']
        same(spend['totals']['billed'], billed, 'billed tokens in spend')
        same(spend['totals']['requests'], sum(work.requests for work in loads) + client['requests'], 'requests in spend')
        closes(spend, 'spend')
        closes(place.ctxpipe('spend', '--json', '--by', 'message').json(), 'spend by message')
        stats = place.ctxpipe('stats', '--json').json()
        tail = [json.loads(line) for line in place.ctxpipe('tail', '--no-follow').out.splitlines()]
        check(tail, 'tail printed nothing')
    log = lines_of(place.state / 'events.jsonl')
    for work in loads:
        turns = [line for line in log if line['kind'] == 'turn' and line['agent'] == work.agent]
        same(len(turns), work.requests, f'turns of {work.agent} in the log')
        finals = [line for line in log if line['kind'] == 'spend' and line['agent'] == work.agent and line.get('final')]
        same(len(finals), work.sessions, f'sessions of {work.agent} that ended in the log')
        same(sum(line['billed'] for line in finals), work.billed, f'billed tokens of {work.agent} in the log')
    snapshots = [json.loads(path.read_bytes()) for path in sorted((place.state / 'snapshots').iterdir())]
    same(len(snapshots), sum(work.sessions for work in loads) + client['sessions'], 'one snapshot a session')
    for snapshot in snapshots:
        turns = [line for line in log if line['kind'] == 'turn' and line['session'] == snapshot['session']]
        same(snapshot['cumulative'], turns[-1]['cumulative'], f'cumulative savings of {snapshot["session"]} in snapshot and log')
        for key in ('bash', 'amnesia', 'lazy', 'write', 'total'):
            same(sum(turn[key] for turn in turns), snapshot['cumulative'][key], f'the turns of {snapshot["session"]} add up: {key}')
    same(sum(row['cumulative']['total'] for row in stats['sessions']), sum(snapshot['cumulative']['total'] for snapshot in snapshots), 'stats and snapshots')
    same(place.processes(), [], 'processes after down')


@test
def the_logs_of_nodes_and_supervisor_can_be_read_and_an_empty_one_is_told(place):
    done = place.ctxpipe('logs', 'fold', code=1)
    check("node 'fold' has not been started yet" in done.err, f'the log of a node that never ran: {done}')
    with place.pipeline():
        done = place.ctxpipe('logs', 'supervisor')
        for words in ('fold', 'ready: the collector accepts events'):
            check(words in done.out, f'the supervisor log does not hold {words!r}: {done}')
        check(len(place.ctxpipe('logs', '-n', '1', 'supervisor').out.splitlines()) == 1, 'not one line')
        (place.state / 'logs/fold.log').write_bytes(b'')
        done = place.ctxpipe('logs', 'fold')
        check(done.out == '' and "the log of 'fold' is empty" in done.err, f'an empty log: {done}')


@test
def a_pipeline_that_went_down_goes_on_where_it_was(place):
    work, more = Load('pi@one', 30), Load('pi@two', 30)
    for load in (work, more):
        with place.pipeline():
            place.ctxpipe('send', '--agent', load.agent, input='\n'.join(load.lines()) + '\n')
    with place.pipeline():
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], work.billed + more.billed, 'billed tokens over two lives')


@test
def the_same_events_sent_again_under_the_same_key_count_once(place):
    work = Load('pi@one', 20)
    lines = '\n'.join(work.lines()) + '\n'
    with place.pipeline():
        for _ in range(2):
            place.ctxpipe('send', '--agent', 'pi@one', '--key', 'the-same', input=lines)
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], work.billed, 'billed tokens after sending twice')


@test
def a_key_is_for_one_input_that_may_grow(place):
    work = Load('pi@one', 20)
    lines = list(work.lines())

    def send(some, code=0):
        return place.ctxpipe('send', '--agent', 'pi@one', '--key', 'k', input='\n'.join(some) + '\n', code=code).err

    with place.pipeline():
        send(lines[:30])
        changed = lines[:10] + [lines[11], lines[10]] + lines[12:]
        for other, what in ((changed, 'does not begin with them'), (lines[:29], 'is shorter')):
            same(send(other, code=1), f"ctxpipe: key 'k' has sent 30 events before, and this input {what}; nothing of it was sent: name another --key\n",
                 f'what is said of input that {what}')
        same(place.status()['agents'][0]['events'], 30, 'events after other input')
        check(f'{len(lines) - 30} events sent, {len(lines) - 30} acknowledged, 30 there already' in send(lines), 'a grown input goes on')
        same(place.ctxpipe('spend', '--json').json()['totals']['billed'], work.billed, 'billed tokens')


@test
def the_example_in_c_gets_an_answer_and_an_acknowledgement(place):
    with place.pipeline():
        done = place.run(BUILD / 'agents/c/agent_example', place.endpoint)
        same(done.out.splitlines(), ['the window gets the result as it is', '4 events, 4 acknowledged'], 'what the example prints')


@test
def the_completion_is_installed_where_bash_looks_for_it_and_completes(place):
    installed = json.loads((BUILD / 'meson-info' / 'intro-installed.json').read_text())
    scripts = [source for source, target in installed.items() if target.endswith('/bash-completion/completions/ctxpipe')]
    same(len(scripts), 1, 'files installed as completions/ctxpipe')
    place.write('completions', place.ctxpipe('completion', 'bash').out)
    for words, wanted in (('ctxpipe spe', 'spend'), ('ctxpipe spend --by', '--by'), ('ctxpipe help repl', 'replay')):
        script = f'. ./completions; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _ctxpipe; echo "${{COMPREPLY[@]}}"'
        same(place.run('bash', '-c', script).out.strip(), wanted, f'completion of {words!r}')


@test
def the_topology_in_the_readme_is_one(place):
    text = re.search(r'```yaml\n(.*?)```', (SOURCE / 'README.md').read_text(), re.S)[1]
    place.ctxpipe('check', '-f', place.write('readme.yaml', text))


@test
def the_events_in_the_readme_and_in_the_help_of_send_can_be_pasted(place):
    text = re.search(r'```sh\n(  ctxpipe send.*?)```', (SOURCE / 'README.md').read_text(), re.S)[1]
    example = place.ctxpipe('send', '--help').out.split('Example:\n')[1].strip()
    place.mkdir('bin')
    (place.root / 'bin/ctxpipe').symlink_to(CTXPIPE)
    place.env['PATH'] = f'{place.root}/bin:{place.env["PATH"]}'
    with place.pipeline():
        place.run('sh', '-ec', example)
        done = place.run('sh', '-ec', '\n'.join(line[2:] for line in text.splitlines()))
        totals = place.ctxpipe('spend', '--json').json()['totals']
        same((totals['billed'], totals['output'], totals['unpricedTokens']), (4000, 200, 0), f'what the pasted events bill: {done}')


@test
def every_shipped_topology_starts_and_ends(place):
    for name in sorted(path.name for path in (SOURCE / 'config').glob('*.yaml') if 'nodes:' in path.read_text()):
        if 'curve:' in (SOURCE / 'config' / name).read_text():
            continue  # needs keys beside it, and a port: the next test
        with place.pipeline(SOURCE / 'config' / name):
            place.running()
        same(place.processes(), [], f'processes after {name}')


def free_port():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        return taken.getsockname()[1]


@test
def another_machine_sends_encrypted_and_a_wrong_key_is_told_so(place):
    port = free_port()
    file = place.topology(source='remote.yaml', **{'tcp://*:7717': f'tcp://127.0.0.1:{port}'})
    done = place.ctxpipe('check', '-f', file, code=1)
    check("secret_file: '" in done.err and 'cannot be read' in done.err, f'the missing key is not named: {done}')
    place.ctxpipe('keys', 'keys', 'laptop')
    for name in ('collector.secret', 'clients', 'laptop.client'):
        same((place.root / 'keys' / name).stat().st_mode & 0o777, 0o600, f'mode of {name}')
    before = (place.root / 'keys/collector.secret').read_bytes()
    done = place.ctxpipe('keys', 'keys', 'laptop', code=1)
    check('laptop.client' in done.err and 'stays as it is' in done.err, f'keys are written over: {done}')
    same((place.root / 'keys/collector.secret').read_bytes(), before, "the collector's key after a second call")
    place.ctxpipe('keys', 'others', 'laptop')  # of another collector
    place.ctxpipe('keys', 'keys', 'stranger')
    listed = (place.root / 'keys/clients').read_text()
    place.write('keys/clients', '\n'.join(line for line in listed.splitlines() if not line.endswith(' stranger')) + '\n')
    work, to = Load('pi@far', 12), f'tcp://127.0.0.1:{port}'
    lines = '\n'.join(work.lines()) + '\n'
    with place.pipeline(file):
        done = place.ctxpipe('send', '--to', to, '--keys', 'keys/stranger.client', input=lines, code=1)
        check(to in done.err and 'does not know this key' in done.err and 'clients_file' in done.err, f'a key that is not listed: {done}')
        done = place.ctxpipe('send', '--to', to, '--keys', 'others/laptop.client', input=lines, code=1)
        check(to in done.err and "the server's key is not the collector's" in done.err, f"another collector's key: {done}")
        done = place.ctxpipe('send', '--to', to, '--agent', 'open', input=lines, code=1)
        check(to in done.err and 'it wants keys' in done.err, f'no key at all: {done}')
        os.chmod(place.root / 'keys/laptop.client', 0o644)
        done = place.ctxpipe('send', '--to', to, '--keys', 'keys/laptop.client', input=lines, code=1)
        check('chmod 600' in done.err, f'a key that others can read: {done}')
        os.chmod(place.root / 'keys/laptop.client', 0o600)
        same(place.ctxpipe('spend', '-f', file, '--json').json()['totals']['billed'], 0, 'billed tokens of those who were not let in')
        place.ctxpipe('send', '--to', to, '--keys', 'keys/laptop.client', '--agent', work.agent, input=lines)
        same(place.ctxpipe('spend', '-f', file, '--json').json()['totals']['billed'], work.billed, 'billed tokens of the one who was')


@test
def an_installation_that_was_moved_finds_its_daemons(place):
    tool = place.mkdir('moved/bin') / 'ctxpipe'
    programs = place.mkdir('moved/libexec/ctxpipe')
    tool.write_bytes(pathlib.Path(CTXPIPE).read_bytes())
    tool.chmod(0o755)
    for daemon in (BUILD / 'daemons/programs').iterdir():
        if os.access(daemon, os.X_OK) and daemon.is_file():
            (programs / daemon.name).symlink_to(daemon)
    place.run(tool, 'up', '-f', SOURCE / 'config/log-only.yaml', '--detach')
    place.run(tool, 'down')
    (programs / 'fold').unlink()
    done = place.run(tool, 'up', '-f', SOURCE / 'config/log-only.yaml', '--detach', code=1)
    check("'fold'" in done.err and 'libexec' in done.err, f'a daemon that is missing: {done}')


main()
