"""opencode's own storage: a session is the same one whether it stands in the database, in files or in an export."""
import contextlib
import json
import os
import sqlite3
import time

from harness import Watch, check, main, same, test

START = 1767312000000


def tokens(n):
    return {'input': 10 + n, 'output': 5, 'reasoning': 2, 'cache': {'read': 1000 * n, 'write': 100}}


class Session:
    """A session as opencode has it: rows of messages and parts, each a pair of an id and what it holds beside it."""

    def __init__(self, name, parent=None, begin=0):
        self.id, self.parent, self.begin = f'ses_{name}', parent, START + begin
        self.messages = []
        self.clock = self.begin

    def add(self, data, *parts):
        self.clock += 1000
        number = len(self.messages)
        data = data | {'time': {'created': self.clock} | data.get('time', {})}
        rows = [(f'prt_{self.id}_{number:03}_{i:02}', part) for i, part in enumerate(parts)]
        self.messages.append((f'msg_{self.id}_{number:03}', data, rows))
        return self

    def ask(self, text):
        return self.add({'role': 'user', 'agent': 'build', 'model': {'providerID': 'anthropic', 'modelID': 'claude-sonnet-4-5'}}, {'type': 'text', 'text': text})

    def reply(self, *parts, done=True, **more):
        data = {'role': 'assistant', 'modelID': 'claude-sonnet-4-5', 'providerID': 'anthropic', 'cost': 0.25, 'path': {'cwd': '/x', 'root': '/x'},
                'tokens': tokens(len(self.messages))} | more
        if done:
            data['time'] = {'completed': self.clock + 1500}
        return self.add(data, {'type': 'step-start'}, *parts, {'type': 'step-finish', 'tokens': data['tokens'], 'cost': 0.25, 'reason': 'stop'})

    @property
    def info(self):
        info = {'id': self.id, 'projectID': 'p1', 'directory': '/home/dev/x', 'title': 'A “title”', 'version': '1.0.0', 'time': {'created': self.begin, 'updated': self.clock}}
        return info | ({'parentID': self.parent} if self.parent else {})

    def export(self):
        return {'info': self.info, 'messages': [
            {'info': data | {'id': name, 'sessionID': self.id}, 'parts': [part | {'id': id, 'sessionID': self.id, 'messageID': name} for id, part in parts]}
            for name, data, parts in self.messages]}


def tool(name, call, given, output, **metadata):
    return {'type': 'tool', 'tool': name, 'callID': call, 'state': {'status': 'completed', 'input': given, 'output': output, 'title': 't', 'metadata': metadata, 'time': {'start': 1, 'end': 2}}}


def sessions():
    one = Session('one')
    one.ask('read the file, “please” \\ \n now')
    one.reply({'type': 'reasoning', 'text': 'hm'}, {'type': 'text', 'text': 'yes'}, tool('read', 'call_1', {'filePath': '/x/a.c', 'limit': 10}, 'int main;\n' * 400))
    one.reply(tool('bash', 'call_2', {'command': 'make -j2 all'}, ('cc -O2 -c file.c\n' * 900) + 'file.c:1: error: no\n', exit=2))
    one.reply(tool('write', 'call_3', {'filePath': '/x/b.c', 'content': 'int b;\n' * 5000}, 'ok'), tool('task', 'call_4', {'prompt': 'look'}, 'seen', sessionId='ses_child'))
    one.ask('and?')
    one.reply({'type': 'text', 'text': 'done'})
    child = Session('child', parent='ses_one', begin=3500)
    child.ask('look').reply({'type': 'text', 'text': 'seen'})
    two = Session('two', begin=90000)
    two.ask('hello').reply({'type': 'text', 'text': 'hello'})
    return [one, child, two]


SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL, title text NOT NULL, version text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session ON message (session_id, time_created, id);
CREATE INDEX part_message ON part (message_id, id);
CREATE INDEX part_session ON part (session_id);
"""


def compact(data):
    return json.dumps(data, separators=(',', ':'), ensure_ascii=False)


def store(db, session, updated=None):
    when = updated or session.clock
    db.execute('INSERT OR REPLACE INTO session VALUES (?,?,?,?,?,?,?,?,?)', (session.id, 'p1', session.parent, 's', '/home/dev/x', 't', '1', session.begin, when))
    for name, data, parts in session.messages:
        db.execute('INSERT OR REPLACE INTO message VALUES (?,?,?,?,?)', (name, session.id, data['time']['created'], when, compact(data)))
        for id, part in parts:
            db.execute('INSERT OR REPLACE INTO part VALUES (?,?,?,?,?,?)', (id, name, session.id, when, when, compact(part)))
    db.commit()


def make_database(path, some, wal=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    if wal:
        db.execute('PRAGMA journal_mode=WAL')
    db.executescript(SCHEMA)
    for session in some:
        store(db, session)
    return db


def make_files(place, some, older=False):
    for session in some:
        folders = ('session/info', 'session/message', f'session/part/{session.id}') if older else ('session/p1', 'message', 'part')
        root = 'data/project/x/storage' if older else 'data/storage'
        place.write(f'{root}/{folders[0]}/{session.id}.json', json.dumps(session.info, indent=2, ensure_ascii=False))
        for name, data, parts in session.messages:
            place.write(f'{root}/{folders[1]}/{session.id}/{name}.json', json.dumps({'id': name, 'sessionID': session.id} | data, indent=2, ensure_ascii=False))
            for id, part in parts:
                place.write(f'{root}/{folders[2]}/{name}/{id}.json', json.dumps({'id': id, 'messageID': name, 'sessionID': session.id} | part, indent=2, ensure_ascii=False))
    return place.root / 'data'


def make_exports(place, some):
    for session in some:
        place.write(f'exports/{session.id}.json', json.dumps(session.export(), indent=2, ensure_ascii=False) + '\n')
    return place.root / 'exports'


def told(place, path):
    out = place.ctxpipe('report', '--json', '--by', 'message', path).json()
    return {key: out[key] for key in ('totals', 'sessions', 'bands', 'views', 'tools', 'messages', 'potential')}


def expected(some):
    replies = [data['tokens'] for session in some for _, data, _ in session.messages if data['role'] == 'assistant']
    return {'input': sum(t['input'] for t in replies), 'cacheRead': sum(t['cache']['read'] for t in replies), 'cacheWrite5m': sum(t['cache']['write'] for t in replies),
            'output': sum(t['output'] for t in replies), 'reasoning': sum(t['reasoning'] for t in replies), 'requests': len(replies)}


@test
def the_database_the_files_and_the_exports_of_the_same_sessions_give_the_same_bill(place):
    some = sessions()
    make_database(place.root / 'db/opencode.db', some).close()
    from_database = told(place, place.root / 'db')
    for key, value in expected(some).items():
        same(from_database['totals'][key], value, key)
    for what, path in (('an export', make_exports(place, some)), ('the files', make_files(place, some))):
        got = told(place, path)
        for row in got['sessions'] + from_database['sessions']:
            row.pop('spawnedBy', None)  # told where the parent is read first, as in the database
        for key, value in from_database.items():
            same(got[key], value, f'{key} of {what}')


@test
def the_files_of_the_oldest_versions_are_read_too(place):
    some = sessions()
    same({k: told(place, make_files(place, some, older=True))['totals'][k] for k in expected(some)}, expected(some), 'totals')


@test
def a_session_that_is_come_by_in_several_ways_counts_once(place):
    some = sessions()
    make_database(place.root / 'db/opencode.db', some, wal=False).close()
    places = [make_exports(place, some), place.root / 'db/opencode.db', make_files(place, some)]
    with place.pipeline():
        for turn, path in enumerate(places):
            done = place.ctxpipe('import', path)
            same(done.out.startswith('0 new events'), turn > 0, f'import of {path} tells nothing new: {done}')
            same(done.err, '', 'complaints')
        totals = place.ctxpipe('spend', '--json').json()['totals']
        same({key: totals[key] for key in expected(some)}, expected(some), 'totals')


@test
def a_sub_agent_is_a_thread_of_the_session_that_spawned_it(place):
    make_database(place.root / 'opencode.db', sessions()).close()
    out = told(place, place.root / 'opencode.db')
    same(sorted((row['session'], row['thread']) for row in out['sessions']), [('ses_one', ''), ('ses_one', 'ses_child'), ('ses_two', '')], 'windows')
    same([row['spawnedBy'] for row in out['sessions'] if row['thread']], ['call_4'], 'the call that spawned it')
    same(out['totals']['sessions'], 2, 'sessions')


@test
def every_mechanism_has_its_denominator(place):
    make_database(place.root / 'opencode.db', sessions()).close()
    potential = told(place, place.root / 'opencode.db')['potential']
    for mechanism in ('bash', 'amnesia', 'write'):
        check(potential[mechanism]['of'] > 0, f'nothing for {mechanism} to look at: {potential}')
    check(potential['bash']['saved'] > 0 and potential['write']['saved'] > 0, f'nothing to save: {potential}')


@test
def reading_a_database_leaves_nothing_beside_it_and_sees_what_is_only_in_its_log(place):
    some = sessions()
    db = make_database(place.root / 'd/opencode.db', some[:2])
    db.close()
    before = sorted(os.listdir(place.root / 'd'))
    told(place, place.root / 'd')
    same(sorted(os.listdir(place.root / 'd')), before, 'files beside the database')
    with contextlib.closing(sqlite3.connect(place.root / 'd/opencode.db')) as db:
        store(db, some[2])  # stays in the log while this connection is open
        check('opencode.db-wal' in os.listdir(place.root / 'd'), 'no log')
        same(told(place, place.root / 'd')['totals']['requests'], expected(some)['requests'], 'requests')


@test
def a_database_that_is_written_is_followed_message_by_message(place):
    one = Session('one')
    one.ask('hello').reply({'type': 'text', 'text': 'yes'})
    now = one.clock
    with contextlib.closing(make_database(place.root / 'd/opencode.db', [])) as db, place.pipeline():
        store(db, one, updated=int(time.time() * 1000))
        watch = Watch(place, place.root / 'd')
        watch.until(expected([one])['input'])
        one.ask('go on')
        store(db, one, updated=now + 10 ** 15)
        done = expected([one])['input']
        one.reply({'type': 'text', 'text': 'half'}, done=False)
        store(db, one, updated=now + 10 ** 15)
        name, data, parts = one.messages[-1]
        one.messages[-1] = (name, data | {'time': data['time'] | {'completed': 5}, 'tokens': tokens(9)}, parts + [(parts[-1][0] + 'x', {'type': 'text', 'text': 'whole'})])
        store(db, one, updated=now + 10 ** 15)
        watch.until(expected([one])['input'])
        check(expected([one])['input'] > done, 'nothing new was stored')
        check('differs' not in watch.output.text, f'a session that went on is taken for another: {watch.output.text}')
        watch.kill()


@test
def what_is_no_database_of_opencode_is_named(place):
    with contextlib.closing(sqlite3.connect(place.root / 'other.db')) as db:
        db.execute('CREATE TABLE session (id text)')
    done = place.ctxpipe('report', place.root / 'other.db', code=1)
    check("other.db: is a database, but not opencode's: it lacks the tables session, message and part" in done.err, f'{done}')
    path = place.root / 'd/opencode.db'
    make_database(path, sessions(), wal=False).close()
    whole = path.read_bytes()
    for name, content in (('cut', whole[:len(whole) // 2]), ('holed', whole[:4096] + b'\xff' * (len(whole) - 4096))):
        done = place.ctxpipe('report', place.write(f'{name}.db', content), code=1)
        check(f'{name}.db: the database cannot be read: ' in done.err, f'{done}')


@test
def a_record_that_is_no_json_is_told_and_the_rest_counts(place):
    some = sessions()
    path = place.root / 'opencode.db'
    with contextlib.closing(make_database(path, some)) as db:
        db.execute("UPDATE part SET data = '{\"type\":' WHERE id = 'prt_ses_two_000_00'")
        db.commit()
    done = place.ctxpipe('report', '--json', path, code=1)
    check('opencode.db: session ses_two: 1 of its records could not be read and was passed over' in done.err, f'{done}')
    totals = done.json()['totals']
    same({key: totals[key] for key in expected(some)}, expected(some), 'totals')


main()
