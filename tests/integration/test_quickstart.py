"""scripts/quickstart, as somebody who has just cloned meets it: a copy of the tree, nothing built, no home, no network."""
import os
import shutil
import subprocess

from harness import SOURCE, check, main, same, test


def clone(place):
    """What git would hand out: the files that it knows, where it is there, else all that is not built."""
    target = place.mkdir('clone')
    listed = subprocess.run(['git', '-C', SOURCE, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    names = [name for name in listed.stdout.decode().split('\0') if name] if listed.returncode == 0 else None
    if names is None:
        shutil.copytree(SOURCE, target, dirs_exist_ok=True, symlinks=True, ignore=lambda folder, found: [name for name in found if name == '.git' or name.startswith('build')])
        return target
    for name in names:
        if (SOURCE / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, target / name, follow_symlinks=False)
    return target


@test
def a_fresh_clone_comes_to_its_first_bill_and_leaves_nothing_but_the_build(place):
    root = clone(place)
    check(not (root / 'build').exists() and not (root / '.git').exists(), 'the copy is no fresh one')
    before = {str(path) for path in root.rglob('*')}
    place.env['TMPDIR'] = str(place.mkdir('tmp'))
    place.env.update(HOME=str(place.mkdir('nobody')), CCACHE_DISABLE='1')  # meson takes a compiler's cache where there is one
    done = place.run(root / 'scripts/quickstart', '--no-deps', timeout=1100)
    for words in ('$ ctxpipe up -f', 'ready: the collector accepts events', "; 'ctxpipe spend' shows the bill", 'ctxwm saved', 'Potential savings',
                  'input in all (billed)', 'The bill by band', 'The bill by view', 'Tool output', 'has ended'):
        check(words in done.out, f'{words!r} is not printed: {done}')
    same(done.err.strip(), '', 'what it complains of')
    same(list((place.root / 'tmp').iterdir()), [], 'temporary files that it left')
    same([line for _, line in place.processes()], [], 'processes that it left')
    after = {str(path) for path in root.rglob('*') if path.relative_to(root).parts[0] != 'build'}
    same(after ^ before, set(), 'files of the clone that came or went, without the build')
    same(os.listdir(place.root / 'nobody'), [], 'files in the home')


@test
def an_option_that_quickstart_does_not_know_is_refused(place):
    done = place.run(SOURCE / 'scripts/quickstart', '--nosuch', code=2)
    same(done.err.strip(), 'usage: scripts/quickstart [--no-deps]', 'what it says')


main()
