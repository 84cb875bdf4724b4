"""The ledger of sizes, worked out a second time and plainly: every request of a window from its whole list. It shares no code with the
fold and reads the same events; a message stands at most once in a window. Names are those of the rule:

  U + X + sizes + thinking of the residents = the reported input, in every request that fits

U: what no message holds; X: growth that no message shows. A message's size is what the input grew by when it came in."""
from collections import defaultdict
from fractions import Fraction

from reference import CLASSES, Reference, half_up

UP, DOWN, WEIGHT, HALF, IMAGE = 3, 20, 60000, 400000, 30000
#              begins with            family   factor  thinking of earlier turns: dropped 1, kept -1
TOKENIZERS = [('claude-opus-4-7', ('claude-4.7', 1340, -1)), ('claude-opus-4-5', ('claude', 990, -1)), ('claude-sonnet-4-5', ('claude', 990, 1)),
              ('claude-', ('claude', 990, 0)), ('gpt-5', ('gpt', 795, 1)), ('glm-', ('glm', 815, 1)), ('deepseek', ('deepseek', 860, -1))]
SIGNATURES = {'claude-4.7': (28, 0), 'gpt': (15, 100)}


def apportion(parts, unit, total):
    """Whole numbers that add up to total; largest remainder, ties to the earlier."""
    out = [part // unit for part in parts]
    for i in sorted(range(len(parts)), key=lambda i: (-(parts[i] % unit), i))[:total - sum(out)]:
        out[i] += 1
    return out


class Model:
    def __init__(self, name):
        self.family, self.start, self.vote = next((known for begins, known in TOKENIZERS if name.startswith(begins)), ('', 1024, 0))
        self.tokens, self.pieces = self.start * WEIGHT // 1024, WEIGHT

    @property
    def factor(self):
        return self.tokens * 1024 // self.pieces

    def by_signature(self, units):
        percent, less = SIGNATURES.get(self.family, (22, 37))
        return max(0, units * percent // 100 - less)


class Place:
    """A message in the window, and the X that came in behind it."""

    def __init__(self, message):
        self.message, self.size, self.think, self.unseen, self.sized = message, 0, 0, 0, False

    @property
    def all(self):
        return self.size + self.think


class Window:
    def __init__(self):
        self.messages, self.replies, self.persons, self.known = {}, {}, set(), {}
        self.places, self.models, self.pool, self.turn, self.rest = [], {}, [], [], 0
        self.U = self.X = self.unexplained = self.came_in = self.wrong = self.growth = self.input = self.count = self.done = 0
        self.begun = self.suspect = self.shrunk = False
        self.before, self.last_model = None, None

    # ---- what there is ----
    def event(self, place):
        return self.messages[place.message]

    def S(self):
        return sum(place.all for place in self.places)

    def estimate(self, place):
        return max(1, (self.event(place)['pieces'] * self.model.factor + 5120) // 10240)

    def set(self, place, size, think):
        place.size, place.think, place.sized = size, think, True
        self.known[place.message] = (size, think)

    def move_X(self, change):
        """X grows behind the newest place, and shrinks there first."""
        before, self.X = max(0, self.X), self.X + change
        change = max(0, self.X) - before
        if change > 0:
            if self.places:
                self.places[-1].unseen += change
            else:
                self.rest += change
        for place in reversed(self.places if change < 0 else []):
            part = min(place.unseen, -change)
            place.unseen -= part
            change += part
        if change < 0:
            self.rest += change

    def scale(self, total):
        whole, parts = self.S(), [figure for place in self.places for figure in (place.size, place.think)]
        if whole:
            new = apportion([part * total for part in parts], whole, total)
            for i, place in enumerate(self.places):
                if place.sized:
                    self.set(place, new[2 * i], new[2 * i + 1])

    # ---- a request ----
    def prompt(self, event):
        self.persons |= set(event.get('personPrompt', []))
        keep = event['keep']
        moved = sum(place.unseen for place in self.places[keep:])
        self.shrunk |= any(place.sized for place in self.places[keep:])
        gone = self.places[keep:]
        self.places = self.places[:keep]
        self.pool, self.turn = ([place for place in kept if place not in gone] for kept in (self.pool, self.turn))
        if moved and self.places:
            self.places[-1].unseen += moved
        else:
            self.rest += moved
        self.done = min(self.done, keep)
        self.places += [Place(ref['id']) for ref in event['append']]
        usage = event.get('usage')
        if usage and sum(usage[key] for key in CLASSES):
            self.model = self.models.setdefault(event['model'], Model(event['model']))
            self.step(sum(usage[key] for key in CLASSES))
            self.last_model, self.done, self.shrunk = self.model, len(self.places), False
        self.before = usage
        self.count += 1
        for name in event.get('reply', []):
            self.replies[name] = self.count

    def step(self, I):
        if not self.begun:
            self.begun = True
            self.first(I)
            self.first_U = max(0, self.U)
        else:
            appended = not self.shrunk
            if self.last_model.family != self.model.family:
                self.convert(self.model.factor, self.last_model.factor)
                appended = False
            self.growth += abs(I - self.input)
            self.next(I, appended)
        self.input = I
        assert self.suspect or self.U + self.X + self.S() == I, 'the ledger does not close'
        assert max(0, self.X) == self.rest + sum(place.unseen for place in self.places), 'X is not where it came in'

    def first(self, I):
        behind = max((i + 1 for i, place in enumerate(self.places) if place.message in self.persons), default=0)
        for i, place in enumerate(self.places):
            event, think = self.event(place), 0
            if event['role'] == 'assistant' and 'thinking' in event and (self.model.vote <= 0 or i >= behind):
                think = event['thinking'].get('tokens') or self.model.by_signature(event['thinking'].get('signatureUnits', 0))
            self.set(place, self.estimate(place), think)
            if i >= behind:
                (self.pool if event['role'] == 'assistant' else self.turn).append(place)
        if self.S() > I:
            self.scale(I)
        self.U = I - self.S()

    def convert(self, new, old):
        self.known = {name: (size * new // old, think * new // old) for name, (size, think) in self.known.items()}
        for place in self.places:
            if place.sized:
                self.set(place, *self.known[place.message])
            place.unseen = place.unseen * new // old
        self.rest = self.rest * new // old
        toward_zero = lambda value: abs(value) * new // old * (1 if value >= 0 else -1)  # noqa: E731
        self.U = toward_zero(self.U)
        self.X = toward_zero(self.X) if self.X < 0 else self.rest + sum(place.unseen for place in self.places)

    def next(self, I, appended):
        fresh, A, R = self.places[self.done:], [], []
        for place in fresh:
            if place.message in self.known:  # it was here before
                self.set(place, *self.known[place.message])
                appended = False
            else:
                (A if self.replies.get(place.message) == self.count else R).append(place)
        usage = self.before or {}
        reasoning = usage.get('reasoning', 0)
        o = usage.get('output', 0) + (reasoning if usage.get('reasoningApart') else 0)
        V, G = sum(map(self.estimate, A)), sum(map(self.estimate, R))
        real = o > 0 and 2 * o >= V
        thinkers = [place for place in A if 'thinking' in self.event(place)]
        if not A:
            th = 0
        elif reasoning:
            th = min(reasoning, o) if real else reasoning
        elif not thinkers:
            th = 0
        else:
            th = max(0, o - V) if real else self.model.by_signature(sum(self.event(place)['thinking'].get('signatureUnits', 0) for place in thinkers))
        thinker = thinkers[-1] if thinkers else A[-1] if A and th else None
        a = (o - th if real else V) if A else 0
        D = I - (self.U + self.X + self.S()) - a - th
        person = any(place.message in self.persons for place in R)
        if self.shrunk and self.X and abs(D + self.X - G) < abs(D - G):
            D += self.X
            self.move_X(-self.X)
        P = sum(place.think for place in self.pool) + th if person else 0
        self.wrong += abs(D - (G - (P if P >= 100 and self.model.vote > 0 else 0)))
        drop = P if P >= 100 and abs(D - G + P) < abs(D - G) else 0
        if P >= 100:
            self.model.vote = max(-3, min(3, self.model.vote + (1 if drop else -1)))
        D, group = D + drop, R
        if A and not real:
            D, G, group, a = D + a, G + V, [place for place in fresh if place in A or place in R], 0
        self.settle(I, D, G, group, A if A and real else [], a, appended, th, thinker, drop, person)
        pieces, images = sum(self.event(place)['pieces'] for place in group), any(self.event(place).get('images') for place in group)
        if appended and not self.suspect and not drop and not images and pieces >= 500 and G <= 3 * D <= 9 * G:
            self.model.tokens, self.model.pieces = self.model.tokens + 10 * D, self.model.pieces + pieces
            if self.model.pieces > HALF:
                self.model.tokens, self.model.pieces = self.model.tokens // 2, self.model.pieces // 2
        if person:
            self.pool, self.turn = [], []
        reply = [place for place in fresh if self.replies.get(place.message) == self.count]
        self.pool += reply if not person else []
        self.turn += [place for place in fresh if place not in reply]

    def settle(self, I, D, G, group, A, a, appended, th, thinker, drop, person):
        self.suspect = appended and D < 0 and -D > max(1000, I // 20) and not self.suspect
        least, most = sum(-(-self.estimate(place) // DOWN) for place in group), UP * G + IMAGE * sum(len(self.event(place).get('images', [])) for place in group)
        T = G if self.suspect else max(least, min(D, most)) if group else 0
        rho = D - T
        for places, total in ((group, T), (A, a)):
            weights = [self.estimate(place) for place in places]
            for place, size in zip(places, apportion([weight * total for weight in weights], sum(weights) or 1, total)):
                self.set(place, size, place.think)
        if thinker and not drop:
            self.set(thinker, thinker.size, th)
        for place in self.pool if drop else []:
            self.set(place, place.size, 0)
        if rho > 0 and not self.suspect:
            self.came_in += rho
            self.move_X(rho)
        if rho < 0 and not self.suspect:
            self.shrink(I, -rho, drop or (person and self.model.vote > 0), thinker)

    def shrink(self, I, n, dropped, thinker):
        if dropped:  # at most a quarter of the turn's results
            whole = sum(place.size for place in self.turn)
            part = min(n, whole // 4)
            n -= part
            for place in self.turn:
                mine = part * place.size // whole if whole else 0
                whole, part = whole - place.size, part - mine
                self.set(place, place.size - mine, place.think)
        for place in ([thinker] if thinker else []) + self.pool[::-1]:
            part = min(n, place.think)
            self.set(place, place.size, place.think - part)
            n -= part
        room = max(0, self.U + self.X if n <= max(2000, I // 10) or n >= self.S() else self.X)
        self.move_X(-min(n, room))
        n -= min(n, room)
        if n:
            left = min(n, self.S())
            self.unexplained += n
            self.scale(self.S() - left)
            self.move_X(left - n)

    # ---- what pays ----
    def stretches(self):
        """(row, tokens) in the order of the request."""
        yield 'system and tools, not recorded', max(0, self.U + min(0, self.X))
        yield 'came in, not recorded', self.rest
        for place in self.places:
            yield ('message', place.message), place.size
            yield 'thinking', place.think
            yield 'came in, not recorded', place.unseen


class Row:
    def __init__(self):
        self.billed = self.cost = self.tiered = Fraction(0)
        self.requests = 0


class SizesReference:
    def __init__(self, prices):
        self.money, self.windows, self.rows = Reference(prices).money, defaultdict(Window), defaultdict(lambda: defaultdict(Row))

    def take(self, event):
        where = (event['agent'], event['session'], event['thread'])
        window = self.windows[where]
        if event['kind'] == 'context_message':
            window.messages[event['id']] = event
        if event['kind'] == 'prompt':
            window.prompt(event)
            if event.get('usage'):
                self.bill(window, event, self.rows[where])

    def bill(self, window, event, rows):
        usage, stretches = event['usage'], list(window.stretches())
        I, W, before = sum(usage[key] for key in CLASSES), sum(tokens for _, tokens in stretches), 0
        parts = self.money({'usage': usage, 'cost': None, 'model': event['model']})[0]
        cost = half_up(sum(parts.values())) if parts else 0
        if not W:
            stretches, W = [('unattributed', 1)], 1
        for name, tokens in stretches:
            row, share = rows[name], Fraction(tokens, W)
            row.requests += 1
            row.billed, row.cost = row.billed + I * share, row.cost + cost * share
            row.tiered += Reference.prefix(parts, usage, I, cost, Fraction(before, W), Fraction(before + tokens, W)) if parts else 0
            before += tokens
