"""scripts/lint: clang-tidy (.clang-tidy) and cppcheck over the sources that the build compiles."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get('CTXP_LINT_BUILD', 'build'))
DATABASE = BUILD / 'lint'
CPPCHECK = ['cppcheck', '--enable=warning,portability,performance', '--inline-suppr', '--quiet', '--error-exitcode=1',
            '--library=tests/support/cppcheck.cfg', '--suppress=missingIncludeSystem', '--suppress=varFuncNullUB', '--suppress=ctuuninitvar',  # NULL is a pointer here; out-parameters
             '--suppress=*:/usr/include/*', '--template={file}:{line}: {severity}: {message} [{id}]']


def compiled():
    """The sources of the compilation database, generated ones left out; and a database with each once: a second run over the same
    file in one process makes clang-tidy 14 see uninitialised va_lists."""
    root, found = pathlib.Path.cwd(), {}
    for entry in json.loads((BUILD / 'compile_commands.json').read_text()):
        path = (pathlib.Path(entry['directory']) / entry['file']).resolve()
        if path.is_relative_to(root) and not path.is_relative_to(BUILD.resolve()):
            found.setdefault(str(path.relative_to(root)), entry)
    DATABASE.mkdir(exist_ok=True)
    (DATABASE / 'compile_commands.json').write_text(json.dumps(list(found.values())))
    return sorted(found)


def tidy(path):
    done = subprocess.run(['clang-tidy', '-p', str(DATABASE), '--quiet', '--extra-arg=-Wno-unknown-warning-option', path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.endswith(('warnings generated.', 'warning generated.'))]
    return path, done.returncode, '\n'.join(lines)


def cppcheck():
    where = BUILD / 'cppcheck'
    where.mkdir(exist_ok=True)
    arguments = [f'--project={DATABASE}/compile_commands.json', f'--cppcheck-build-dir={where}', f'-j{os.cpu_count()}', f'-i{BUILD}']
    done = subprocess.run(CPPCHECK + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return 'cppcheck', done.returncode, done.stdout.strip()


def main():
    if not (BUILD / 'compile_commands.json').exists():
        sys.exit(f'scripts/lint: {BUILD}/compile_commands.json is missing; run scripts/build first')
    paths = compiled()
    paths = sys.argv[1:] or paths
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(tidy, path) for path in paths] + ([] if sys.argv[1:] else [pool.submit(cppcheck)])
        for job in jobs:
            name, code, output = job.result()
            failed += code != 0
            print(f'not ok - {name}\n{output}' if code else f'ok - {name}', flush=True)
    sys.exit(1 if failed else 0)


main()
