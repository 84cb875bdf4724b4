"""Random streams through the real pipeline: every figure of the bill is the reference's, every grain closes however many rows are
shown, and what the log says of each window adds up to the report."""
import json
import random
import sys
from decimal import Decimal
from fractions import Fraction

from harness import SOURCE, check, closes, lines_of, main, money, same, test
from load import iso

sys.path.insert(0, str(SOURCE / 'tests' / 'support'))
from reference import CLASSES, VIEWS, Reference  # noqa: E402
from sizes_reference import SizesReference  # noqa: E402

PRICES = """models:
  plain: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6, date: 2026-01-01, source: a test}
  long: {input: 2.5, output: 10, cacheRead: 0.125, cacheWrite5m: 2.5, cacheWrite1h: 5, date: 2026-01-01, source: a test,
    above: {inputTokens: 60000, input: 5, output: 15, cacheRead: 0.25, cacheWrite5m: 5, cacheWrite1h: 10}}
"""
RATES = {'plain': {'input': '3', 'output': '15', 'cacheRead': '0.3', 'cacheWrite5m': '3.75', 'cacheWrite1h': '6'},
         'long': {'input': '2.5', 'output': '10', 'cacheRead': '0.125', 'cacheWrite5m': '2.5', 'cacheWrite1h': '5',
                  'above': (60000, {'input': '5', 'output': '15', 'cacheRead': '0.25', 'cacheWrite5m': '5', 'cacheWrite1h': '10'})}}
BANDS = ['user_prompt', 'assistant', 'tool_output', 'memory', 'history', *VIEWS]
IDS = [f'm{n}' for n in range(24)]


class Stream:
    """Events of three agents with two windows each, drawn from a seed."""

    def __init__(self, seed):
        self.draw, self.clock, self.calls = random.Random(seed), 1780000000000, 0
        self.windows = [{'agent': f'a{seed}-{a}', 'session': f's{seed}', 'thread': thread} for a in range(3) for thread in ('', 'sub')]
        self.lists = [[] for _ in self.windows]

    def usage(self):
        draw = self.draw
        return {key: draw.choice((0, draw.randrange(60), draw.randrange(40000))) for key in (*CLASSES, 'output')}

    def definition(self):
        draw, band = self.draw, self.draw.choice(BANDS)
        role = 'assistant' if band == 'assistant' else draw.choice(('user', 'tool'))
        event = {'kind': 'context_message', 'id': draw.choice(IDS), 'role': role, 'band': band, 'tokens': draw.choice((0, 1, draw.randrange(900)))}
        if role == 'assistant':
            event['calls'] = [{'id': f'c{n}', 'name': draw.choice(('read', 'grep')), 'path': f'/x/{n % 3}', 'tokens': 1} for n in draw.sample(range(8), 2)]
        elif draw.random() < 0.6:
            event['toolCallId'] = f'c{draw.randrange(8)}'
        if band == 'docs_view' or (role != 'assistant' and draw.random() < 0.5):  # documentation is a view under its name only
            event['label'] = f'/x/{draw.randrange(3)}'
        if role == 'tool' and draw.random() < 0.4:
            event['tool'] = draw.choice(('read', 'bash'))
        return event

    def prompt(self, number):
        draw, now = self.draw, self.lists[number]
        again = self.calls and draw.random() < 0.15
        keep = len(now) if draw.random() < 0.7 else draw.randrange(len(now) + 1)
        more = [{'id': draw.choice(IDS)} | ({'band': draw.choice(BANDS[:-1])} if draw.random() < 0.3 else {}) for _ in range(draw.randrange(4))]
        event = {'kind': 'prompt', 'callId': f'{self.windows[0]["session"]}-{draw.randrange(self.calls) if again else self.calls}', 'model': draw.choice(('plain', 'long', 'none'))}
        self.calls += not again
        event |= {'request': now[:keep] + more} if draw.random() < 0.2 else {'keep': keep, 'append': more}
        self.lists[number] = now[:keep] + more
        if draw.random() < 0.9:
            event['usage'] = self.usage()
            if draw.random() < 0.2:
                cost = {key: Decimal(draw.randrange(1, 10 ** 8)) / 10 ** 9 for key in ('input', 'cacheRead', 'cacheWrite', 'output')}
                event['cost'] = cost | {'total': sum(cost.values())}
        return event

    def events(self, count):
        for window in self.windows:
            yield {'kind': 'session_start', 'product': 'pi', **window}
        for _ in range(count):
            number = self.draw.randrange(len(self.windows))
            yield (self.definition() if self.draw.random() < 0.4 else self.prompt(number)) | self.windows[number]
        for window in self.windows:
            if not window['thread']:
                yield {'kind': 'session_end', **window}

    def line(self, event):
        self.clock += 250
        return json.dumps(event | {'ts': iso(self.clock)}, default=float)


def near(row, key, exact, slack, what):
    """A row of one window is rounded up or down once; and money is rounded to a nano-dollar for each request before it is split."""
    got = Fraction(money(row[key])) * (10 ** 9 if key.startswith('cost') else 1)
    check(abs(got - exact) < slack + Fraction(1, 1000), f'{what}: {key} is {got}, the reference has {float(exact)}')


def same_rows(rows, expected, key_of, what):
    ours = {key_of(row): row for row in rows}
    same(len(ours), len(rows), f'different keys of the {what}')
    wanted = {key for key, row in expected.items() if row.turns or row.billed or row.cost}
    same(set(ours), wanted, f'the {what}')
    for key, row in ours.items():
        exact = expected[key]
        near(row, 'billed', exact.billed, len(exact.windows), f'{what} {key}')
        near(row, 'cost', exact.cost, len(exact.windows), f'{what} {key}')
        near(row, 'costTiered', exact.tiered, len(exact.windows) + max(exact.turns, 1), f'{what} {key}')
        same(row['cost'] is None, bool(row['billed']) and not exact.priced, f'{what} {key}: without a price')
        for figure in ('own', 'messages', 'turns'):
            same(row[figure], getattr(exact, figure), f'{what} {key}: {figure}')


FIGURES = ('billed', 'cost', 'costTiered', 'own', 'messages')


def adds_up(whole, cut, top):
    """Truncated tables hold the first rows as they were, and the rest in one."""
    for grain in ('views', 'tools', 'messages'):
        apart = [row for row in whole[grain] if row.get('kind') == 'unattributed' or (grain == 'messages' and not row['agent'])]
        shown = [row for row in whole[grain] if row not in apart]
        expected = len(apart) + min(top, len(shown)) + (len(shown) > top)
        same(len(cut[grain]), expected, f'{grain} with --top {top}')
        for row in (*shown[:top], *apart):
            check(row in cut[grain], f'{grain} with --top {top} lacks {row}')
        for figure in FIGURES:
            same(sum(money(row[figure]) for row in cut[grain]), sum(money(row[figure]) for row in whole[grain]), f'{figure} of the {grain} with --top {top}')


def adds_up_to_log(whole, log):
    finals = {(line['agent'], line['session'], line['thread']): line for line in log if line['kind'] == 'spend' and line.get('final')}
    for grain, key_of in (('bands', lambda row: row.get('band', row['label'])), ('tools', lambda row: row['label'])):
        for row in whole[grain]:
            name = row.get('band') if grain == 'bands' else row['tool']
            for figure in FIGURES:
                told = sum(money(part[figure]) for line in finals.values() for part in line[grain] if key_of(part) == name)
                same(told, money(row[figure]), f'{figure} of {name} in the last bills of the log')
    same(sum(line['billed'] for line in finals.values()), whole['totals']['billed'], 'billed tokens in the last bills of the log')
    same(sum(line['cost'] for line in finals.values()), whole['totals']['costInput'], 'input cost in the last bills of the log')


class Conversation:
    """What agents really do to a window, drawn from a seed: a provider with a tokenizer of its own, thinking that stays or goes, reminders
    that no transcript shows, reports that are too small once, outputs that are placeholders, compaction, rewinds, other models."""
    MODELS = ('claude-sonnet-4-5', 'claude-opus-4-5', 'claude-opus-4-7', 'gpt-5.1', 'mystery')

    def __init__(self, seed, number):
        self.draw = random.Random(f'{seed} {number}')
        self.window = {'agent': f'c{seed}-{number // 2}', 'session': f's{seed}', 'thread': 'sub' if number % 2 else ''}
        self.name, self.model, self.number, self.calls, self.list, self.away = f'{seed}-{number}', self.draw.choice(self.MODELS), 0, 0, [], []
        self.rate, self.hidden, self.more = self.draw.uniform(0.6, 1.5), self.draw.randrange(25000), 0
        self.true, self.thought, self.reply = {}, {}, None

    def message(self, role, band, pieces, **more):
        self.number += 1
        name = f'm{self.number}'
        self.true[name] = int(pieces * self.rate * self.draw.uniform(0.8, 1.2) / 10)
        self.list.append(name)
        return {'kind': 'context_message', 'id': name, 'role': role, 'band': band, 'tokens': pieces // 11, 'pieces': pieces, **more, **self.window}

    def comes_in(self):
        """The messages before the next request, and who of them is a person."""
        draw, persons, events = self.draw, [], []
        if draw.random() < 0.06 and len(self.list) > 3:  # rewound, or compacted
            keep = draw.randrange(len(self.list)) if draw.random() < 0.6 else 0
            self.away, self.list = self.list[keep:], self.list[:keep]
            if not keep or draw.random() < 0.3:
                events.append(self.message('user', 'history', draw.randrange(500, 5000)))
            if draw.random() < 0.4:
                self.list.append(self.away.pop())
        for _ in range(draw.choice((0, 1, 1, 1, 2, 5))):
            image = [{'width': 100, 'height': 100}] if draw.random() < 0.05 else []
            events.append(self.message('tool', draw.choice(('tool_output', 'file_view')), draw.randrange(0, draw.choice((300, 30000))) + 15000 * len(image), **({'images': image} if image else {}),
                                       **({'label': f'/x/{draw.randrange(4)}'} if draw.random() < 0.5 else {})))
        if draw.random() < 0.3 or not self.list:
            events.append(self.message('user', 'user_prompt', draw.randrange(140, 2000)))
            persons.append(self.list[-1])
            if draw.random() < 0.5:
                self.thought = {}  # the provider drops the thinking of the turn before
        return events, persons

    def turn(self):
        draw, keep = self.draw, list(self.list)
        events, persons = self.comes_in()
        if draw.random() < 0.1:
            self.more += draw.randrange(3000)
        if draw.random() < 0.04:
            self.model = draw.choice(self.MODELS)
        same = next((i for i, (old, new) in enumerate(zip(keep, self.list)) if old != new), min(len(keep), len(self.list)))
        if self.reply is not None:  # it stands before what came in
            same = min(same, self.told)
        size = self.hidden + self.more + sum(self.true[name] + self.thought.get(name, 0) for name in self.list)
        if draw.random() < 0.03:
            size //= draw.choice((3, 10))
        read = draw.randrange(size + 1)
        self.calls += 1
        prompt = {'kind': 'prompt', 'callId': f'{self.name}-{self.calls}', 'model': self.model, 'keep': min(same, getattr(self, 'told', 0)), **self.window}
        prompt['append'] = [{'id': name} for name in self.list[prompt['keep']:]]
        prompt |= {'personPrompt': persons} if persons else {}
        pieces, thinks, self.told = draw.randrange(300, draw.choice((600, 9000))), draw.random() < 0.5, len(self.list)
        reply = self.message('assistant', 'assistant', pieces)
        name, thought = reply['id'], draw.randrange(900) if thinks else 0
        if thinks:
            reply['thinking'] = {'signatureUnits': thought * 4} if draw.random() < 0.7 else {}
            self.thought[name] = thought
        self.reply = name
        if draw.random() < 0.94:
            output = self.true[name] + thought if draw.random() < 0.9 else 1
            prompt['usage'] = {'input': size - read - read // 7, 'cacheRead': read, 'cacheWrite5m': read // 7, 'cacheWrite1h': 0, 'output': output}
            if draw.random() < 0.2 and output > thought:
                prompt['usage'] |= {'reasoning': thought} | ({'reasoningApart': True, 'output': output - thought} if draw.random() < 0.5 else {})
            if read // 7 > size - read:
                prompt['usage'] |= {'input': size - read, 'cacheWrite5m': 0}
        return [*events, prompt | {'reply': [name]}, reply]


def ran(place, seeds, options, reference=None):
    """Random streams through a pipeline whose fold has these options: the bill by message, truncated too, and the log."""
    file = place.topology(**{'subscribe: [collector, bash, amnesia, write, lazy]': f'subscribe: [collector, bash, amnesia, write, lazy]\n    options: {options}'})
    place.write('prices.yaml', PRICES)
    lines = []
    for stream in map(Stream, seeds):
        for event in stream.events(250):
            if reference:
                reference.take(event)
            lines.append(stream.line(event))
    return bill_of(place, file, lines)


def bill_of(place, file, lines):
    with place.pipeline(file):
        said = place.ctxpipe('send', '-f', file, '--agent', 'any', input='\n'.join(lines) + '\n').err
        check(', 0 refused' in said, f'events were refused: {said}')
        whole = place.ctxpipe('spend', '--json', '--by', 'message').json()
        cuts = {top: place.ctxpipe('spend', '--json', '--by', 'message', '--top', top).json() for top in (1, 3, 50)}
        status = place.status()
    same([row['node'] for row in status['nodes'] if row['refused']], [], 'nodes that refused something')
    closes(whole, 'spend')
    for top, cut in cuts.items():
        adds_up(whole, cut, top)
    adds_up_to_log(whole, [json.loads(line, parse_float=Decimal) for line in (place.state / 'events.jsonl').read_text().splitlines()])
    return whole


def same_totals(whole, totals):
    for key, value in totals.items():
        same(Fraction(whole['totals'][key]) * (10 ** 9 if key.startswith('cost') else 1), value, f'totals: {key}')


@test
def every_figure_of_random_streams_is_the_references_and_every_grain_closes(place):
    reference = Reference({model: rates for model, rates in RATES.items()})
    whole = ran(place, range(4), '{top: 10000, sizes: estimate}', reference)
    totals, rows = reference.report()
    same_totals(whole, totals)
    same_rows(whole['bands'], rows['bands'], lambda row: row['band'] or 'unattributed', 'bands')
    same_rows(whole['views'], rows['views'], lambda row: (row['kind'], row['label'], row['band']), 'views')
    same_rows([row for row in whole['tools'] if row['turns']], rows['tools'], lambda row: row['tool'], 'tools')
    same_rows(whole['messages'], rows['messages'], lambda row: (row['agent'], row['session'], row['thread'], row['label']) if row['agent'] else row['label'], 'messages')


@test
def sizes_by_the_ledger_close_over_random_streams_too(place):
    reference = Reference({model: rates for model, rates in RATES.items()})
    whole = ran(place, range(4, 8), '{top: 10000}', reference)
    same_totals(whole, reference.report()[0])
    check(any(row['billed'] for row in whole['parts']), 'nothing stands for what is no message')


SIZES_PRICES = 'models:\n' + ''.join(f'  {name}: {{input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6, date: 2026-01-01, source: a test}}\n'
                                     for name in Conversation.MODELS if name != 'mystery')


@test
def sizes_of_random_windows_are_those_of_an_independent_reference(place):
    reference, clock, lines = SizesReference({name: RATES['plain'] for name in Conversation.MODELS if name != 'mystery'}), Stream(0), []
    windows = [Conversation(seed, number) for seed in range(3) for number in range(4)]
    for window in windows:
        lines.append(clock.line({'kind': 'session_start', 'product': 'pi', **window.window}))
    for _ in range(60):
        for window in windows:
            for event in window.turn():
                reference.take(event)
                lines.append(clock.line(event))
    lines += [clock.line({'kind': 'session_end', **window.window}) for window in windows if not window.window['thread']]
    file = place.topology(**{'subscribe: [collector, bash, amnesia, write, lazy]': 'subscribe: [collector, bash, amnesia, write, lazy]\n    options: {top: 10000}'})
    place.write('prices.yaml', SIZES_PRICES)
    whole = bill_of(place, file, lines)
    seen = 0
    for row in whole['sessions']:
        where = (row['agent'], row['session'], row['thread'])
        window, told = reference.windows[where], row['calibration']
        same(row['unexplainedTokens'], window.unexplained, f'{where}: unexplained tokens')
        same((told['notRecorded'], told['cameIn'], told['predictionError'], told['growth']), (window.first_U, window.came_in, window.wrong, window.growth), f'{where}: what the sizes are worth')
        same({model['model']: model['tokensPer1024Pieces'] for model in told['models']}, {name: model.factor for name, model in window.models.items()}, f'{where}: the factors of the models')
        for message in window.messages:
            exact = reference.rows[where].get(('message', message))
            mine = next((line for line in whole['messages'] if (line['agent'], line['session'], line['thread'], line['label']) == (*where, message)), None)
            check((mine['billed'] if mine else 0) == 0 if exact is None else mine or not exact.billed, f'{where} {message}: {mine}')
            if mine and exact:
                seen += 1
                near(mine, 'billed', exact.billed, 1, f'{where} {message}')
                near(mine, 'cost', exact.cost, 1, f'{where} {message}')
                near(mine, 'costTiered', exact.tiered, 1 + exact.requests, f'{where} {message}')
    for part in whole['parts']:
        exact = [rows[part['part']] for rows in reference.rows.values() if part['part'] in rows]
        near(part, 'billed', sum(row.billed for row in exact), len(exact), part['part'])
        near(part, 'cost', sum(row.cost for row in exact), len(exact), part['part'])
    check(seen > 1500, f'only {seen} messages were compared')
    check(any(window.unexplained for window in reference.windows.values()), 'nothing was left unexplained in any window')


main()
