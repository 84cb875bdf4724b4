"""Events of agents at work, the same for the same name: lines for `ctxpipe send`, with the sums that must come out."""
import datetime
import json
import random

TURNS_A_SESSION = 40
MODEL = 'claude-sonnet-4-5-20250929'


def iso(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z')


class Load:
    """Makes the lines and adds up what they report: seven events a turn."""

    def __init__(self, agent, turns):
        self.agent, self.turns = agent, turns
        self.random = random.Random(agent)
        self.clock = 1780000000000
        self.events = self.sessions = self.requests = self.input = self.cache_read = self.cache_write = self.output = 0

    @property
    def billed(self):
        return self.input + self.cache_read + self.cache_write

    def line(self, kind, session, **fields):
        self.events += 1
        self.clock += 250
        return json.dumps({'kind': kind, 'ts': iso(self.clock), 'agent': self.agent, 'session': session, 'thread': '', **fields}, ensure_ascii=False)

    def prompt(self, session, turn, kept, added):
        usage = {'input': self.random.randrange(50, 5000), 'cacheRead': 100 * kept, 'cacheWrite5m': self.random.randrange(400), 'output': self.random.randrange(1, 900)}
        self.requests += 1
        self.input += usage['input']
        self.cache_read += usage['cacheRead']
        self.cache_write += usage['cacheWrite5m']
        self.output += usage['output']
        return self.line('prompt', session, turn=turn, callId=f'{session}-r{turn}', model=MODEL, keep=kept, append=[{'id': i} for i in added],
                         reply=[f'{session}-a{turn}'], usage=usage, source='provider')

    def result(self, session, turn, call):
        """The tool's result and the two messages that the turn adds to the window."""
        shell = self.random.random() < 0.5
        text = '\n'.join(f'{call} line {n}: {self.random.randrange(10 ** 9)} ünïcode' for n in range(self.random.choice((3, 40, 400 if shell else 60))))
        how = ({'tool': 'bash', 'input': {'command': f'make -j {turn}'}, 'exitCode': 0} if shell else
               {'tool': 'read', 'input': {'path': f'src/file{turn % 7}.c'}})
        view = {'band': 'tool_output'} if shell else {'band': 'file_view', 'label': how['input']['path']}
        yield self.line('tool_result', session, turn=turn, toolCallId=call, isError=False, text=text, **how)
        yield self.line('context_message', session, id=f'{session}-a{turn}', role='assistant', band='assistant', tokens=20, calls=[{'id': call, 'name': how['tool']}])
        yield self.line('context_message', session, id=f'{session}-t{turn}', role='tool', tool=how['tool'], toolCallId=call, tokens=(len(text) + 3) // 4, **view)

    def session(self, session, turns):
        pending, kept = [f'{session}-ask'], 0
        self.sessions += 1
        yield self.line('session_start', session, product='pi', model=MODEL, cwd='/srv/project')
        yield self.line('context_message', session, id=pending[0], role='user', band='user_prompt', tokens=30)
        yield self.line('agent_start', session, skillsText='- name: deploy\n  description: how to deploy')
        for turn in range(turns):
            yield self.line('turn_start', session, turn=turn)
            yield self.prompt(session, turn, kept, pending)
            kept += len(pending)
            yield from self.result(session, turn, f'{session}-c{turn}')
            pending = [f'{session}-a{turn}', f'{session}-t{turn}']
            yield self.line('turn_end', session, turn=turn)
        yield self.line('agent_end', session)
        yield self.line('session_end', session, reason='done')

    def lines(self):
        for first in range(0, self.turns, TURNS_A_SESSION):
            yield from self.session(f'{self.agent}-s{first // TURNS_A_SESSION}', min(TURNS_A_SESSION, self.turns - first))
