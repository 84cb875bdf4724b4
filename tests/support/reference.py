"""The bill, worked out a second time and plainly: whole lists for every request, exact fractions, nothing kept from one request
to the next but the list itself. It shares no code and no method with the fold, and reads the same events."""
from collections import defaultdict
from fractions import Fraction

CLASSES = ('cacheRead', 'cacheWrite5m', 'cacheWrite1h', 'input')  # in the order of the cached prefix
VIEWS = {'file_view': 'file', 'text_view': 'text', 'search_results': 'search', 'docs_view': 'docs'}


def half_up(value):
    return int((value * 2 + 1) // 2)


class Row:
    def __init__(self):
        self.billed = self.cost = self.tiered = Fraction(0)
        self.own = self.messages = self.turns = 0
        self.windows, self.priced = set(), False


class Reference:
    def __init__(self, prices):
        """prices: model to {class: dollars a million tokens}, `above` to (limit, the same)"""
        self.prices, self.windows, self.requests, self.calls = prices, {}, [], {}

    def take(self, event):
        window = self.windows.setdefault((event['agent'], event['session'], event['thread']), {'messages': {}, 'calls': {}, 'list': []})
        if event['kind'] == 'context_message':
            window['messages'][event['id']] = event
            for call in event.get('calls', []):
                window['calls'].setdefault(call['id'], call)
        if event['kind'] == 'prompt':
            self.prompt(window, event)

    def prompt(self, window, event):
        new = event.get('request')
        window['list'] = new if new is not None else window['list'][:event.get('keep', 0)] + event.get('append', [])
        said = {'usage': event.get('usage'), 'cost': event.get('cost'), 'model': event.get('model')}
        known = self.calls.get(event['callId'])
        if known is None:
            self.calls[event['callId']] = request = {'window': window, 'refs': list(window['list']), **said}
            self.requests.append(request)
        elif self.size(said['usage']) > self.size(known['usage']):
            known.update(said)

    @staticmethod
    def size(usage):
        return 0 if usage is None else sum(usage.get(key, 0) for key in (*CLASSES, 'output'))

    def money(self, request):
        """Nano-dollars of each class, as fractions that add up to a whole number; None: no price. And of the output."""
        usage, cost = request['usage'], request['cost']
        if cost:
            written = usage['cacheWrite5m'] + usage['cacheWrite1h']
            nano = {key: Fraction(cost[key]) * 10 ** 9 for key in ('input', 'cacheRead', 'cacheWrite', 'output')}
            hour = nano['cacheWrite'] * usage['cacheWrite1h'] / written if written else Fraction(0)
            return {'input': nano['input'], 'cacheRead': nano['cacheRead'], 'cacheWrite1h': hour, 'cacheWrite5m': nano['cacheWrite'] - hour}, int(nano['output'])
        rates = self.prices.get(request['model'])
        if rates is None:
            return (None, None) if self.size(usage) else ({key: Fraction(0) for key in CLASSES}, 0)
        if 'above' in rates and sum(usage[key] for key in CLASSES) > rates['above'][0]:
            rates = rates['above'][1]
        parts = {key: Fraction(usage[key]) * Fraction(rates[key]) * 1000 for key in CLASSES}
        exact, output = sum(parts.values()), Fraction(usage['output']) * Fraction(rates['output']) * 1000
        return parts, half_up(exact + output) - half_up(exact)

    @staticmethod
    def keys(window, ref, where):
        """The rows that a reference belongs to, by grain."""
        message = window['messages'].get(ref['id'])
        band = ref.get('band') or (message['band'] if message else 'history')
        yield 'bands', band
        yield 'messages', (*where, ref['id']) if message else 'undefined'
        if message is None:
            return
        call = window['calls'].get(message.get('toolCallId'), {})
        if band in VIEWS:
            label = message.get('label') or (None if band == 'docs_view' else call.get('path'))
            if label or band != 'docs_view':  # documentation is a view under its name only
                yield 'views', (message.get('labelKind') or VIEWS[band] if label else 'unattributed', label or 'unattributed', band)
        tool = None if message['role'] == 'assistant' else message.get('tool') or call.get('name')
        if tool:
            yield 'tools', tool

    def report(self):
        rows, totals, own = defaultdict(lambda: defaultdict(Row)), defaultdict(int), set()
        where_of = {id(window): where for where, window in self.windows.items()}
        for request in self.requests:
            window, usage = request['window'], request['usage']
            where = where_of[id(window)]
            totals['requests'] += 1
            totals['requestsUnreported'] += usage is None
            usage = {key: (usage or {}).get(key, 0) for key in (*CLASSES, 'output')}
            parts, output = self.money(request | {'usage': usage}) if request['usage'] else (None, 0)
            billed = sum(usage[key] for key in CLASSES)
            cost = half_up(sum(parts.values())) if parts else 0
            for key in (*CLASSES, 'output'):
                totals[key] += usage[key]
            totals['billed'] += billed
            totals['costInput'] += cost
            totals['cost'] += cost + (output or 0)
            if request['usage'] and parts is None:
                totals['unpricedTokens'] += billed + usage['output']
            self.split(request, where, billed, cost, parts, usage, rows, own)
        return totals, rows

    def split(self, request, where, billed, cost, parts, usage, rows, own):
        window, refs = request['window'], request['refs']
        sizes = [window['messages'].get(ref['id'], {'tokens': 0})['tokens'] for ref in refs]
        whole, before, touched = sum(sizes), 0, set()
        if whole == 0:
            for grain in ('bands', 'messages'):
                row = rows[grain]['unattributed']
                row.billed, row.cost, row.tiered = row.billed + billed, row.cost + cost, row.tiered + cost
                row.priced |= parts is not None
                row.windows.add(where)
        for ref, size in zip(refs, sizes):
            share = Fraction(size, whole) if whole else Fraction(0)
            tiered = self.prefix(parts, usage, billed, cost, Fraction(before, whole), Fraction(before + size, whole)) if whole and parts else Fraction(0)
            before += size
            for grain, key in self.keys(window, ref, where):
                row = rows[grain][key]
                row.billed, row.cost, row.tiered = row.billed + billed * share, row.cost + cost * share, row.tiered + tiered
                row.turns += (grain, key) not in touched
                row.priced |= parts is not None
                row.windows.add(where)
                touched.add((grain, key))
                if (grain, key, where, ref['id']) not in own:
                    own.add((grain, key, where, ref['id']))
                    row.own += size
                    row.messages += ref['id'] in window['messages'] or grain == 'messages'

    @staticmethod
    def prefix(parts, usage, billed, cost, low, high):
        """Money of a stretch of the request, each class at its own rate in the order of the prefix."""
        if billed == 0:
            return cost * (high - low)
        at, money = Fraction(0), Fraction(0)
        stray, last = sum(parts[key] for key in CLASSES if not usage[key]), [key for key in CLASSES if usage[key]][-1]
        for key in CLASSES:  # what is charged for a class without tokens goes to the last that has some
            end = at + Fraction(usage[key], billed)
            if usage[key] and min(end, high) > max(at, low):
                money += (parts[key] + (stray if key == last else 0)) * (min(end, high) - max(at, low)) / (end - at)
            at = end
        return money
