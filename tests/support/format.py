"""scripts/format: clang-format over the tree in two passes, see .clang-format."""
import pathlib
import re
import subprocess
import sys

COLUMNS = 140
ROOTS = ('include', 'common', 'daemons', 'agents', 'tests')


def sources():
    return sorted(p for root in ROOTS for p in pathlib.Path(root).rglob('*') if p.suffix in ('.c', '.h', '.cc') and 'cases' not in p.parts)


def style(columns):
    text = re.sub(r'^ColumnLimit:.*$', f'ColumnLimit: {columns}', pathlib.Path('.clang-format').read_text(), flags=re.M)
    text = text.replace('ReflowComments: false', 'ReflowComments: true')  # only of the lines that are too long
    return ' '.join(['{', ', '.join(line for line in text.splitlines() if line and not line.startswith('#')), '}'])


def run(path, text, *arguments):
    return subprocess.run(['clang-format', f'--assume-filename={path}', *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def over_long(text):
    return [f'--lines={n}:{n}' for n, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS]


def formatted(path, text):
    long_lines = over_long(text)
    if long_lines:
        text = run(path, text, '--style=' + style(COLUMNS), *long_lines)
    return run(path, text, '--style=file')


def main():
    check = sys.argv[1:] == ['--check']
    if sys.argv[1:] and not check:
        sys.exit('usage: scripts/format [--check]')
    wrong = 0
    for path in sources():
        text = path.read_text()
        after = formatted(path, text)
        if after != text and not check:
            path.write_text(after)
            print(f'{path}: formatted')
        elif after != text:
            wrong += 1
            print(f'{path}: is not formatted; run scripts/format')
        for option in over_long(after):
            wrong += check
            print(f'{path}:{option.split(":")[1]}: is longer than {COLUMNS} columns and cannot be broken by clang-format; break it by hand')
    sys.exit(1 if wrong else 0)


main()
