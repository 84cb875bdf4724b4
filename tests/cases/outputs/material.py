"""What the commands of commands.py work on, in /src: a copy of this repository, and small projects in the languages of the tools."""
import io
import pathlib
import random
import shutil
import subprocess
import tarfile

WORDS = ['queue', 'window', 'ledger', 'parser', 'router', 'cache', 'index', 'session', 'buffer', 'signal', 'cursor', 'planner', 'bridge', 'filter', 'stream', 'digest']


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def copy_of(root, folder):
    archive = subprocess.run(['git', '-C', str(root), 'archive', 'HEAD', '--', 'common', 'daemons', 'include', 'docs', 'meson.build', 'meson_options.txt', 'tests',
                              'agents', 'config', 'scripts', 'samples', 'README.md', 'LICENSE'], check=True, capture_output=True).stdout
    tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder, filter='data')
    shutil.rmtree(folder / 'tests/cases/outputs', ignore_errors=True)


def c_files(folder, count, broken=(), warns=True):
    """A project of `count` sources; those in `broken` do not compile."""
    files = {}
    for i in range(count):
        word = WORDS[i % len(WORDS)]
        bad = f'  return {word}_limit + x;\n' if i in broken else '  return x * 2;\n'
        files[f'src/{word}_{i}.c'] = (f'#include "all.h"\nstatic int helper_{i}(int x, unsigned n) {{\n' + ('  if (x < n) return 1;\n' if warns and i % 3 == 0 else '')
                                      + f'  (void)n;\n{bad}}}\nint {word}_{i}(int x) {{ return helper_{i}(x, {i}u); }}\n')
    files['src/all.h'] = ''.join(f'int {WORDS[i % len(WORDS)]}_{i}(int x);\n' for i in range(count))
    files['src/main.c'] = '#include "all.h"\nint main(void) { return ' + ' + '.join(f'{WORDS[i % len(WORDS)]}_{i}(1)' for i in range(count)) + ' == 0; }\n'
    files['Makefile'] = ('CFLAGS = -std=c17 -O2 -g -Wall -Wextra -Isrc -fstack-protector-strong -D_FORTIFY_SOURCE=2\nSOURCES = $(wildcard src/*.c)\n'
                         'app: $(SOURCES:.c=.o)\n\t$(CC) $(LDFLAGS) -o $@ $^\n%.o: %.c src/all.h\n\t$(CC) $(CFLAGS) -c -o $@ $<\nclean:\n\trm -f app src/*.o\n')
    files['CMakeLists.txt'] = 'cmake_minimum_required(VERSION 3.20)\nproject(app C)\nfile(GLOB SOURCES src/*.c)\nadd_executable(app ${SOURCES})\n' + ''.join(
        f'add_library({WORDS[i % len(WORDS)]}_{i} STATIC src/{WORDS[i % len(WORDS)]}_{i}.c)\n' for i in range(min(count, 30)))
    write(folder, files)


def c_tests(folder, count, broken):
    lines = ['cmake_minimum_required(VERSION 3.20)\nproject(checks C)\nenable_testing()\nadd_executable(check check.c)\n']
    for i in range(count):
        lines.append(f'add_test(NAME {WORDS[i % len(WORDS)]}.holds_{i} COMMAND check {i})\n')
    write(folder, {'CMakeLists.txt': ''.join(lines), 'check.c': '#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n  int n = argc > 1 ? atoi(argv[1]) : 0;\n'
                   + '  printf("checking %d\\n", n);\n' + ''.join(f'  if (n == {b}) {{ fprintf(stderr, "check.c:%d: expected 4, got %d\\n", __LINE__, n); return 1; }}\n' for b in broken)
                   + '  return 0;\n}\n',
                   'meson.build': "project('checks', 'c')\ncheck = executable('check', 'check.c')\n" + ''.join(
                       f"test('{WORDS[i % len(WORDS)]} holds {i}', check, args: '{i}')\n" for i in range(count))})


def python_tests(folder, files, each, broken):
    made = {'app/__init__.py': '', 'app/money.py': 'class Rate:\n    def __init__(self, table):\n        self.table = table\n\n    def of(self, name):\n'
            '        """The rate of a currency."""\n        row = self.table[name]\n        if row["rate"] <= 0:\n            raise ValueError(f"rate of {name} is {row[\'rate\']}, expected more than 0")\n'
            '        return row["rate"]\n\n\ndef convert(amount, name, table):\n    return amount * Rate(table).of(name)\n'}
    for f in range(files):
        word = WORDS[f % len(WORDS)]
        lines = ['import unittest\n\nfrom app.money import convert\n\nTABLE = {"eur": {"rate": 2}, "usd": {"rate": 3}, "bad": {"rate": 0}}\n\n\nclass ' + word.title() + 'Test(unittest.TestCase):\n']
        for i in range(each):
            if (f, i) in broken:
                kind = (f + i) % 3
                body = ('self.assertEqual(convert(10, "eur", TABLE), 21)', 'self.assertEqual(convert(1, "gbp", TABLE), 1)', 'self.assertEqual(convert(1, "bad", TABLE), 1)')[kind]
            else:
                body = f'self.assertEqual(convert({i}, "eur", TABLE), {2 * i})'
            lines.append(f'    def test_{word}_converts_{i}(self):\n        print("converting {i}")\n        {body}\n\n')
        made[f'tests/test_{word}_{f}.py'] = ''.join(lines)
    made['tests/__init__.py'] = ''
    write(folder, made)


def node_tests(folder, files, each, broken):
    made = {'package.json': '{"name": "demo", "version": "1.0.0", "type": "commonjs", "scripts": {"test": "mocha", "build": "tsc -p ."}}\n',
            'money.js': 'function rate(table, name) {\n  if (!(name in table)) throw new RangeError(`no rate for ${name}`);\n  return table[name];\n}\n'
            'exports.convert = (amount, name, table) => amount * rate(table, name);\n'}
    for f in range(files):
        word = WORDS[f % len(WORDS)]
        for runner, head in (('node', "const { test } = require('node:test');\nconst it = test;\n"), ('mocha', '')):
            lines = [head + "const assert = require('node:assert');\nconst { convert } = require('../money.js');\n" + (f"describe('{word} {f}', () => {{\n" if not head else '')]
            for i in range(each):
                body = f"assert.strictEqual(convert({i}, 'eur', {{ eur: 2 }}), {2 * i})"
                if (f, i) in broken:
                    body = (f"assert.strictEqual(convert({i}, 'eur', {{ eur: 2 }}), {2 * i + 1})", f"convert({i}, 'gbp', {{ eur: 2 }})")[(f + i) % 2]
                lines.append(f"  it('{word} converts {i} of the {f}th kind', () => {{ {body}; }});\n")
            made[f'{"test" if runner == "mocha" else "nodetest"}/{word}_{f}.test.js'] = ''.join(lines) + ('' if head else '});\n')
    made['tsconfig.json'] = '{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2020", "module": "commonjs", "types": []}, "include": ["src"]}\n'
    for f in range(40):
        word = WORDS[f % len(WORDS)]
        made[f'src/{word}_{f}.ts'] = (f'export interface {word.title()}{f} {{ id: number; name: string; tags?: string[] }}\n'
                                      f'export function make{f}(id: number): {word.title()}{f} {{\n  return {{ id: String(id), name: id }};\n}}\n'
                                      f'export function tags{f}(x: {word.title()}{f}): number {{\n  return x.tags.length + x.size;\n}}\nlet unused{f} = missing{f};\n')
    made['.eslintrc.json'] = '{"root": true, "env": {"es2022": true, "node": true}, "parserOptions": {"ecmaVersion": 2022}, "extends": "eslint:recommended", "rules": {"semi": ["error", "always"], "quotes": ["warn", "single"], "eqeqeq": "error"}}\n'
    for f in range(30):
        word = WORDS[f % len(WORDS)]
        made[f'lint/{word}_{f}.js'] = f'var {word} = "a"\nfunction used{f}(a, b) {{ if (a == b) {{ return missing }} }}\nconst never{f} = 1\nswitch ({word}) {{ case "x": }}\n'
    write(folder, made)


def rust_project(folder, modules, warn, broken, failing):
    files = {'Cargo.toml': '[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n'}
    lib = []
    for m in range(modules):
        word = f'{WORDS[m % len(WORDS)]}_{m}'
        lib.append(f'pub mod {word};\n')
        text = f'use std::collections::HashMap;\n\npub struct Table {{ rows: HashMap<String, i64>, unused_{m}: u8 }}\n\n' if m in warn else 'pub struct Table { pub rows: Vec<i64> }\n\n'
        text += f'pub fn scale(x: i64) -> i64 {{\n    let factor: i64 = {m};\n' + ('    let idle = 3;\n' if m in warn else '') + '    x * factor\n}\n'
        if m in broken:
            text += 'pub fn name(t: Table) -> String {\n    let moved = t;\n    drop(moved);\n    format!("{}", t.rows.len() as u32 + 1i64)\n}\n'
        text += '#[cfg(test)]\nmod tests {\n    use super::*;\n' + ''.join(
            f'    #[test]\n    fn scales_{i}() {{ assert_eq!(scale({i}), {m * i + (1 if (m, i) in failing else 0)}); }}\n' for i in range(12)) + '}\n'
        files[f'src/{word}.rs'] = text
    files['src/lib.rs'] = ''.join(lib)
    write(folder, files)


def go_project(folder, packages, failing, broken=()):
    files = {'go.mod': 'module example.org/demo\n\ngo 1.19\n'}
    for p in range(packages):
        word = f'{WORDS[p % len(WORDS)]}{p}'
        bad = '\tvar idle int\n\treturn x + limit\n' if p in broken else f'\treturn x * {p}\n'
        files[f'{word}/{word}.go'] = f'package {word}\n\nfunc Scale(x int) int {{\n{bad}}}\n'
        files[f'{word}/{word}_test.go'] = f'package {word}\n\nimport "testing"\n\n' + ''.join(
            f'func TestScales{i}(t *testing.T) {{\n\tif got := Scale({i}); got != {p * i + (1 if (p, i) in failing else 0)} {{\n\t\tt.Errorf("Scale({i}) = %d, want {p * i + 1}", got)\n\t}}\n}}\n\n'
            for i in range(10))
    write(folder, files)


def java_project(folder, classes):
    files = {}
    for i in range(classes):
        name = WORDS[i % len(WORDS)].title() + str(i)
        files[f'src/{name}.java'] = (f'import java.util.*;\npublic class {name} {{\n  private List rows = new ArrayList();\n  int size() {{ return rows.length; }}\n'
                                     f'  String first() {{ return rows.get(0); }}\n  void add(String s) {{ rows.add(s); undefined{i}(s); }}\n}}\n')
    files['Server.java'] = (
        'import java.util.*;\nimport java.util.logging.*;\npublic class Server {\n  static final Logger log = Logger.getLogger("server.requests");\n'
        '  static int depth(int n) { if (n == 0) throw new IllegalStateException("pool is empty: 8 of 8 connections in use"); return depth(n - 1) + 1; }\n'
        '  public static void main(String[] a) {\n    for (int i = 0; i < Integer.parseInt(a[0]); i++) {\n      log.info("request " + i + " GET /items/" + i % 17 + " took " + i * 7 % 90 + " ms");\n'
        '      if (i % 50 == 49) log.warning("queue holds " + i + " entries");\n      if (i % 120 == 119) try { depth(6); } catch (RuntimeException e) { log.log(Level.SEVERE, "request " + i + " failed", e); }\n'
        '    }\n  }\n}\n')
    files['Heap.java'] = 'public class Heap { static byte[][] keep = new byte[64][]; public static void main(String[] a) { for (int i = 0; i < 1400; i++) keep[i % 64] = new byte[300_000]; } }\n'
    write(folder, files)


def crates(folder, count):
    """A workspace of packages that depend on each other."""
    files = {'Cargo.toml': '[workspace]\nresolver = "2"\nmembers = ["*-[0-9]*"]\n'}
    for i in range(count):
        word = f'{WORDS[i % len(WORDS)]}-{i}'
        on = [k for k in (i // 2, i // 3) if 0 < k < i]
        files[f'{word}/Cargo.toml'] = f'[package]\nname = "{word}"\nversion = "0.{i}.1"\nedition = "2021"\n[dependencies]\n' + ''.join(
            f'{WORDS[k % len(WORDS)]}-{k} = {{ path = "../{WORDS[k % len(WORDS)]}-{k}" }}\n' for k in sorted(set(on)))
        files[f'{word}/src/lib.rs'] = f'pub fn number() -> u32 {{ {i} }}\n'
    write(folder, files)


CPP = '''#include <algorithm>
#include <list>
#include <map>
#include <string>
#include <vector>
struct Key { int a; std::string b; };
int main() {
  std::map<Key, std::vector<std::string>> rows;
  rows[Key{1, "x"}].push_back("y");
  std::list<int> numbers{3, 1, 2};
  std::sort(numbers.begin(), numbers.end());
  std::vector<Key> keys;
  std::sort(keys.begin(), keys.end());
  std::string s = std::vector<int>{1};
  return rows.size() + std::find(keys.begin(), keys.end(), Key{})->a;
}
'''
MEMORY = '''#include <stdlib.h>
#include <string.h>
struct node { struct node *next; char name[24]; };
static struct node *push(struct node *head, const char *name) {
  struct node *n = malloc(sizeof(*n));
  n->next = head;
  strcpy(n->name, name);
  return n;
}
static int read_back(struct node *head) { int sum = 0; for (; head; head = head->next) sum += head->name[0]; return sum; }
int main(int argc, char **argv) {
  struct node *head = 0;
  for (int i = 0; i < 40; i++) head = push(head, "abc");
  int *rows = malloc(10 * sizeof(int));
  int sum = 0;
  for (int i = 0; i <= 10; i++) if (rows[i] > 3) sum++;
  free(rows);
  if (argc > 1) rows[2] = 1;
  return sum + read_back(head) == 7;
}
'''


def checks_of_memory(folder):
    pieces = ['#include <stdlib.h>\n#include <stdio.h>\n']
    for i in range(60):
        pieces.append(f'__attribute__((noinline)) static int use_{i}(int *p) {{ return p[{i % 4}] > {i} ? puts("above") : 0; }}\n__attribute__((noinline)) static int leak_{i}(void) '
                      f'{{ int *p = malloc({16 + i}); int r = use_{i}(p); if (r > 1000) free(p); return r; }}\n')
    pieces.append('int main(void) { int sum = 0;\n' + ''.join(f'  sum += leak_{i}();\n' for i in range(60)) + '  return sum > 0; }\n')
    write(folder, {'memory.c': MEMORY, 'leaks.c': ''.join(pieces), 'sort.cc': CPP})


SERVICE = '''"""A service that logs: service.py FORMAT COUNT"""
import json, logging, random, sys, traceback
random.seed(7)
kind, count = sys.argv[1], int(sys.argv[2])
clock = 1772000000
levels = {'INFO': 20, 'DEBUG': 10, 'WARNING': 30, 'ERROR': 40}
def say(level, name, text, **more):
    global clock
    clock += random.randrange(4)
    if kind == 'json':
        print(json.dumps({'ts': clock, 'level': level.lower(), 'logger': name, 'msg': text, **more}))
    elif kind == 'syslog':
        print(f'Mar  1 {clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02} node1 {name}[{700 + len(name)}]: {text}')
    else:
        print(f'2026-03-01T{clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02}.{random.randrange(1000):03}Z {level:7} [{name}] {text}')
units = ['auth', 'billing', 'cache', 'mailer', 'scheduler', 'search', 'storage', 'web']
for i in range(count):
    unit = random.choice(units)
    n = random.random()
    if n < .5: say('INFO', unit, f'request id={random.getrandbits(48):012x} path=/api/v1/{unit}/{random.randrange(900)} status=200 took={random.randrange(400)}ms', status=200)
    elif n < .7: say('DEBUG', unit, f'cache {random.choice(["hit", "miss"])} for key {unit}:{random.randrange(10**6)}')
    elif n < .85: say('INFO', unit, f'connection {random.randrange(64)} from 10.0.{random.randrange(9)}.{random.randrange(250)} opened')
    elif n < .95: say('INFO', unit, f'job {random.randrange(10**5)} done, {random.randrange(5000)} rows in {random.random() * 3:.2f} s')
    elif n < .98: say('WARNING', unit, f'pool is {random.randrange(80, 99)}% full, {random.randrange(5, 40)} waiting')
    elif i % 3 == 0: say('INFO', unit, f'reloaded configuration, {random.randrange(30)} keys changed')
    if i in (count // 3, count * 2 // 3):
        say('ERROR', unit, f'upstream payments refused the connection after 3 attempts, order {i} is not booked')
        try:
            {}['order']
        except KeyError:
            if kind == 'plain':
                print(traceback.format_exc(), end='')
'''
SERVE = '''"""Answers requests on 127.0.0.1 and has them asked for: serve.py COUNT"""
import http.server, sys, threading, urllib.error, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        n = int(self.path.rsplit('/', 1)[1])
        self.send_response(404 if n % 41 == 40 else 500 if n % 97 == 96 else 200)
        self.end_headers()
        self.wfile.write(b'x' * 20)
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for n in range(int(sys.argv[1])):
    try:
        urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/{["items", "orders", "static"][n % 3]}/{n}').read()
    except urllib.error.HTTPError:
        pass
'''
RECORDS = '''"""Records as JSON: records.py FORM COUNT"""
import json, random, sys
random.seed(3)
words = ['queue', 'window', 'ledger', 'parser', 'router', 'cache', 'index', 'session']
rows = [{'id': i, 'name': f'{random.choice(words)}-{i}', 'active': random.random() < .8, 'price': round(random.random() * 100, 2), 'tags': random.sample(words, 3),
         'owner': {'id': random.randrange(90), 'team': random.choice(['core', 'edge', 'data'])}, 'history': [{'at': 1772000000 + i * 60 + k, 'state': random.choice(['new', 'open', 'done'])}
         for k in range(random.randrange(4))], 'note': None if i % 3 else 'checked by hand'} for i in range(int(sys.argv[2]))]
if sys.argv[1] == 'pretty': print(json.dumps({'page': 1, 'total': len(rows), 'items': rows}, indent=2))
elif sys.argv[1] == 'line': print(json.dumps({'page': 1, 'total': len(rows), 'items': rows}))
else: print('\\n'.join(json.dumps(row) for row in rows))
'''


def repository(root, folder):
    git = ['git', '-C', str(folder), '-c', 'user.name=A. Dev', '-c', 'user.email=dev@example.org']
    folder.mkdir(parents=True)
    subprocess.run([*git, 'init', '-q', '-b', 'main'], check=True)
    random.seed(5)
    copy_of(root, folder / 'whole')
    files = sorted(p for p in (folder / 'whole').rglob('*') if p.is_file())
    env = {'PATH': '/usr/bin:/bin', 'HOME': '/src/user'}
    for at in range(0, len(files), 4):
        for path in files[at:at + 4]:
            target = folder / path.relative_to(folder / 'whole')
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        date = f'2026-01-{1 + at // 40 % 28:02}T{at % 24:02}:11:12Z'
        subprocess.run([*git, 'add', '--', ':!whole'], check=True, env=env)
        words = ' '.join(random.sample(WORDS, 4))
        subprocess.run([*git, 'commit', '-q', '-m', f'{files[at].stem}: {words}\n\nWhat it does, and why: {words}.'], check=True,
                       env={**env, 'GIT_AUTHOR_DATE': date, 'GIT_COMMITTER_DATE': date})
    shutil.rmtree(folder / 'whole')


def changes(folder):
    """Edits, conflicts and new files on top of the repository."""
    git = ['git', '-C', str(folder), '-c', 'user.name=A. Dev', '-c', 'user.email=dev@example.org']
    sources = sorted((folder / 'common').rglob('*.c'))
    subprocess.run([*git, 'checkout', '-q', '-b', 'other'], check=True)
    for path in sources[:30]:
        path.write_text(path.read_text().replace('return r;', 'return r; /* the other way */').replace('static int', 'static long', 1))
    subprocess.run([*git, 'commit', '-q', '-am', 'other: the other way'], check=True)
    subprocess.run([*git, 'checkout', '-q', 'main'], check=True)
    for path in sources[:30]:
        path.write_text(path.read_text().replace('return r;', 'return r; /* this way */').replace('static int', 'static short', 1))
    subprocess.run([*git, 'commit', '-q', '-am', 'main: this way'], check=True)


def make(root, src):
    if (src / 'made').exists():
        return
    src.mkdir(exist_ok=True)
    (src / 'user').mkdir(exist_ok=True)
    copy_of(root, src / 'project')
    copy_of(root, src / 'broken')
    header = src / 'broken/include/ctxpipe/event.h'
    header.write_text(header.read_text().replace('  size_t len;\n', '  size_t length;\n', 1))
    c_files(src / 'app', 160)
    c_files(src / 'app-broken', 160, broken=(40, 91))
    c_files(src / 'app-small', 36, broken=(17,), warns=False)
    c_tests(src / 'checks', 300, ())
    c_tests(src / 'checks-broken', 300, (77, 201))
    python_tests(src / 'py', 8, 30, ())
    python_tests(src / 'py-broken', 8, 30, {(1, 3), (4, 20), (6, 7)})
    python_tests(src / 'py-ruin', 12, 30, {(f, i) for f in range(12) for i in range(0, 30, 4)})
    node_tests(src / 'js', 8, 30, ())
    node_tests(src / 'js-broken', 8, 30, {(2, 5), (5, 6), (7, 7)})
    rust_project(src / 'rust', 90, set(range(0, 90, 2)), (), set())
    rust_project(src / 'rust-broken', 60, set(range(0, 60, 2)), {4, 11, 19, 33}, set())
    rust_project(src / 'rust-failing', 30, (), (), {(3, 4), (17, 9)})
    go_project(src / 'go', 30, set())
    go_project(src / 'go-failing', 30, {(4, 5), (20, 2)})
    go_project(src / 'go-broken', 200, set(), range(0, 200, 2))
    java_project(src / 'java', 40)
    checks_of_memory(src / 'memory')
    write(src / 'run', {'service.py': SERVICE, 'serve.py': SERVE, 'records.py': RECORDS})
    crates(src / 'crates', 240)
    write(src / 'npm2', {'package.json': '{"name": "demo", "version": "1.0.0", "dependencies": {"react": "15.0.0", "react-dom": "18.0.0"}}\n'})
    repository(root, src / 'repo')
    changes(src / 'repo')
    (src / 'made').touch()
