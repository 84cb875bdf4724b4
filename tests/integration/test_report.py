"""`ctxpipe report` on recorded sessions: right to the token, closed at every grain, nothing left behind."""
import csv
import io
import json
from decimal import Decimal

from harness import SOURCE, check, closes, main, money, same, shared, test

def report(place, *arguments, **more):
    return place.ctxpipe('report', '--json', *arguments, **more).json()


def report_with_faults(place, *arguments):
    """For files that may hold bad lines, which the exit code tells; never a signal. None: nothing of them is a transcript."""
    done = place.ctxpipe('report', '--json', *arguments, code=None)
    check(done.code in (0, 1), f'{done}')
    check(done.code == 0 or done.err.strip(), f'an error exit without a sentence: {done}')
    return None if done.code and not done.out else done.json()


def leaves_nothing(place, before):
    same(place.processes(), [], 'processes after report')
    after = sorted(str(path) for path in place.root.rglob('*'))
    same(after, before, 'files after report')


def import_cases():
    return sorted(path for path in shared('import').iterdir() if (path / 'truth.json').exists())


@test
def every_import_case_is_right_to_the_token(place):
    wrong, count = [], 0
    before = sorted(str(path) for path in place.root.rglob('*'))
    for case in import_cases():
        truth = json.loads((case / 'truth.json').read_text(), parse_float=Decimal)
        count += 1
        out = report_with_faults(place, '--prices', shared('prices.json'), *[case / name for name in truth['files']])
        expect, totals = truth['expect'], out['totals']
        got = {'input': totals['input'], 'cacheRead': totals['cacheRead'], 'cacheWrite5m': totals['cacheWrite5m'], 'cacheWrite1h': totals['cacheWrite1h'],
               'output': totals['output'], 'turns': totals['requests'], 'costUsd': money(totals['cost']), 'unpricedTokens': totals['unpricedTokens']}
        wrong += [f'{case.name}: {key} is {got[key]}, expected {expect[key]}' for key in got if key in expect and Decimal(expect[key]) != got[key]]
        closes(out, case.name)
    check(count > 0, 'no case was run')
    check(not wrong, '\n'.join(wrong))
    leaves_nothing(place, before)


@test
def the_same_transcript_twice_in_a_tree_bills_once(place):
    sample = next((SOURCE / 'samples' / 'claude-code').rglob('*.jsonl'))
    for folder in ('p1', 'p2'):
        place.mkdir(folder)
        place.write(f'{folder}/{sample.name}', sample.read_bytes())
    twice = report(place, place.root / 'p1', place.root / 'p2')
    once = report(place, place.root / 'p1')
    check(once['totals']['billed'] > 0, 'the sample bills nothing')
    same(twice['totals'], once['totals'], 'totals of the same transcript twice')
    same(twice['potential'], once['potential'], 'potential savings of the same transcript twice')


def claude_lines():
    """A session by hand: three prompts of a person, each with its answer."""
    for n in range(3):
        head = {'sessionId': 's1', 'timestamp': f'2026-01-02T00:00:0{n}.000Z', 'cwd': '/x'}
        yield head | {'parentUuid': f'a{n - 1}' if n else None, 'type': 'user', 'uuid': f'u{n}', 'message': {'role': 'user', 'content': f'question {n}'}}
        yield head | {'parentUuid': f'u{n}', 'type': 'assistant', 'uuid': f'a{n}', 'requestId': f'r{n}',
                      'message': {'id': f'm{n}', 'model': 'm', 'content': [{'type': 'text', 'text': 'yes'}], 'usage': {'input_tokens': 10 ** n, 'output_tokens': 1}}}


def as_lines(records):
    return ''.join(json.dumps(record) + '\n' for record in records)


@test
def a_session_that_grew_was_rewritten_shrank_or_went_on_elsewhere_bills_each_call_once(place):
    lines = list(claude_lines())
    other = [*lines[:5], lines[5] | {'uuid': 'b2', 'message': lines[5]['message'] | {'id': 'n2', 'usage': {'input_tokens': 500, 'output_tokens': 1}}}]

    def imported(records, name='here/s1.jsonl'):
        done = place.ctxpipe('import', place.write(name, as_lines(records)))
        return done.err, int(place.ctxpipe('spend', '--json').json()['totals']['input'])

    with place.pipeline():
        same(imported(lines[:4]), ('', 11), 'the beginning')
        same(imported(lines), ('', 111), 'grown')
        said, billed = imported(other, 'there/s1.jsonl')
        check('there/s1.jsonl: differs from what was read of this session before' in said, f'a diverged copy is not named: {said}')
        same(billed, 611, 'with a diverged copy')
        said, billed = imported(lines[:2])
        check('here/s1.jsonl: is shorter than what was read of this session before' in said, f'a shrunk file is not named: {said}')
        same(billed, 611, 'with a shrunk copy')
        for records, name in ((lines, 'here/s1.jsonl'), (other, 'there/s1.jsonl'), (lines[:2], 'old/s1.jsonl')):
            same(imported(records, name), ('', 611), f'{name} again')


def session_of(path):
    """The identity that a sample's lines say."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return next(record.get('sessionId') or record['id'] for record in records if 'sessionId' in record or record['type'] == 'session')


@test
def a_resumed_copy_under_another_name_changes_no_figure(place):
    samples = [path for path in sorted((SOURCE / 'samples').rglob('*.jsonl')) if 'subagents' not in path.parts]
    with place.pipeline():
        place.ctxpipe('import', SOURCE / 'samples')
        bill, savings = place.ctxpipe('spend', '--json', '--by', 'message').json(), place.ctxpipe('stats', '--json').json()['all']
        check(all(row['saved'] > 0 for row in bill['potential'].values()), f'the samples have no potential savings to repeat: {bill["potential"]}')
        check(savings['turns'] > 0, 'the samples have no turns')
        for number, path in enumerate(samples):
            name = f'00000000-0000-4000-8000-{number:012}'
            place.ctxpipe('import', place.write(f'copies/{name}.jsonl', path.read_text().replace(session_of(path), name)))
        again, savings_again = place.ctxpipe('spend', '--json', '--by', 'message').json(), place.ctxpipe('stats', '--json').json()['all']
        for key in bill:
            same(again[key], bill[key], key)
        same(savings_again.pop('sessions'), savings.pop('sessions') + len(samples), 'sessions that were told of')
        same(savings_again, savings, 'savings and turns')


@test
def every_transcript_with_a_truth_is_right_to_the_token(place):
    wrong, count = [], 0
    names = {'input': 'input', 'cache_read': 'cacheRead', 'output': 'output', 'calls': 'requests'}
    for product in ('claude', 'pi', 'codex', 'gemini', 'opencode', 'made-up/claude', 'made-up/pi', 'made-up/codex'):
        for truth_file in sorted(shared('transcripts', product).glob('*.truth.json')):
            said = json.loads(truth_file.read_text())
            truth, side = said['totals'], said.get('cost', {})
            if side.get('side_input'):  # compactions and summaries: in the session's totals, in no window, and not among the truth's calls
                truth = {key: truth[key] + side[f'side_{key}'] for key in ('input', 'cache_read', 'cache_write', 'output')}
            transcript = next(path for path in sorted(truth_file.parent.glob(truth_file.name.split('.')[0] + '*')) if path.suffix == '.jsonl' or (path.suffix == '.json' and path.stem.isalnum()))
            out, count = report_with_faults(place, transcript), count + 1
            if out is None:
                wrong += [f'{product}/{transcript.name}: {key} is nothing, expected {truth[key]}' for key in truth if truth[key]]
                continue
            totals = out['totals']
            got = {key: totals[ours] for key, ours in names.items()} | {'cache_write': totals['cacheWrite5m'] + totals['cacheWrite1h']}
            wrong += [f'{product}/{transcript.name}: {key} is {got[key]}, expected {truth[key]}' for key in got if key in truth and truth[key] != got[key]]
            closes(out, f'{product}/{transcript.name}')
    check(count > 0, 'no transcript was run')
    check(not wrong, '\n'.join(wrong))


@test
def the_worked_examples_of_the_fold_are_right_through_their_telemetry(place):
    wrong, count = [], 0
    for expected_file in sorted(shared('fold').glob('*.expected.json')):
        name = expected_file.name.split('.')[0]
        agents = json.loads(expected_file.read_text())['agents']
        out, count = report(place, '--by', 'message', '--sizes', 'estimate', shared('fold') / f'{name}.jsonl'), count + 1
        for agent, expect in agents.items():
            expect = expect or {'turns': 0, 'billed': 0}  # nothing was recorded
            thread = '' if agent == 'root' else agent
            rows = [row for row in out['sessions'] if row['thread'] == thread]
            got = {'turns': sum(row['requests'] for row in rows), 'billed': sum(row['billed'] for row in rows)}
            wrong += [f'{name} {agent}: {key} is {got[key]}, expected {expect[key]}' for key in got if key in expect and got[key] != expect[key]]
        if list(agents) == ['root']:
            for row in agents['root']['bands']:
                got = next((mine for mine in out['bands'] if mine['band'] == row['key']), {'billed': 0, 'own': 0, 'messages': 0})
                wrong += [f'{name} {row["key"]}: {key} is {got[key]}, expected {row[key]}' for key in ('billed', 'own', 'messages') if abs(got[key] - row[key]) > 1]
        closes(out, name)
    check(count > 0, 'no example was run')
    check(not wrong, '\n'.join(wrong))


@test
def a_format_is_found_by_content_and_can_be_forced(place):
    corpus = SOURCE / 'tests' / 'fuzz' / 'corpus' / 'transcript'
    for name, product, billed in (('codex', 'codex', 360), ('gemini', 'gemini-cli', 110), ('gemini-lines', 'gemini-cli', 110), ('gg', 'gg', 107),
                                  ('opencode', 'opencode', 64), ('pi-stream', 'pi', 20)):
        copy = place.write(f'{name}.records', (corpus / name).read_bytes())
        for more in ((), ('--format', product)):
            out = report(place, copy, *more)
            same((out['sessions'][0]['product'], out['totals']['billed']), (product, billed), name)
    said = place.ctxpipe('report', '--format', 'opencode', place.root / 'codex.records', code=1).err
    check('codex.records: is no JSON text of the format opencode' in said, said)


@test
def a_whole_tree_is_right_to_the_token(place):
    tree = shared('transcripts', 'claude-tree')
    truth = json.loads(next(tree.glob('*truth*.json')).read_text())['totals']
    out = report_with_faults(place, tree)
    totals = out['totals']
    got = {'input': totals['input'], 'cache_read': totals['cacheRead'], 'cache_write': totals['cacheWrite5m'] + totals['cacheWrite1h'], 'output': totals['output'], 'calls': totals['requests']}
    same({key: got[key] for key in got if key in truth}, {key: truth[key] for key in got if key in truth}, 'totals of the tree')
    closes(out, 'claude-tree')


@test
def a_report_is_the_same_every_time(place):
    samples = SOURCE / 'samples'
    first, second = (place.ctxpipe('report', '--json', samples).out for _ in range(2))
    same(first, second, 'two reports on the same files')
    closes(json.loads(first, parse_float=Decimal), 'samples')


@test
def who_bills_a_call_that_two_sessions_have_does_not_depend_on_what_arrives_first(place):
    for n in range(12):
        place.write(f't/s{n}.jsonl', as_lines(record | {'sessionId': f's{n}'} for record in claude_lines()))
    texts = {place.ctxpipe('report', '--json', place.root / 't').out for _ in range(4)}
    same(len(texts), 1, 'different reports on the same files')
    out = json.loads(texts.pop())
    same({row['session']: row['input'] for row in out['sessions'] if row['input']}, {'s0': 111}, 'sessions that bill something')


@test
def the_table_and_the_json_print_the_same_totals(place):
    out = report(place, SOURCE / 'samples')
    text = place.ctxpipe('report', SOURCE / 'samples').out
    for key in ('billed', 'output'):
        digits = str(out['totals'][key])
        check(digits in text.replace(',', '').replace(' ', '').replace('\u2009', ''), f'{key} {digits} is not in the table:\n{text}')
    for row in out['bands'][:3]:
        check(str(row['billed']) in text.replace(',', ''), f'the billed tokens of {row["band"]} are not in the table:\n{text}')


@test
def a_grain_a_session_and_a_top_can_be_asked_for(place):
    out = report(place, '--by', 'message', SOURCE / 'samples')
    same(sum(row['billed'] for row in out['messages']), out['totals']['billed'], 'billed tokens of the messages')
    name = out['sessions'][0]['session']
    one = report(place, '--session', name, SOURCE / 'samples')
    same(one['totals']['billed'], sum(row['billed'] for row in out['sessions'] if row['session'] == name), 'billed tokens of one session, its sub-agents included')
    closes(one, 'one session')
    check(len(report(place, '--top', '1', SOURCE / 'samples')['views']) <= len(out['views']), '--top gives no more rows')


@test
def a_grain_limits_the_text_and_not_the_json(place):
    whole, by = report(place, SOURCE / 'samples'), report(place, '--by', 'view', SOURCE / 'samples')
    same(by, whole, 'the JSON of a grain')
    text = place.ctxpipe('report', '--by', 'view', SOURCE / 'samples').out
    same([line for line in text.splitlines() if line.startswith(('The bill', 'Reported', 'Potential', 'Passed', 'Cache'))], ['The bill by view'], 'headings of one grain')


@test
def the_rows_of_a_text_stand_as_in_the_json(place):
    out = report(place, SOURCE / 'samples')
    for grain, rows, key in (('tool', 'tools', 'tool'), ('view', 'views', 'label')):
        text = place.ctxpipe('report', '--by', grain, '--top', '4', SOURCE / 'samples').out
        same([line.split()[0] for line in text.splitlines()[2:6]], [row[key] for row in out[rows][:4]], f'order of the {rows}')
        costs = [row['cost'] for row in out[rows]]
        same(costs, sorted(costs, reverse=True), f'costs of the {rows}, all priced')


@test
def a_message_has_its_tool_and_its_path(place):
    out = report(place, '--by', 'message', SOURCE / 'samples')
    views = {row['label'] for row in out['views']}
    reads = [row for row in out['messages'] if row['band'] == 'file_view']
    check(reads, 'the samples show no file')
    for row in reads:
        check(row['tool'] and row['path'] in views, f'a message of a file without tool or path: {row}')
    place.env['COLUMNS'] = '300'
    text = place.ctxpipe('report', '--by', 'message', '--top', '100', SOURCE / 'samples').out
    check(f'{reads[0]["tool"]} {reads[0]["path"]}' in text, f'tool and path are not in the table:\n{text}')


def narrowed(place, *flags):
    return report(place, *flags, SOURCE / 'samples')


@test
def bills_that_share_the_requests_add_up_to_the_whole(place):
    whole = narrowed(place)
    models = [row['model'] for row in narrowed(place, '--by', 'model')['models']]
    agents = [row['agent'] for row in narrowed(place, '--by', 'agent')['agents']]
    check(len(models) > 1 and len(agents) > 1, f'the samples have one model or agent: {models} {agents}')
    for flag, names in (('--model', models), ('--agent', agents)):
        parts = [narrowed(place, flag, name, '--by', 'message') for name in names]
        for part in parts:
            closes(part, f'{flag}')
            check(part['filter'][flag[2:]] in names, f'the filter is not told: {part["filter"]}')
        for key in ('requests', 'input', 'cacheRead', 'cacheWrite5m', 'output', 'billed', 'cost', 'costInput'):
            same(sum(money(part['totals'][key]) for part in parts), money(whole['totals'][key]), f'{key} over {flag}')
    for by, rows in (('day', 'days'), ('project', 'projects'), ('model', 'models'), ('agent', 'agents'), ('session', 'sessions')):
        out = narrowed(place, '--by', by)
        for key in ('requests', 'billed', 'output', 'cost', 'costInput'):
            same(sum(money(row[key]) for row in out[rows]), money(out['totals'][key]), f'{key} by {by}')
        lines = list(csv.DictReader(io.StringIO(place.ctxpipe('report', '--csv', '--by', by, SOURCE / 'samples').out, newline='')))
        same(sum(int(line['billed']) for line in lines), out['totals']['billed'], f'billed by {by} as CSV')


@test
def since_takes_a_time_a_day_and_how_long_ago(place):
    place.env['TZ'] = 'America/New_York'
    whole = narrowed(place)
    moments = sorted(session['first'] for session in whole['sessions'])
    same(narrowed(place, '--since', moments[0])['totals'], whole['totals'], 'since the first request')
    later = narrowed(place, '--since', moments[-1])
    check(0 < later['totals']['requests'] < whole['totals']['requests'], f'since the last session: {later["totals"]}')
    same(later['filter']['since'], moments[-1], 'the time that was asked for')
    day = moments[-1][:10]
    same(narrowed(place, '--since', day)['filter']['since'][:13], f'{day}T05' if day >= '2026-11' else f'{day}T04', 'midnight in New York')
    check(narrowed(place, '--since', '900w')['totals'] == whole['totals'], 'how long ago')
    for text in ('5x', '2026-02-30', 'yesterday'):
        done = place.ctxpipe('report', '--since', text, SOURCE / 'samples', code=2)
        check(f"'--since {text}' is no time" in done.err, f'{done}')
    for flag in ('--since', '--session', '--agent', '--model'):  # as of a variable that is not set: not the whole bill
        done = place.ctxpipe('report', flag, '', SOURCE / 'samples', code=2)
        check(f"the value of '{flag}' is empty" in done.err and not done.out, f'{done}')
    done = place.ctxpipe('report', '--since', '2038-01-01', SOURCE / 'samples', code=1)
    check('the last of all was at' in done.err and not done.out, f'{done}')
    done = place.ctxpipe('report', '--model', 'nobody', SOURCE / 'samples', code=1)
    check("no request of model 'nobody' is known; there is" in done.err, f'{done}')
    days = place.ctxpipe('report', '--by', 'day', SOURCE / 'samples').out
    check('local time: E' in days.splitlines()[0], f'the zone is not said: {days}')


@test
def a_row_is_the_sum_of_the_requests_that_explain_it(place):
    whole = narrowed(place, '--by', 'message')
    rows = [('view', row['label'], row) for row in whole['views'] if row['kind'] != 'unattributed'][:3]
    rows += [('tool', row['tool'], row) for row in whole['tools']][:2] + [('message', row['label'], row) for row in whole['messages'] if row['session']][:2]
    parts = {part['part']: part for part in whole['parts']}
    for row in whole['messages']:
        if row['label'] in parts and not row['session']:  # a part is a row of the messages too, with the same figures
            rows.append(('message', row['label'], row))
            same([parts[row['label']][key] for key in ('billed', 'own', 'error')], [row[key] for key in ('billed', 'own', 'error')], row['label'])
    check(len(rows) > 7, 'no part stands among the messages')
    for kind, name, row in rows:
        told = narrowed(place, '--explain', f'{kind}:{name}')
        requests = [request for window in told['windows'] for request in window['requests']]
        check(requests, f'{kind} {name} has no request')
        for key in ('billed', 'cost', 'costTiered'):
            same(sum(money(request[key]) for request in requests), money(row[key]), f'{key} of {kind} {name}')
            same(money(told['row'][key]), money(row[key]), f'{key} of the row of {kind} {name}')
        for q in requests:
            exact = (q['input'] + q['cacheRead'] + q['cacheWrite5m'] + q['cacheWrite1h']) * q['size'] / q['window']
            check(abs(q['billed'] - exact) <= 1, f'{kind} {name}: {q}')
    text = place.ctxpipe('report', '--explain', rows[0][1], SOURCE / 'samples').out
    check(f'billed {rows[0][2]["billed"]:,} tokens' in text and f'{rows[0][2]["billed"]:,}' in text.splitlines()[-1], text)


@test
def flags_that_say_nothing_together_are_refused(place):
    for flags, sentence in ((('--by', 'day', '--sort', 'own'), "'--sort own' does not go with '--by day'"), (('--by', 'day', '--json', '--top', '3'), "'--top' does not go with '--by' and '--json'"),
                            (('--explain', 'x', '--by', 'view'), "'--by' does not go with '--explain'"), (('--explain', 'x', '--balance'), "'--balance' does not go with '--explain'"),
                            (('--balance', '--top', '3'), "'--top' does not go with '--balance'"), (('--balance', '--csv'), "'--csv' does not go with '--balance'")):
        done = place.ctxpipe('report', *flags, SOURCE / 'samples', code=2)
        check(sentence in done.err and not done.out, f'{flags}: {done}')


@test
def what_people_read_is_at_most_80_columns_wide(place):
    for flags in ((), ('--by', 'message'), ('--by', 'session'), ('--by', 'model'), ('--by', 'day'), ('--balance',), ('--explain', 'Read'), ('--by', 'tool', '--sort', 'own')):
        out = place.ctxpipe('report', *flags, SOURCE / 'samples').out
        check(out.strip(), f'{flags} print nothing')
        wide = [line for line in out.splitlines() if len(line) > 80]
        check(not wide, f'{flags}: {wide}')


@test
def bars_follow_the_order(place):
    lines = place.ctxpipe('report', '--by', 'tool', '--sort', 'own', SOURCE / 'samples').out.splitlines()[2:]
    bars = [line.count('█') for line in lines]
    check(bars[0] > 0 and bars == sorted(bars, reverse=True), f'bars by own size: {lines}')


@test
def a_sub_agent_stands_below_its_session_and_names_the_call_that_spawned_it(place):
    out = narrowed(place, '--by', 'session')
    threads = [row for row in out['sessions'] if row['thread']]
    check(threads, 'the samples have no sub-agent')
    calls = {json.loads(line).get('message', {}).get('content', [{}])[-1].get('id') for path in (SOURCE / 'samples').rglob('*.jsonl')
             for line in path.read_text().splitlines() if '"tool_use"' in line}
    for row in threads:
        check(row['spawnedBy'] in calls, f'{row["thread"]} was spawned by {row["spawnedBy"]}, which is no call of a sample')
    text = place.ctxpipe('report', '--by', 'session', SOURCE / 'samples').out.splitlines()
    at = next(n for n, line in enumerate(text) if line.startswith(f'  {threads[0]["thread"]}'))
    check(text[at - 1].startswith('  (itself)') and not text[at - 2].startswith(' '), f'the tree: {text}')
    by_agent = {row['agent']: row for row in narrowed(place, '--by', 'agent')['agents']}
    same(by_agent[threads[0]['agent']]['ofSubagents']['billed'], sum(row['billed'] for row in threads if row['agent'] == threads[0]['agent']), 'part of sub-agents')


@test
def a_price_table_may_have_any_name(place):
    table = (SOURCE / 'config/prices.yaml').read_text()  # over itself: every row has its own names again
    for name in ('a "quoted": name, [yes].yaml', "it's: $HOME ${X} \\n.yaml", 'bell\a and\ttab.yaml'):
        check(report(place, '--prices', place.write(name, table), SOURCE / 'samples')['totals']['cost'] > 0, f'nothing has a price with {name!r}')
    done = place.ctxpipe('report', '--prices', place.write('line\nbreak.yaml', table), SOURCE / 'samples', code=1)
    check('line break' in done.err and len(done.err.strip().splitlines()) == 1, f'{done}')


@test
def the_csv_adds_up_to_the_totals_and_is_ordered_as_asked(place):
    out = report(place, '--by', 'message', SOURCE / 'samples')
    for grain in ('band', 'message'):
        text = place.ctxpipe('report', '--csv', '--by', grain, SOURCE / 'samples').out
        rows = list(csv.DictReader(io.StringIO(text, newline='')))
        same(sum(int(row['billed']) for row in rows), out['totals']['billed'], f'billed tokens of the {grain}s')
        same(sum(Decimal(row['cost']) for row in rows), out['totals']['costInput'], f'cost of the {grain}s')
        same([row['band'] for row in rows], [row['band'] for row in out[grain + 's']], f'order of the {grain}s')
    for sort, key in (('own', 'own'), ('billed', 'billed'), ('turns', 'turns'), ('name', 'tool')):
        rows = list(csv.DictReader(io.StringIO(place.ctxpipe('report', '--csv', '--by', 'tool', '--sort', sort, SOURCE / 'samples').out, newline='')))
        values = [row[key] if key == 'tool' else -int(row[key]) for row in rows]
        same(values, sorted(values), f'rows by {sort}')
        text = place.ctxpipe('report', '--by', 'tool', '--sort', sort, SOURCE / 'samples').out
        same([line.split()[0] for line in text.splitlines()[2:]], [row['tool'] for row in rows], f'the table by {sort}')


@test
def a_label_with_commas_quotes_and_breaks_is_one_field_of_the_csv(place):
    label = 'a, "b"\nc.txt'
    lines = [{'kind': 'context_message', 'session': 's', 'id': 'm', 'role': 'tool', 'band': 'file_view', 'label': label, 'tokens': 10},
             {'kind': 'prompt', 'session': 's', 'turn': 1, 'callId': 'c', 'model': 'nobody-knows', 'keep': 0, 'append': [{'id': 'm'}], 'usage': {'input': 10}, 'source': 'provider'}]
    with place.pipeline():
        place.ctxpipe('send', input=''.join(json.dumps(line) + '\n' for line in lines))
        rows = list(csv.DictReader(io.StringIO(place.ctxpipe('spend', '--csv').out, newline='')))
        same([(row['label'], row['billed'], row['cost']) for row in rows], [(label, '10', '')], 'the only view, which has no price')


@test
def a_price_is_shown_and_a_table_of_ones_own_changes_the_bill(place):
    shown = place.ctxpipe('prices', '--json', 'claude-sonnet-4-5-20250929').json()['models']
    same(len(shown), 1, 'rows of one model')
    own = place.ctxpipe('prices', '--yaml', 'claude-sonnet-4-5-20250929').out
    again = place.ctxpipe('prices', '--json', '--prices', place.write('mine.yaml', own), 'claude-sonnet-4-5-20250929').json()['models']
    same((again[0]['rates'], sorted(again[0]['names'])), (shown[0]['rates'], sorted(shown[0]['names'])), 'the row, printed and read again')
    price = shown[0]['rates']['input']
    place.write('mine.yaml', own.replace(f'input: {price}', f'input: {price * 2}', 1))
    doubled = place.ctxpipe('prices', '--json', '--prices', 'mine.yaml', 'claude-sonnet-4-5-20250929').json()['models'][0]['rates']['input']
    same(doubled, price * 2, 'the price of a table of ones own')
    usual, more = (report(place, *words, SOURCE / 'samples' / 'claude-code')['totals'] for words in ((), ('--prices', 'mine.yaml')))
    check(usual['input'] > 0, 'the sample has no uncached input')
    check(more['costInput'] > usual['costInput'] and more['billed'] == usual['billed'], f'the bill does not follow the price: {usual}, {more}')
    done = place.ctxpipe('prices', 'nosuch', code=1)
    check("'nosuch' has no price" in done.err, f'{done}')
    done = place.ctxpipe('prices', '--prices', place.write('bad.yaml', 'models: {x: {input: a}}\n'), code=1)
    check(len(done.err.splitlines()) == 2 and all('bad.yaml:1:' in line for line in done.err.splitlines()), f'not both faults with their place: {done}')


@test
def plain_lines_of_progress_go_to_standard_error_alone(place):
    done = place.ctxpipe('report', '--json', SOURCE / 'samples')
    json.loads(done.out)
    check('\r' not in done.err and '\x1b' not in done.err, f'control characters where there is no terminal: {done.err!r}')


main()
