#!/usr/bin/env python3
"""The rules digest held to its guarantees on the real outputs of tests/cases/outputs, and what it saves of them.

outputs.py DIGEST_RUN check FILE    a line of TAP for each output; the last ones: FILE holds the table of this program, and its aims are met
outputs.py DIGEST_RUN extremes      the same of outputs that no tool prints: a line of 100 MB, noise, a million lines
outputs.py DIGEST_RUN write FILE    writes the table
outputs.py DIGEST_RUN show NAME     prints one digest

What must survive is found by the rules below, which are this file's own, and by the lines that stand in the manifest."""
import json
import lzma
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUTPUTS = HERE.parent / 'cases' / 'outputs'
MIN_TOKENS, LARGE = 2000, 10000
AIMS = {'2,000 to 10,000': 80.0, 'above 10,000': 95.0}

# ---- what must survive, by this file's own lights
FAULT = re.compile(r'''
    (:\d+)?:\ (fatal\ )?error:\ | ^(fatal\ )?error(\[\w+\])?:\ | :\ undefined\ reference\ to\ | ^collect2: | \berror\ TS\d+: | ^[^\s:]+\.java:\d+:\ error | ^\S+\.go:\d+:\d+:\
  | ^make(\[\d+\])?:\ \*\*\* | ^ninja:\ build\ stopped | ^FAILED: | ^CMake\ Error
  | ^E\ \ \ +\S | ^FAILED\ | ^(FAIL|ERROR):\ | ^Traceback\ \(most | ^[\w.]*(Error|Exception)(:|$) | ^not\ ok\ \d | ^---\ FAIL: | ^\s+---\ FAIL: | ^FAIL(\s|$)
  | \bpanicked\ at\b | ^Caused\ by: | ^\s+at\ .*:\d+\)?$ | ^\s+File\ ".*",\ line\ \d+
  | ^==\d+==\s?(ERROR:|Invalid\ (read|write)|HEAP|\s+definitely\ lost) | \ are\ definitely\ lost\  | ^SUMMARY:\ | ^Exception\ in\ thread
  | \ ERROR\s+\[ | "level":\ ?"error" | ^SEVERE: | ^npm\ (ERR!|error)\s\S | ^E:\ | ^ERROR:?\ | ^fatal:\ | ^CONFLICT\ | ^(find|ls|grep|tar|rsync|diff|curl|wget|cp):\ (?!.*saved)
  ''', re.X)
TOTAL = re.compile(r'''
    ^\s*=+\ .*\b(passed|failed)\b.*\ =+$ | ^Ran\ \d+\ tests | ^(OK|FAILED)(\ \(.*\))?$ | ^(Tests|Test\ Suites|Snapshots):\s | ^[#\u2139]\ (tests|pass|fail)\ \d+ | ^\s+\d+\ (passing|failing|pending)\b
  | ^\d+%\ tests\ passed | ^(Ok|Expected\ Fail|Fail|Unexpected\ Pass|Skipped|Timeout):\s+\d+ | ^test\ result:\ | ^=+\ .*\bin\ [\d.]+s.*=+$ | ^(FAIL|ok)\ \ \t?example.org/demo/\w+\ \[
  | ^\d+\ (errors?|warnings?)(\ and\ \d+\ errors?)?(\ generated\.)?$ | \bgenerated\ \d+\ warnings?\b | \d+\ problems?\ \( | ERROR\ SUMMARY:\ | ^Found\ \d+\ errors
  | ^\d+\ upgraded,\ \d+\ newly | ^added\ \d+\ packages | ^\d+\ vulnerabilities | ^(sent|total)\ [\d,.]+\w*\ +(bytes|size) | ^Total\ bytes | ^\d+\ directories,
  ''', re.X)
# outputs that quote: what their lines say is said by somebody else, but for the tool's own complaints
QUOTES = re.compile(r'^(fatal|error): |^CONFLICT |^E: |^(find|ls|grep|tar|rsync|diff|curl|wget|cp): (?!.*saved)')
GOOD = re.compile(r'\b(all tests passed|tests? passed|passed|succeeded|successful(ly)?|no errors|BUILD SUCCESS|0 failed|0 errors)\b', re.I)
BAD = re.compile(r'\b(failed|failure|failing|FAIL|fatal|panic(ked)?|traceback|error)\b', re.I)
ESCAPES = re.compile(r'\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]')
FOLD = re.compile(r'^\u2026 (\d+) like the line above, lines (\d+)-(\d+) \u2026$')


def shown(line):
    """Its last state, as a terminal leaves it."""
    parts = [part for part in line.split('\r') if part.strip()]
    return ESCAPES.sub('', parts[-1] if parts else '').rstrip()


def shape(line):
    """Equal for lines that differ in numbers, addresses, paths, names with colons and quoted texts only."""
    line = re.sub(r'''"[^"]*"|'[^']*'|`[^'`]*['`]|\u2018[^\u2019]*\u2019''', 'Q', line)
    line = re.sub(r'[\w./+~-]+(::[\w./+~-]+)+', 'P', line)
    line = re.sub(r'[\w.+~-]*/[\w./+~-]*|[\w+~-]+\.[A-Za-z_][\w.+~-]*', 'P', line)
    line = re.sub(r'\b0x[0-9a-f]+\b|\b[0-9a-f]{6,}\b|\d+', '#', re.sub('_+', '_', line))
    return re.sub(r'([^\w#])\1+', r'\1', re.sub(r'\s+', '', line))


def must_survive(row, text, made):
    """{line number: line}"""
    found = {}
    listed = set(row['must'])
    if 'of JSON, laid out on' in made.split('\n', 1)[0]:
        return {-i: piece for i, piece in enumerate(row['must']) if piece in text}, {piece for piece in row['must'] if piece not in text}
    quotes = row['group'] in ('listings', 'JSON', 'others') and row['tool'] not in ('eslint', 'python', 'node', 'cargo', 'gcc')
    for number, raw in enumerate(text.split('\n'), 1):
        line = shown(raw)
        by_rule = QUOTES.search(line) if quotes else len(line) < 600 and (FAULT.search(line) or TOTAL.search(line))
        if by_rule or line in listed:
            found[number] = line
            listed.discard(line)
    return found, listed


def survives(number, line, digest_lines, shapes):
    if line.strip() in digest_lines:
        return True
    return any(first <= number <= last and above == shape(line) for above, first, last in shapes)


class Runner:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, way, code, text):
        self.process.stdin.write(f'{way} {code} {len(text)}\n'.encode())
        self.process.stdin.write(text)
        self.process.stdin.flush()
        head = self.process.stdout.readline()
        if not head:
            raise SystemExit(f'the digest died on an output of {len(text)} bytes: exit {self.process.wait()}')
        first, _, rest = self.process.stdout.read(int(head)).partition(b'\n')
        return first, rest

    def digest(self, row, text):
        """(event, digest or None where the output stays)"""
        line, made = self.ask('stage', row['exitCode'], text.encode())
        return json.loads(line or 'null'), made.decode() if made else None


def units(text):
    return len(text.encode('utf-16-le')) // 2


def tokens(text):
    return -(-units(text) // 4)


def wrong(row, text, event, made, again):
    """What guarantee is broken, or None."""
    if tokens(text) < MIN_TOKENS:
        return 'an output below the limit was touched' if event or made else None
    if not event:
        return 'no event'
    if event['originalTokens'] != tokens(text):
        return f'{event["originalTokens"]} tokens of {tokens(text)}'
    if made is None:
        return None if event['saved'] == 0 and event.get('reason') else 'it stays, but without a reason'
    if tokens(made) >= tokens(text) or event['saved'] != tokens(text) - tokens(made):
        return f'{tokens(made)} tokens in place of {tokens(text)}, saved {event["saved"]}'
    if again != made:
        return 'a second run gives another digest'
    head = made.split('\n', 1)[0] if made.startswith('[ctxpipe: ') else made.rsplit('\n', 1)[1]
    if not head.startswith('[ctxpipe: ') or not head.endswith(f'; exit code {row["exitCode"]}]'):
        return f'the exit code {row["exitCode"]} is not in {head!r}'
    lines = made.split('\n')
    folds = [(shape(lines[i - 1]), int(m[2]), int(m[3])) for i, one in enumerate(lines) if (m := FOLD.match(one))]
    known = {one.strip() for one in lines}
    found, missing = must_survive(row, text, made)
    if missing:
        return f'the manifest names lines that the output has not: {sorted(missing)[0]!r}'
    for number, line in found.items():
        if not survives(number, line, known, folds) and not (number <= 0 and any(line in one for one in lines)):
            return f'line {number} is lost: {line!r}'
    return wrong_verdict(row, text, lines)


def wrong_verdict(row, text, lines):
    """Nothing in the digest calls the run what it was not: each line that judges is the output's own, and a failing run shows that it failed."""
    json_text = re.sub(r'\s', '', text) if 'of JSON, laid out on' in lines[0] else ''
    source = {shown(raw).strip() for raw in text.split('\n')} | {ESCAPES.sub('', part).strip() for raw in text.split('\n') for part in raw.split('\r')}
    for line in lines[1:]:
        if json_text and re.sub(r'\s', '', line) in json_text:
            continue
        if (GOOD.search(line) or BAD.search(line)) and not line.startswith('\u2026') and line.strip() not in source and '\u2026' not in line:
            return f'a verdict that the output has not: {line!r}'
        if line.startswith('\u2026') and (GOOD.search(line) or BAD.search(line)) and not any(shape(line) and part in text for part in line.split('\u2026')[1:2]):
            return f'a mark that judges: {line!r}'
    if row['verdict'] == 'fails' and BAD.search(text) and not any(BAD.search(line) for line in lines[1:]):
        return 'nothing in the digest of a failed run says that it failed'
    if row['verdict'] == 'passes':
        failures = [line for line in lines[1:] if not json_text and FAULT.search(line) and line.strip() not in source and not line.startswith('\u2026')]
        if failures:
            return f'a failure that a passing run has not: {failures[0]!r}'
    return None


def load():
    rows = json.loads((OUTPUTS / 'manifest.json').read_text())
    stored = {path.name.removesuffix('.txt.xz') for path in OUTPUTS.glob('*.txt.xz')}
    if stored != {row['name'] for row in rows}:
        raise SystemExit(f'manifest.json and the folder differ: {sorted(stored ^ {row["name"] for row in rows})}')
    for row in rows:
        data = lzma.decompress((OUTPUTS / (row['name'] + '.txt.xz')).read_bytes())
        yield row, data.decode('utf-8', 'replace')


# ---- the table
REASONS = {}
HEAD = """# What a digest saves

Written by `ninja -C build docs-digest` from the outputs in [tests/cases/outputs](../tests/cases/outputs): what common tools printed when they were run, and what the
`bash-digest` stage with its default options (engine rules) put in its place. A test holds that this page is what the program does, that what must survive survives in each
of them, and that the aims are met or the reason stands here. Sizes are in tokens of four characters. An output below 2,000 tokens is left alone.

## By group

Median reduction, the number of outputs, and the least reduction among them. The aims: 80 % of outputs of 2,000 to 10,000 tokens, 95 % of larger ones.

"""


def size_class(count):
    return None if count < MIN_TOKENS else '2,000 to 10,000' if count <= LARGE else 'above 10,000'


def reduction(before, after):
    return 100 - 100 * after / before


def table(results):
    """The page, and the rows that are below their aim without a reason, or have a reason without need."""
    page, faults = [HEAD + '| group | 2,000 to 10,000 tokens | above 10,000 tokens |\n|---|---|---|\n'], []
    groups = list(dict.fromkeys(row['group'] for row, _, _ in results))
    for group in groups:
        cells = []
        for name, aim in AIMS.items():
            those = [reduction(before, after) for row, before, after in results if row['group'] == group and size_class(before) == name]
            median = statistics.median(those) if those else 100.0
            reason = REASONS.get((group, name))
            if (median < aim) != (reason is not None) or len(those) < 2:
                faults.append(f'{group}, {name}: {median:.1f} % of {len(those)} outputs, aim {aim:.0f} %, reason: {reason}')
            cells.append(f'{median:.1f} % of {len(those)}, least {min(those, default=100):.1f} %' + (f'; below the aim: {reason}' if reason else ''))
        page.append(f'| {group} | {cells[0]} | {cells[1]} |\n')
    page.append('\n## Each output\n\n| group | output | tool | exit code | tokens | digest | reduction |\n|---|---|---|---|---|---|---|\n')
    for row, before, after in results:
        if size_class(before):
            page.append(f'| {row["group"]} | {row["name"]} | {row["tool"]} | {row["exitCode"]} | {before:,} | {after:,} | {reduction(before, after):.1f} % |\n')
    small = [row['name'] for row, before, _ in results if not size_class(before)]
    if small:
        page.append(f'\nBelow 2,000 tokens, and left alone: {", ".join(small)}.\n')
    return ''.join(page), faults


# ---- what no tool prints
def extremes():
    noise = bytes((i * 7919 + (i >> 8) * 104729) >> 3 & 0xff for i in range(300000))
    yield 'a line of 100 MB', b'x' * 100_000_000, []
    yield 'a line of 100 MB with an error behind it', b'abcdefg ' * 12_500_000 + b'\nerror: the disk is full\n', [b'error: the disk is full']
    yield 'a million short lines', b''.join(b'step %d\n' % i for i in range(1_000_000)), []
    yield 'a million short lines with one failure', b''.join(b'FAILED step 77\n' if i == 700_000 else b'ok %d\n' % i for i in range(1_000_000)), [b'FAILED step 77']
    yield 'a million carriage returns', b''.join(b'%d%%\r' % (i // 10000) for i in range(1_000_000)) + b'done\n', [b'done']
    yield 'noise', noise, []
    yield 'noise with a failure in it', noise + b'\nfatal: out of memory\n' + noise, [b'fatal: out of memory']
    yield 'UTF-8 cut in the middle of characters', '\u00e4\u20ac\U0001f389'.encode()[1:] * 50000 + b'\nerror: \xff\xfe is no name\n', []
    yield 'nothing but newlines', b'\n' * 1_000_000, []
    yield 'brackets', b'[' * 200000, []
    yield 'brackets that close', b'[' * 190 + b'1,' * 50000 + b'1' + b']' * 190, []


def check_extremes(runner, say):
    for name, text, must in extremes():
        first, made = runner.ask('raw', 0, text)
        again = runner.ask('raw', 0, text)[1]
        fault = None
        if first not in (b'0', b'1') or (first == b'1' and made):
            fault = f'result {first}, {len(made)} bytes'
        elif made != again:
            fault = 'a second run gives another digest'
        elif units(made.decode('utf-8', 'replace')) > 4096:
            fault = f'{len(made)} bytes'
        elif first == b'0' and any(line not in made.split(b'\n') for line in must):
            fault = 'it lost its failure'
        elif must and first == b'1':
            fault = 'its failure did not fit'
        say(f'{name} is digested within the limits', fault)
    for name, text in (('noise as an agent sends it', bytes(range(256)) * 400), ('JSON of a failure on one line', json.dumps({'ok': False, 'rows': list(range(9000)), 'message': 'error: x'}).encode())):
        row = {'exitCode': 3, 'must': [], 'group': 'tests', 'tool': '', 'verdict': 'fails'}
        text = text.decode('utf-8', 'replace')
        event, made = runner.digest(row, text)
        say(f'{name} keeps what must survive', wrong(row, text, event, made, runner.digest(row, text)[1]) or (None if made else 'it stays'))


def main():
    runner, mode = Runner(sys.argv[1]), sys.argv[2]
    if mode == 'show':
        for row, text in load():
            if row['name'] == sys.argv[3]:
                event, made = runner.digest(row, text)
                print(json.dumps(event), made, sep='\n')
        return 0
    results, said = [], []

    def say(title, fault):
        said.append(fault)
        print(f'{"not ok" if fault else "ok"} {len(said)} - {title}' + (f'\n# {fault}' if fault else ''), flush=True)

    if mode == 'extremes':
        check_extremes(runner, say)
        print(f'1..{len(said)}')
        return 1 if any(said) else 0
    for row, text in load():
        event, made = runner.digest(row, text)
        again = runner.digest(row, text)[1] if made else None
        results.append((row, tokens(text), tokens(made) if made else tokens(text)))
        if mode == 'check':
            say(f'{row["name"]} keeps what must survive', wrong(row, text, event, made, again))
    page, faults = table(results)
    file = pathlib.Path(sys.argv[3])
    if mode == 'write':
        file.write_text(page)
        print('\n'.join(faults))
        return 1 if faults else 0
    say(f'{len(results)} outputs of {len({row["tool"] for row, _, _ in results})} tools are enough', None if len(results) >= 40 and len({row['tool'] for row, _, _ in results}) >= 15 else 'they are not')
    say('the aims are met, or the reason is known', '; '.join(faults) or None)
    say(f'{file.name} is what the digest does', None if file.exists() and file.read_text() == page else "it is stale; 'ninja -C build docs-digest' writes it")
    print(f'1..{len(said)}')
    return 1 if any(said) else 0


sys.exit(main())
