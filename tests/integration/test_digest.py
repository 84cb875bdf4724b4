"""A digested output through the whole pipeline: the agent gets the digest, the log its figures, and `ctxpipe show ID` the original."""
import json
import lzma

from harness import SOURCE, check, lines_of, main, same, test

OUTPUTS = SOURCE / 'tests' / 'cases' / 'outputs'
NAMES = ['gcc-errors', 'pytest-fails', 'git-diff', 'service', 'json-line', 'apt-simulate', 'pv-progress', 'elf', 'jest-fails', 'tree', 'cargo-metadata', 'make-small']


def output(name):
    return lzma.decompress((OUTPUTS / (name + '.txt.xz')).read_bytes()).decode('utf-8', 'replace')


def result(row, session='s1'):
    return json.dumps({'kind': 'tool_result', 'session': session, 'toolCallId': row['name'], 'tool': 'bash', 'input': {'command': row['command']},
                       'isError': row['exitCode'] != 0, 'exitCode': row['exitCode'], 'text': output(row['name']), 'ask': True})


@test
def the_original_of_every_digested_output_is_shown_as_it_was(place):
    rows = {row['name']: row for row in json.loads((OUTPUTS / 'manifest.json').read_text())}
    events = [json.dumps({'kind': 'session_start', 'session': 's1', 'product': 'pi'})] + [result(rows[name]) for name in NAMES]
    with place.pipeline():
        done = place.ctxpipe('send', '--agent', 'pi@test', '--ask', input='\n'.join(events) + '\n')
        answers = [json.loads(line) for line in done.out.splitlines()]
        same(len(answers), len(NAMES), 'answers')
        for name, answer in zip(NAMES, answers):
            shown = place.ctxpipe('show', name).out
            check(shown == output(name), f'{name}: show gave {len(shown)} characters of {len(output(name))}')
            digested = 'replace' in json.dumps(answer)
            same(digested, name != 'make-small', f'{name} is digested: {json.dumps(answer)[:200]}')
            if digested:
                check(f'; exit code {rows[name]["exitCode"]}]' in json.dumps(answer), f'{name}: the exit code is not in the answer')
        unknown = place.ctxpipe('show', 'never-was', code=1)
        check("no tool result 'never-was' is in the collector's stream" in unknown.err and not unknown.out, f'an unknown id: {unknown}')
    logged = {line['toolCallId']: line for line in lines_of(place.state / 'events.jsonl') if line['kind'] == 'bash'}
    same(sorted(logged), sorted(name for name in NAMES if name != 'make-small'), 'digests in the log')
    for name, line in logged.items():
        units = len(output(name).encode('utf-16-le')) // 2
        same(line['originalTokens'], -(-units // 4), f'tokens of {name}')
        check(line['applied'] and line['saved'] == line['originalTokens'] - line['summaryTokens'] > 0, f'{name}: {line}')


@test
def a_result_that_took_an_id_over_is_the_one_that_is_shown_and_a_session_has_its_own(place):
    rows = {row['name']: row for row in json.loads((OUTPUTS / 'manifest.json').read_text())}
    first, second = dict(rows['tree'], name='x'), dict(rows['find'], name='x')

    def event(row, text, session):
        return json.dumps(dict(json.loads(result(rows['tree'])), toolCallId='x', text=text, session=session, input={'command': row['command']}))

    lines = [json.dumps({'kind': 'session_start', 'session': name, 'product': 'pi'}) for name in ('s1', 's2')]
    lines += [event(first, output('tree'), 's1'), event(second, output('find'), 's1'), event(first, output('git-files'), 's2')]
    with place.pipeline():
        place.ctxpipe('send', '--agent', 'pi@test', '--ask', input='\n'.join(lines) + '\n')
        for session, name in (('s1', 'find'), ('s2', 'git-files')):
            check(place.ctxpipe('show', '--session', session, 'x').out == output(name), f'the result of {session} is not {name}')


main()
