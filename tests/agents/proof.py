"""scripts/proof: one scripted session of the real pi, with nothing on, each mechanism alone, and all: what is claimed, and what the
requests that reached the provider say. Fails where the two differ by more than 2 %, or where a mechanism costs more than it saves.

One unit for both: four characters a token, rounded up for each message; of a call its name and the texts of its arguments, of a tool
its name, description and parameters. System prompts are the same in all runs and left out."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from rig import RIG, TOOLS, Rig, dict_text, extension, topology  # noqa: E402
from harness import Place, Skip, check, lines_of  # noqa: E402

PROMPTS = ('First task: explore and build', 'Second task: pdf', 'Third task: finish')
LISTED = TOOLS + ',browse,database,calendar'
READ, WRITE = 3, 37.5  # price of a cached token and of one that is written to the cache, in tenths of a dollar per million
MECHANISMS = ('bash', 'amnesia', 'write', 'lazy')
PAUSE_MS = 2000
TOLERANCE = 0.02


def chars4(units):
    return -(-units // 4)


def units(text):
    return len(text.encode('utf-16-le', 'surrogatepass')) // 2


def leaves(value):
    """The texts in the arguments of a call, as they are and not as JSON escapes them."""
    if isinstance(value, dict):
        return ''.join(key + leaves(item) for key, item in value.items())
    if isinstance(value, list):
        return ''.join(map(leaves, value))
    return value if isinstance(value, str) else json.dumps(value)


def said(message):
    calls = ''.join(call['function']['name'] + leaves(json.loads(call['function']['arguments'])) for call in message.get('tool_calls') or [])
    return dict_text(message) + calls


def spec(tool):
    tool = tool['function']
    return ' '.join((tool['name'], tool['description'], json.dumps(tool['parameters'], separators=(',', ':'), ensure_ascii=False), ''))


class Run:
    """What the requests of one session say."""

    def __init__(self, bodies, cold=()):
        self.windows, self.tools, self.uncached, self.sent = [], [], 0, 0
        before = None
        for number, body in enumerate(bodies):
            messages = [(message['role'], said(message)) for message in body['messages'] if message['role'] != 'system']
            tools = sorted(map(spec, body['tools']))
            size = [chars4(units(text)) for _, text in messages]
            shared = 0
            if before is not None and before[1] == tools and number not in cold:
                while shared < len(before[0]) and shared < len(messages) and before[0][shared] == messages[shared]:
                    shared += 1
            cached = sum(size[:shared]) + (sum(chars4(units(tool)) for tool in tools) if shared else 0)
            whole = sum(size) + sum(chars4(units(tool)) for tool in tools)
            before = (messages, tools)
            self.windows.append(sum(size))
            self.tools.append({tool: chars4(units(tool)) for tool in tools})
            self.sent += whole
            self.uncached += whole - cached

    @property
    def cost(self):
        """Dollars."""
        return ((self.sent - self.uncached) * READ + self.uncached * WRITE) / 1e7


class Session:
    def __init__(self, place, nodes, script, prompts, cold=(), options=None):
        rig, ext = Rig(place, script), extension(place)
        if nodes:
            place.ctxpipe('up', '-f', topology(place, nodes, **(options or {})), '--detach')
        more = ['-e', str(pathlib.Path(__file__).parent / 'extra-tools.ts')]
        rig.pi(*prompts, extension=ext if nodes else None, more=more, tools=LISTED, **({'CTXPIPE_TOOLS': TOOLS} if 'lazy' in nodes else {}))
        self.stats, self.log = None, []
        if nodes:
            self.stats = place.ctxpipe('stats', '--json').json()['sessions'][0]
            place.ctxpipe('down')
            self.log = lines_of(place.state / 'events.jsonl')
        self.measured = Run(rig.requests(), cold)

    @classmethod
    def of(cls, *arguments, **more):
        place = Place()
        try:
            return cls(place, *arguments, **more)
        finally:
            place.leave()


def compared(what, claimed, measured, faults):
    """The deviation in percent."""
    if claimed == measured:
        return '0.0 %'
    off = abs(claimed - measured) / max(abs(measured), 1)
    if off > TOLERANCE:
        faults.append(f'{what}: claimed {claimed}, measured {measured}')
    return f'{(claimed - measured) / max(abs(measured), 1) * 100:+.1f} %'


def rows(plain, sessions, faults):
    yield '| on | tokens sent | outside the shared prefix | cost | auxiliary tokens | kept out at the end: claimed, measured | carried: claimed, measured |'
    yield '|---|---|---|---|---|---|---|'
    yield f'| nothing | {plain.sent:,} | {plain.uncached:,} | ${plain.cost:.4f} | 0 | | |'
    for name, session in sessions.items():
        run, stats = session.measured, session.stats
        lazy = stats['cumulative']['lazy']
        kept, end = stats['net'] - lazy, plain.windows[-1] - run.windows[-1]
        carried, less = stats['carried'], sum(plain.windows) - sum(run.windows)
        check(len(plain.windows) == len(run.windows), f'{name}: {len(run.windows)} requests, {len(plain.windows)} with nothing on')
        yield (f'| {name} | {run.sent:,} | {run.uncached:,} | ${run.cost:.4f} | {stats["aux"]:,} '
               f'| {kept:,}, {end:,} ({compared(name + ", at the end", kept, end, faults)}) | {carried:,}, {less:,} ({compared(name + ", carried", carried, less, faults)}) |')


def lazy_claims(plain, session, faults):
    """The estimate is the size of the specs that were left out, to the token."""
    out = {tool: size for tool, size in plain.tools[0].items() if tool not in session.measured.tools[0]}
    estimates = {line['avoidedTokens'] for line in session.log if line['kind'] == 'lazy'}
    if estimates != {sum(out.values())} or not out:
        faults.append(f'lazy: estimated {sorted(estimates)}, left out {sum(out.values())} in {len(out)} tools')
    return f'lazy: estimated {sorted(estimates)[0]:,} tokens a run; left out {sum(out.values()):,} in {len(out)} tools, in {len(session.measured.tools)} requests'


def reread_script():
    """Two files read again and again, a pause, and what comes after it."""
    steps = [{'calls': [{'id': f'r{n}', 'name': 'read', 'args': {'path': f'src/big_{("keep", "drop")[n % 2]}.py'}}]} for n in range(6)]
    after = [{'calls': [{'id': f's{n}', 'name': 'bash', 'args': {'command': f'echo {n}'}}]} for n in range(4)]
    return [*steps, {'text': 'Read.', 'calls': [{'id': 'pause', 'name': 'bash', 'args': {'command': f'sleep {PAUSE_MS / 1000}'}}]}, *after, {'text': 'Done.'}]


def main():
    faults, script = [], RIG / 'script-A.json'
    plain = Session.of((), script, PROMPTS).measured
    sessions = {name: Session.of((name,), script, PROMPTS) for name in MECHANISMS}
    sessions['all'] = Session.of(MECHANISMS, script, PROMPTS)
    print('\n'.join(rows(plain, sessions, faults)))
    for name in ('bash', 'write'):
        if sessions[name].measured.uncached >= plain.uncached:
            faults.append(f'{name} alone sends {sessions[name].measured.uncached} uncached tokens, nothing on {plain.uncached}')
    if sessions['amnesia'].measured.cost > plain.cost:
        faults.append(f'amnesia alone costs ${sessions["amnesia"].measured.cost:.6f}, nothing on ${plain.cost:.6f}')
    print(lazy_claims(plain, sessions['lazy'], faults))
    cold = (7,)
    bare = Session.of((), reread_script(), ('Go',), cold).measured
    paused = Session.of(('amnesia',), reread_script(), ('Go',), cold, {'amnesia': {'cache_ttl_s': 1}})
    if paused.measured.cost >= bare.cost or not any(line['kind'] == 'amnesia-remove' for line in paused.log):
        faults.append(f'amnesia over a pause costs ${paused.measured.cost:.6f}, nothing on ${bare.cost:.6f}')
    print(f'repeated reads and a pause longer than the cache lives: nothing on ${bare.cost:.4f}, amnesia ${paused.measured.cost:.4f}')
    compared('amnesia over a pause, carried', paused.stats['carried'], sum(bare.windows) - sum(paused.measured.windows), faults)
    for fault in faults:
        print(f'proof: {fault}', file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    try:
        main()
    except Skip as reason:
        sys.exit(f'proof: {reason}')
