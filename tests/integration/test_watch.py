"""`ctxpipe watch`: what agents write is read as it is written, and counted once however often the watch dies."""
import json
import os
import signal

from harness import check, main, same, test


def records(session, prompts, start=0):
    for n in range(start, prompts):
        head = {'sessionId': session, 'timestamp': f'2026-01-02T00:{n // 60:02}:{n % 60:02}.000Z', 'cwd': '/x'}
        yield head | {'parentUuid': f'{session}-a{n - 1}' if n else None, 'type': 'user', 'uuid': f'{session}-u{n}', 'message': {'role': 'user', 'content': f'question {n}'}}
        yield head | {'parentUuid': f'{session}-u{n}', 'type': 'assistant', 'uuid': f'{session}-a{n}', 'requestId': f'{session}-r{n}',
                      'message': {'id': f'{session}-m{n}', 'model': 'm', 'content': [{'type': 'text', 'text': 'yes'}], 'usage': {'input_tokens': 100 + n, 'output_tokens': 1}}}


def as_lines(some):
    return ''.join(json.dumps(record) + '\n' for record in some)


def billed(prompts):
    return sum(100 + n for n in range(prompts))


class Watch:
    def __init__(self, place, *arguments):
        self.place = place
        self.output = place.start('ctxpipe', 'watch', *arguments)
        self.output.wait_for('following')

    def until(self, input_tokens):
        """Waits for lines of the watch until the pipeline has billed so much."""
        while True:
            got = int(self.place.ctxpipe('spend', '--json').json()['totals']['input'])
            if got >= input_tokens:
                same(got, input_tokens, 'billed tokens')
                return
            self.output.wait_for('new event')

    def kill(self, how=signal.SIGKILL):
        self.output.process.send_signal(how)
        return self.output.finish()


def append(path, text):
    with open(path, 'a') as file:
        file.write(text)


def settled(place):
    """What is told of all sessions, without what depends on when it was read."""
    out = place.ctxpipe('spend', '--json', '--by', 'message').json()
    return {key: out[key] for key in ('totals', 'bands', 'views', 'tools', 'messages', 'potential')}


@test
def a_session_that_is_written_is_followed_line_by_line(place):
    file = place.write('p/s1.jsonl', as_lines(records('s1', 1)))
    with place.pipeline():
        watch = Watch(place, place.root / 'p')
        watch.until(billed(1))
        text = as_lines(records('s1', 3, 1))
        append(file, text[:-50])  # the last line is not whole yet
        watch.until(billed(2))
        append(file, text[-50:])
        watch.until(billed(3))
        same(watch.kill(signal.SIGTERM), 0, 'exit code of a watch that was ended')
        check('within this line' not in watch.output.text, f'a line that was being written is named as torn: {watch.output.text}')


@test
def new_sessions_and_folders_are_found_and_other_files_are_not(place):
    place.mkdir('p')
    with place.pipeline():
        watch = Watch(place, place.root / 'p')
        place.write('p/one/s1.jsonl', as_lines(records('s1', 1)))
        watch.until(billed(1))
        place.write('p/one/two/three/s2.jsonl', as_lines(records('s2', 2)))
        watch.until(billed(1) + billed(2))
        place.write('p/one/notes.txt', as_lines(records('s3', 5)))
        place.write('elsewhere.jsonl', as_lines(records('s4', 3)))
        os.rename(place.root / 'elsewhere.jsonl', place.root / 'p/s4.jsonl')
        watch.until(billed(1) + billed(2) + billed(3))
        watch.kill(signal.SIGTERM)


@test
def a_named_file_is_followed_and_its_neighbours_are_not(place):
    file = place.write('p/s1.jsonl', as_lines(records('s1', 1)))
    with place.pipeline():
        watch = Watch(place, file)
        place.write('p/s2.jsonl', as_lines(records('s2', 5)))
        append(file, as_lines(records('s1', 2, 1)))
        watch.until(billed(2))
        watch.kill(signal.SIGTERM)


@test
def a_watch_that_is_killed_again_and_again_neither_repeats_nor_loses(place):
    total, files = 40, [place.write(f'p/{name}.jsonl', '') for name in ('s1', 's2')]
    with place.pipeline():
        done = 0
        while done < total:
            watch = Watch(place, place.root / 'p')
            for path in files:
                append(path, as_lines(records(path.stem, done + 7, done)))
            watch.output.wait_for('new event')
            watch.kill()
            for path in files:
                append(path, as_lines(records(path.stem, done + 10, done + 7)))
            done += 10
        watch = Watch(place, '--idle', '1', place.root / 'p')
        watch.until(2 * billed(total))
        watch.kill(signal.SIGTERM)
        place.ctxpipe('import', place.root / 'p')
        followed, events = settled(place), place.ctxpipe('import', place.root / 'p').out
        check(events.startswith('0 new events'), f'an import after it finds something: {events}')
        same(place.running()['agents'][0]['refused'], 0, 'refused events')
    whole = place.ctxpipe('report', '--json', '--by', 'message', place.root / 'p').json()
    for key, got in followed.items():
        same(got, whole[key], f'{key} as followed, and as imported at once')


@test
def a_file_that_is_shortened_or_rewritten_is_named_and_goes_on(place):
    file = place.write('p/s1.jsonl', as_lines(records('s1', 3)))
    with place.pipeline():
        watch = Watch(place, place.root / 'p')
        watch.until(billed(3))
        file.write_text(as_lines(records('s1', 1)))
        watch.output.wait_for('s1.jsonl: is shorter than what was read of this session before')
        append(file, as_lines(records('s1', 5, 1)))
        watch.until(billed(5))
        watch.kill(signal.SIGTERM)


@test
def imports_of_the_same_files_do_not_end_a_watch_and_count_nothing_twice(place):
    file = place.mkdir('p') / 's1.jsonl'
    append(file, as_lines(records('s1', 1)))
    with place.pipeline():
        watch = Watch(place, place.root / 'p')
        for n in range(1, 9):
            append(file, as_lines(records('s1', n + 1, n)))
            done = place.ctxpipe('import', place.root / 'p', code=None)
            check(done.code == 0 or 'another import or watch reads the same sessions' in done.err, f'exit code {done.code}: {done.err}')
        append(file, as_lines(records('s1', 10, 9)))
        watch.until(billed(10))
        same(watch.kill(signal.SIGTERM), 0, 'exit code of a watch that was ended')


@test
def a_session_that_is_silent_has_ended(place):
    file = place.write('p/s1.jsonl', as_lines(records('s1', 1)))
    with place.pipeline():
        watch = Watch(place, '--idle', '1', place.root / 'p')
        append(file, as_lines(records('s1', 2, 1)))
        tail = place.start('ctxpipe', 'tail', '--from-start', 'spend')
        tail.wait_for('"final":true')
        tail.process.terminate()
        watch.until(billed(2))
        watch.kill(signal.SIGTERM)


main()
